package setup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchbay/rspec/step"
)

const maxLinks = 40 // symbolic links on the path of a place; the kernel's own limit

// place is the target folder of an install.
type place struct {
	fd      int
	path    string // as requested
	restore func() // switches from the account back to root

	// The folder that openParent returned last; -1: none.
	parent     int
	parentPath string
}

// openPlace opens the folder name, an absolute path, and creates missing folders. At the
// account's home, it switches to the account until Close, so that new folders belong to the
// account. It follows a symbolic link in the path only if root owns the link, since a user's
// link could lead root anywhere. If o is not nil, the folders on the path that o lists get their
// owners and modes, from the top down.
func openPlace(name string, user account, o *owners) (_ *place, err error) {
	p := &place{path: path.Clean(name), restore: func() {}, parent: -1}
	var home unix.Stat_t
	isBeforeHome := user.uid != 0 && user.home != "/" && unix.Stat(user.home, &home) == nil
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			p.restore()
			err = fmt.Errorf("the folder %s cannot be opened or created: %w", p.path, err)
		}
	}()
	links := 0
	for rest := splitPath(p.path); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next, target, err := openSubfolder(fd, part.name)
		if err != nil {
			return nil, err
		}
		if target != "" {
			if links++; links > maxLinks {
				return nil, unix.ELOOP
			}
			// Of the folders of the target, only the last one stands for a folder on the path.
			inside := splitPath(target)
			for i := range inside {
				inside[i].path = ""
			}
			if len(inside) > 0 {
				inside[len(inside)-1].path = part.path
			}
			rest = append(inside, rest...)
			if !path.IsAbs(target) {
				continue
			}
			if next, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return nil, err
			}
			part.path = ""
		}
		unix.Close(fd)
		fd = next
		if err := o.setFolder(fd, part.path); err != nil {
			return nil, fmt.Errorf("%s: %w", part.path, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, err
		}
		if isBeforeHome && st.Dev == home.Dev && st.Ino == home.Ino {
			isBeforeHome = false
			if p.restore, err = user.actAs(); err != nil {
				p.restore = func() {}
				return nil, err
			}
		}
	}
	p.fd = fd
	return p, nil
}

// pathPart is a part of a path.
type pathPart struct {
	name string
	path string // up to and with this part, as requested; empty inside the target of a link
}

func splitPath(text string) (parts []pathPart) {
	path := ""
	for name := range strings.SplitSeq(text, "/") {
		if name != "" && name != "." {
			path += "/" + name
			parts = append(parts, pathPart{name, path})
		}
	}
	return parts
}

// setFolder gives the folder fd its owner and mode if it is listed as path. It never changes the
// root of the file system.
func (o *owners) setFolder(fd int, path string) error {
	if o == nil {
		return nil
	}
	i := slices.IndexFunc(o.archive.Folders, func(f step.Folder) bool { return f.Path == path })
	if i < 0 {
		return nil
	}
	f := &o.archive.Folders[i]
	mode, err := strconv.ParseUint(f.Mode, 8, 9)
	if err != nil {
		return err
	}
	var root, st unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Fstat(fd, &st)); err != nil {
		return err
	}
	if root.Dev == st.Dev && root.Ino == st.Ino { // a link led here
		return nil
	}
	own, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	w := o.inNode(int64(f.User), int64(f.Group))
	if err := w.of(own); err != nil {
		return err
	}
	return unix.Fchmod(own, uint32(mode))
}

// sync writes everything on the file system of the place to the disk.
func (p *place) sync() error {
	fd, err := unix.Openat(p.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(fd), unix.Close(fd))
}

// openSubfolder opens the folder name in the folder fd, and creates it if it is missing. If
// name is a symbolic link of root, it returns the link's target instead.
func openSubfolder(fd int, name string) (next int, target string, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	next, err = unix.Openat(fd, name, flags, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdirat(fd, name, 0o755); err == nil || err == unix.EEXIST {
			next, err = unix.Openat(fd, name, flags, 0)
		}
	}
	if err != nil {
		return -1, "", fmt.Errorf("%s: %w", name, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(next, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return next, "", nil
	}
	defer unix.Close(next)
	switch {
	case err != nil:
		return -1, "", err
	case st.Mode&unix.S_IFMT != unix.S_IFLNK:
		return -1, "", fmt.Errorf("%s: %w", name, unix.ENOTDIR)
	case st.Uid != 0:
		return -1, "", fmt.Errorf("%s is a symbolic link that a user owns, and is not followed", name)
	}
	room := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(next, "", room)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return -1, string(room[:n]), err
}

// Close closes the folders, and switches from the account back to root.
func (p *place) Close() {
	if p.parent >= 0 {
		unix.Close(p.parent)
	}
	unix.Close(p.fd)
	p.restore()
}

const resolveFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openFolder opens a subfolder of the place by its clean name.
func (p *place) openFolder(name string) (int, error) {
	return unix.Openat2(p.fd, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolveFlags})
}

// openParent returns the folder that contains a clean name, and the last part of the name.
// The folder stays open until openParent opens another folder.
func (p *place) openParent(name string) (fd int, base string, err error) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if p.parent >= 0 && dir == p.parentPath {
		return p.parent, base, nil
	}
	fd, err = p.openFolder(dir)
	if err != nil {
		return -1, "", explainError(dir, err)
	}
	if p.parent >= 0 {
		unix.Close(p.parent)
	}
	p.parent, p.parentPath = fd, dir
	return fd, base, nil
}

func explainError(name string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%q is, or is below, an existing symbolic link, and links are not followed", name)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%q is, or is below, an existing file", name)
	}
	return fmt.Errorf("%q: %w", name, err)
}
