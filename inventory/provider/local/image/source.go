package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// source reads files of the host. It returns only files that root owns, every user can read and
// only root can write. It follows no symbolic links.
type source struct {
	root *os.File
	// owner of readable files: root, except in tests.
	owner uint32
}

// maxSource bounds the size of a copied file of the host.
const maxSource = 64 << 20

func openSource(root string) (*source, error) {
	f, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	return &source{root: f, owner: 0}, nil
}

func (s *source) close() { s.root.Close() }

// errPrivate means that a node must not see the file.
var errPrivate = errors.New("it is not readable for every user")

// open opens a file or folder of the host without following links. It fails with errPrivate unless the file and
// all folders above it are public.
func (s *source) open(path string) (*os.File, *unix.Stat_t, error) {
	at := int(s.root.Fd())
	opened := -1
	defer func() {
		if opened >= 0 {
			unix.Close(opened)
		}
	}()
	for {
		part, rest, more := strings.Cut(path, "/")
		flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
		if more {
			flags |= unix.O_DIRECTORY
		}
		fd, err := unix.Openat(at, part, flags, 0)
		if err != nil {
			return nil, nil, err
		}
		if opened >= 0 {
			unix.Close(opened)
		}
		opened, at = fd, fd
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, nil, err
		}
		if !s.isPublic(&st) {
			return nil, nil, errPrivate
		}
		if !more {
			f := os.NewFile(uintptr(fd), path)
			opened = -1
			return f, &st, nil
		}
		path = rest
	}
}

// isPublic reports whether every user can read a file or folder and only root can write it.
func (s *source) isPublic(st *unix.Stat_t) bool {
	if st.Uid != s.owner || st.Mode&0o022 != 0 {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return st.Mode&0o005 == 0o005
	case unix.S_IFREG:
		return st.Mode&0o004 != 0
	}
	return false
}

// read returns the content of a public regular file.
func (s *source) read(path string) ([]byte, *unix.Stat_t, error) {
	f, st, err := s.open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil, errPrivate
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(b) > maxSource {
		err = fmt.Errorf("/%s is larger than %d MiB", path, maxSource>>20)
	}
	return b, st, err
}

// text returns "" if the file is missing or not public.
func (s *source) text(path string) string {
	b, _, err := s.read(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// exists follows symbolic links.
func (s *source) exists(path string) bool {
	fd, err := unix.Openat2(int(s.root.Fd()), strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// entries returns the sorted entries of a folder, and none if the folder is not public.
func (s *source) entries(path string) []fs.DirEntry {
	f, st, err := s.open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil
	}
	return entries
}

// readLink returns the text of the symbolic link at name in a public folder, and its target
// as a clean path below the root. ok is false if there is no such link.
func (s *source) readLink(name string) (text, target string, ok bool) {
	dir := path.Dir(name)
	fd := int(s.root.Fd())
	if dir != "." {
		f, _, err := s.open(dir)
		if err != nil {
			return "", "", false
		}
		defer f.Close()
		fd = int(f.Fd())
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, path.Base(name), b)
	if err != nil {
		return "", "", false
	}
	text = string(b[:n])
	if path.IsAbs(text) {
		return text, strings.TrimPrefix(path.Clean(text), "/"), true
	}
	// The join begins at "/", so that .. cannot lead above the root.
	return text, strings.TrimPrefix(path.Join("/", dir, text), "/"), true
}

// CheckMerged fails if the host's /usr cannot be shared with nodes. root is the host's root
// folder.
func CheckMerged(root string) error {
	s, err := openSource(root)
	if err != nil {
		return err
	}
	defer s.close()
	for _, name := range [...]string{"bin", "lib", "sbin"} {
		if _, to, ok := s.readLink(name); !ok || !strings.HasPrefix(to, "usr/") {
			return fmt.Errorf("/%s of this host is not a link into /usr, so its programs cannot be shared with nodes; merge them: apt install usrmerge", name)
		}
	}
	return nil
}
