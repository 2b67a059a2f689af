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

// source reads the host. It gives nothing that is not root's, readable to
// everybody and writable to nobody else, and goes through no link but those of
// a merged /usr.
type source struct {
	root *os.File
	// owner of what may be read: root, but in tests.
	owner uint32
}

// maxSource bounds one file of the host that is copied.
const maxSource = 64 << 20

func openSource(root string) (*source, error) {
	f, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	return &source{root: f, owner: 0}, nil
}

func (s *source) close() { s.root.Close() }

// errPrivate is for what a node must not see.
var errPrivate = errors.New("it is not for everybody")

// open opens a path below the root, if every folder on the way and the thing
// itself are for everybody.
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

// isPublic tells whether a file or folder is for everybody to read, and for
// root alone to write.
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

// read is a whole file, and its state.
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

// text is a file as text, or "" if there is none for everybody.
func (s *source) text(path string) string {
	b, _, err := s.read(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// exists tells whether the host has a program or folder, looked for as a process of
// the host would.
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

// entries are the names in a folder for everybody, sorted; none if it is not.
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

// readLink is where a symbolic link leads: the text in it, and the path below the
// root that this means.
func (s *source) readLink(at string) (text, to string, ok bool) {
	dir := path.Dir(at)
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
	n, err := unix.Readlinkat(fd, path.Base(at), b)
	if err != nil {
		return "", "", false
	}
	text = string(b[:n])
	if path.IsAbs(text) {
		return text, strings.TrimPrefix(path.Clean(text), "/"), true
	}
	// Joined below the root, so that dots lead no further up than there.
	return text, strings.TrimPrefix(path.Join("/", dir, text), "/"), true
}

// CheckMerged says why the /usr of a host, whose root file system is at root,
// cannot be shared with nodes.
func CheckMerged(root string) error {
	s, err := openSource(root)
	if err != nil {
		return err
	}
	defer s.close()
	for _, name := range [...]string{"bin", "lib", "sbin"} {
		if _, to, ok := s.readLink(name); !ok || !strings.HasPrefix(to, "usr/") {
			return fmt.Errorf("/%s of this host is no link into /usr, so that its programs cannot be shared with nodes; merge them: apt install usrmerge", name)
		}
	}
	return nil
}
