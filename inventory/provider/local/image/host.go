package image

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// findHost returns the key of the image of this host. It builds the skeleton in the first call, and again if
// the host's stamp has changed or the image was removed.
func (s *Store) findHost(ctx context.Context) (key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp := s.hostStamp()
	if s.key != "" && s.stamp == stamp {
		if _, err := os.Lstat(filepath.Join(s.dir, s.key)); err == nil {
			return s.key, nil
		}
	}
	if s.Building != nil {
		ended := s.Building(s.key != "")
		defer func() { ended(err) }()
	}
	b, err := s.startBuild(ctx)
	if err != nil {
		return "", err
	}
	defer b.discard()
	if err := buildSkeleton(ctx, s.host, b.root); err != nil {
		return "", fmt.Errorf("cannot build the image %q: %w", Host, err)
	}
	if key, err = b.publish(ctx, Host, true); err != nil {
		return "", err
	}
	s.key, s.stamp = key, stamp
	return key, nil
}

// hostStamp returns a text that changes when the packages or accounts of the host change.
func (s *Store) hostStamp() string {
	var b strings.Builder
	for _, path := range [...]string{"etc", "etc/alternatives", "etc/group", "etc/passwd", "etc/ssl/certs", "usr", "var/lib/dpkg/status"} {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(s.host, path), &st) == nil {
			fmt.Fprintf(&b, "%d %d %d %d ", st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// skeleton builds the root file system of nodes that share the host's /usr.
type skeleton struct {
	*source
	ctx context.Context
	to  string

	hashes map[string]string // MD5 of configuration files as their packages ship them, by path
	groups map[string]int    // ids of the node's groups, by name
	users  map[string]int    // ids of the node's users, by name
}

// buildSkeleton builds the image of the host in the empty folder target: accounts, configuration and links, but
// no /usr. The accounts come first, since the other steps need their ids. Copied files come
// before generated ones, which do not replace them.
func buildSkeleton(ctx context.Context, hostRoot, target string) error {
	if err := CheckMerged(hostRoot); err != nil {
		return err
	}
	src, err := openSource(hostRoot)
	if err != nil {
		return err
	}
	defer src.close()
	if !src.exists("/bin/sh") {
		return errors.New("this host has no /bin/sh")
	}
	s := &skeleton{source: src, ctx: ctx, to: target, groups: map[string]int{}, users: map[string]int{}}
	s.hashes = conffiles(src.text("var/lib/dpkg/status"))
	for _, step := range [...]func() error{s.writeAccounts, s.linkMergedUsr, s.makeFolders, s.copyAllowed, s.writeFiles, s.certificates, s.writeDpkgFiles} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// conffiles returns the MD5 hashes of configuration files, by path below the root. status
// is dpkg's list of installed packages. MD5 suffices to detect changes by an operator.
func conffiles(status string) map[string]string {
	hashes := map[string]string{}
	inList := false // whether the line belongs to a list of configuration files
	for line := range strings.Lines(status) {
		if !strings.HasPrefix(line, " ") {
			inList = strings.HasPrefix(line, "Conffiles:")
			continue
		}
		if f := strings.Fields(line); inList && len(f) >= 2 && len(f[1]) == 2*md5.Size {
			hashes[strings.TrimPrefix(f[0], "/")] = f[1]
		}
	}
	return hashes
}

// linkMergedUsr copies the symbolic links of the host that lead into its merged /usr, such as
// /bin.
func (s *skeleton) linkMergedUsr() error {
	for _, name := range [...]string{"bin", "lib", "lib32", "lib64", "libo32", "libx32", "sbin"} {
		if text, to, ok := s.readLink(name); ok && strings.HasPrefix(to, "usr/") {
			if err := os.Symlink(text, filepath.Join(s.to, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFolders creates the empty folders, and the symbolic links that every Debian system has.
func (s *skeleton) makeFolders() error {
	for _, f := range emptyFolders {
		if err := s.makeFolder(f.path); err != nil {
			return err
		}
		at := filepath.Join(s.to, f.path)
		if gid, ok := s.groups[f.group]; ok {
			if err := os.Chown(at, 0, gid); err != nil {
				return err
			}
		}
		if err := unix.Chmod(at, f.mode); err != nil {
			return err
		}
	}
	for _, l := range [...][2]string{{"/run", "var/run"}, {"/run/lock", "var/lock"}, {"../proc/self/mounts", "etc/mtab"}, {"../mail", "var/spool/mail"}} {
		if err := os.Symlink(l[0], filepath.Join(s.to, l[1])); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder creates a folder and its missing parents in the skeleton. Every user can read them.
func (s *skeleton) makeFolder(path string) error {
	at := s.to
	for part := range strings.SplitSeq(path, "/") {
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := os.Chmod(at, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// writeFile creates a file and its parent folders in the skeleton. It leaves an existing file unchanged.
func (s *skeleton) writeFile(path, text string, mode fs.FileMode) error {
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		if err := s.makeFolder(path[:i]); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(filepath.Join(s.to, path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func (s *skeleton) copyAllowed() error {
	for _, a := range allowed {
		path, glob := strings.CutSuffix(a.path, "*")
		if !glob {
			if err := s.copyPath(a.path, a.rule, 0); err != nil {
				return err
			}
			continue
		}
		parent, begin := filepath.Dir(path), filepath.Base(path)
		for _, e := range s.entries(parent) {
			if strings.HasPrefix(e.Name(), begin) {
				if err := s.copyPath(parent+"/"+e.Name(), a.rule, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isLinkKept reports whether a link to target is copied. The target must be the same in a node, for example
// below /usr. A target in /etc must be a link that isLinkKept accepts, too. depth is the number of links
// that were followed before.
func (s *skeleton) isLinkKept(target string, depth int) bool {
	if !isSameInNode(target) || depth > 8 {
		return false
	}
	if !strings.HasPrefix(target, "etc/") {
		return true
	}
	_, next, ok := s.readLink(target)
	return ok && s.isLinkKept(next, depth+1)
}

// copyPath copies a link, a file, or the files below a folder from the host. It silently skips what the rule r
// does not allow, and what cannot be read. depth is the number of folders above path that were copied.
func (s *skeleton) copyPath(path string, r rule, depth int) error {
	if isUnneeded(path) || depth > 8 {
		return nil
	}
	if text, to, ok := s.readLink(path); ok {
		if !s.isLinkKept(to, 0) {
			return nil
		}
		if err := s.makeFolder(filepath.Dir(path)); err != nil {
			return err
		}
		err := os.Symlink(text, filepath.Join(s.to, path))
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	f, st, err := s.open(path)
	if err != nil {
		return nil
	}
	f.Close()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return s.copyFile(path, r)
	case r == public:
		return nil
	}
	for _, e := range s.entries(path) {
		if err := s.copyPath(path+"/"+e.Name(), r, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file from the host, with its mode and time. It silently skips a file that the rule r
// does not allow, or that cannot be read.
func (s *skeleton) copyFile(path string, r rule) error {
	if r == links || r == shipped && s.hashes[path] == "" {
		return nil
	}
	b, st, err := s.read(path)
	if err != nil {
		return nil
	}
	if isEmptied(path) {
		b = nil
	}
	if strings.HasPrefix(path, "var/lib/dpkg/alternatives/") && !namesOnlySystemPaths(strings.ReplaceAll(string(b), "\n", "\x00")) {
		return nil
	}
	if sum := md5.Sum(b); r == shipped && s.hashes[path] != hex.EncodeToString(sum[:]) {
		return nil
	}
	if err := s.writeFile(path, string(b), fs.FileMode(st.Mode&0o755)); err != nil {
		return err
	}
	t := time.Unix(st.Mtim.Unix())
	return os.Chtimes(filepath.Join(s.to, path), t, t)
}
