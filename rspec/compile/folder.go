package compile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	errHidden = errors.New("names that begin with a dot are not read")
	errLink   = errors.New("it is, or is below, a symbolic link")
	errKind   = errors.New("it is no regular file")
)

// Folder has the files beside a source, as Options.Files. The author of a source is not the user
// who compiles it, so a Folder opens only regular files in the source's folder and below, no names
// that begin with a dot, and nothing behind a symbolic link.
type Folder struct{ root *os.File }

// OpenFolder opens the folder of a source. Close it after the compilation.
func OpenFolder(source string) (*Folder, error) {
	root, err := os.OpenFile(filepath.Dir(source), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Close closes the folder.
func (f *Folder) Close() { _ = f.root.Close() }

// Open opens a regular file for reading. It opens each folder of the path in turn, so that none can be replaced by a
// link in between.
func (f *Folder) Open(path string) (fs.File, error) {
	if !fs.ValidPath(path) || path == "." {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	at := f.root
	for {
		part, rest, more := strings.Cut(path, "/")
		next, err := open(at, part, more)
		if at != f.root {
			_ = at.Close()
		}
		if err != nil || !more {
			return next, err
		}
		at, path = next, rest
	}
}

func open(at *os.File, name string, isFolder bool) (*os.File, error) {
	if strings.HasPrefix(name, ".") {
		return nil, errHidden
	}
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if isFolder {
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat(int(at.Fd()), name, flags, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) && isLink(at, name) {
		return nil, errLink
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !isFolder && !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, errKind)
	}
	return f, nil
}

// isLink reports whether the name is a symbolic link. A file and a link in place of a folder give the same error.
func isLink(at *os.File, name string) bool {
	var info unix.Stat_t
	return unix.Fstatat(int(at.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW) == nil && info.Mode&unix.S_IFMT == unix.S_IFLNK
}
