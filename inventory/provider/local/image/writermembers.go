package image

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// clearName fails if the entry is a folder that is not empty.
func clearName(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// makeFolder creates a folder, or gives an existing one the mode and owner of m. It replaces a file of another
// type at path. finish sets the time.
func (w *writer) makeFolder(path string, m meta) error {
	if err := w.countFile(); err != nil {
		return err
	}
	if path == "" {
		return nil // the root folder keeps its mode and owner
	}
	dir, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, name, 0o700); errors.Is(err, unix.EEXIST) {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err := clearName(dir, name); err != nil {
				return err
			}
			if err := unix.Mkdirat(dir, name, 0o700); err != nil {
				return err
			}
		}
	} else if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !m.mtime.IsZero() && w.dirPaths < maxDirPaths {
		w.dirs = append(w.dirs, dirTime{path, m.mtime})
		w.dirPaths += len(path) + 64
	}
	m.mtime = time.Time{}
	return w.setMeta(fd, m)
}

// writeFile writes a file. It replaces an existing one.
func (w *writer) writeFile(path string, m meta, r io.Reader) error {
	if err := w.countFile(); err != nil {
		return err
	}
	dir, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	if err := clearName(dir, name); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := w.writeContent(fd, r); err != nil {
		return err
	}
	return w.setMeta(fd, m)
}

// symlink creates a symbolic link, and replaces an existing file. It accepts any target, since links are
// followed only inside nodes.
func (w *writer) symlink(path string, m meta, target string) error {
	if err := w.countFile(); err != nil {
		return err
	}
	dir, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	if err := clearName(dir, name); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, dir, name); err != nil {
		return err
	}
	w.limitOwner(&m)
	if err := unix.Fchownat(dir, name, int(m.uid), int(m.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if m.mtime.IsZero() {
		return nil
	}
	return unix.UtimesNanoAt(dir, name, times(m.mtime), unix.AT_SYMLINK_NOFOLLOW)
}

// hardLink makes path another name of the file target, and replaces an existing file. Both are cleaned paths in
// the image.
func (w *writer) hardLink(path, target string) error {
	if err := w.countFile(); err != nil {
		return err
	}
	fd, err := w.open(target, unix.O_PATH)
	if err != nil {
		return fmt.Errorf("cannot open the target of the hard link, %.200q: %w", target, err)
	}
	defer unix.Close(fd)
	var st, now unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return fmt.Errorf("the target of the hard link, %.200q, is a folder", target)
	}
	dir, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	if unix.Fstatat(dir, name, &now, unix.AT_SYMLINK_NOFOLLOW) == nil && now.Ino == st.Ino {
		return nil
	}
	if err := clearName(dir, name); err != nil {
		return err
	}
	return unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
}

// limitOwner replaces a user or group that nodes do not have with the user or group "nobody".
// It then also removes set-id bits and attributes, which would give the rights of "nobody" to
// other users.
func (w *writer) limitOwner(m *meta) {
	if m.uid >= 0 && m.uid <= maxID && m.gid >= 0 && m.gid <= maxID {
		return
	}
	w.omitted.ids++
	if m.uid < 0 || m.uid > maxID {
		m.uid = nobody
	}
	if m.gid < 0 || m.gid > maxID {
		m.gid = nobody
	}
	m.mode &= 0o1777
	m.attrs = nil
}

// setMeta sets owner, mode, attributes and time of an open file, in an order in which no call resets what an
// earlier call has set.
func (w *writer) setMeta(fd int, m meta) error {
	w.limitOwner(&m)
	if err := unix.Fchown(fd, int(m.uid), int(m.gid)); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, m.mode&0o7777); err != nil {
		return err
	}
	for _, a := range m.attrs {
		err := unix.Fsetxattr(fd, a.name, []byte(a.value), 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("cannot set the attribute %s: %w", a.name, err)
		}
		if err != nil && a.name == "security.capability" {
			return errors.New("the disk of the images cannot keep file capabilities; use another file system, such as ext4")
		}
	}
	if m.mtime.IsZero() {
		return nil
	}
	ts := times(m.mtime)
	return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
}

// times returns 1970 instead of a time that file systems may not support.
func times(t time.Time) []unix.Timespec {
	ts := unix.NsecToTimespec(0)
	if y := t.Year(); y >= 1970 && y < 2200 {
		ts = unix.NsecToTimespec(t.UnixNano())
	}
	return []unix.Timespec{ts, ts}
}
