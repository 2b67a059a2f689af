package setup

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
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
// link could lead root anywhere.
func openPlace(name string, user account) (_ *place, err error) {
	p := &place{path: path.Clean(name), restore: func() {}, parent: -1}
	var home unix.Stat_t
	own := user.uid != 0 && user.home != "/" && unix.Stat(user.home, &home) == nil
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
	for rest := strings.Split(p.path, "/"); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		next, target, err := openSubfolder(fd, part)
		if err != nil {
			return nil, err
		}
		if target != "" {
			if links++; links > maxLinks {
				return nil, unix.ELOOP
			}
			rest = append(strings.Split(target, "/"), rest...)
			if !path.IsAbs(target) {
				continue
			}
			if next, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return nil, err
			}
		}
		unix.Close(fd)
		fd = next
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, err
		}
		if own && st.Dev == home.Dev && st.Ino == home.Ino {
			own = false
			if p.restore, err = user.actAs(); err != nil {
				p.restore = func() {}
				return nil, err
			}
		}
	}
	p.fd = fd
	return p, nil
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
