package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

type writer struct {
	p          *place
	owners     *owners // nil: everything belongs to the user that unpacks it
	created    []createdFolder
	files      int   // entries written
	content    int64 // bytes of the files written
	total      int64 // bytes of all files of the archive
	reportedAt time.Time
	report     func(string)
}

// createdFolder is a folder whose mode and time are set at the end, after its content was written.
type createdFolder struct {
	name     string
	mode     uint32
	modified time.Time
	dev, ino uint64
	owner    *owner
}

// unpack checks the archive and unpacks it into the place. After an error, a part of the archive
// may remain there.
func unpack(ctx context.Context, f *os.File, as format, p *place, report func(string)) (files int, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(p.fd, &st); err != nil {
		return 0, err
	}
	sc, err := scanArchive(ctx, f, as, p.path, roomOf(&st), nil)
	if err != nil {
		return 0, err
	}
	return unpackScanned(ctx, f, as, p, sc, report)
}

// unpackScanned is the second part of unpack.
func unpackScanned(ctx context.Context, f *os.File, as format, p *place, sc *scan, report func(string)) (files int, err error) {
	w := &writer{p: p, owners: sc.owners, total: sc.content, report: report}
	if err = eachEntry(ctx, f, as, w.writeEntry); err == nil {
		err = w.finishFolders()
	}
	if err != nil {
		return w.files, fmt.Errorf("the archive was only partly unpacked into %s: %w", p.path, err)
	}
	return w.files, nil
}

// ownerOf returns nil if the entry keeps the user that unpacks it.
func (w *writer) ownerOf(e *entry) *owner {
	if w.owners == nil {
		return nil
	}
	if w.owners.sole != nil {
		return w.owners.sole
	}
	o := w.owners.inNode(e.user, e.group)
	return &o
}

// writeEntry creates the file, folder or link of an entry, and replaces a file or link of that name.
func (w *writer) writeEntry(e *entry) error {
	name, err := cleanName(e.name)
	if err != nil || name == "." {
		return err
	}
	if err := w.makeParents(name); err != nil {
		return err
	}
	w.files++
	switch e.kind {
	case kindFolder:
		return w.makeFolder(name, e)
	case kindFile:
		err = w.writeFile(name, e)
	case kindLink:
		err = w.replace(name, func(fd int, base string) error {
			if err := unix.Symlinkat(e.target, fd, base); err != nil {
				return err
			}
			times := times(e.modified)
			if err := unix.UtimesNanoAt(fd, base, times[:], unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
			return w.ownerOf(e).ofLink(fd, base)
		})
	case kindHardLink:
		err = w.writeHardLink(name, e)
	}
	return err
}

// makeParents creates the missing folders above name. They belong to the sole owner of the archive, if it has
// one.
func (w *writer) makeParents(name string) error {
	_, _, err := w.p.openParent(name)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	for at := range len(name) {
		if name[at] != '/' {
			continue
		}
		fd, base, err := w.p.openParent(name[:at])
		if err != nil {
			return err
		}
		switch err := unix.Mkdirat(fd, base, 0o755); {
		case err == unix.EEXIST:
		case err != nil:
			return explainError(name[:at], err)
		case w.owners != nil && w.owners.sole != nil:
			own, err := w.p.openFolder(name[:at])
			if err != nil {
				return explainError(name[:at], err)
			}
			if err := errors.Join(unix.Fchownat(own, "", w.owners.sole.user, w.owners.sole.group, unix.AT_EMPTY_PATH), unix.Close(own)); err != nil {
				return explainError(name[:at], err)
			}
		}
	}
	_, _, err = w.p.openParent(name)
	return err
}

// makeFolder creates a folder, whose mode and time finishFolders sets. It leaves an existing folder
// unchanged, unless owners are kept: then the folder gets the owner and the mode of the archive, since an
// earlier attempt may have left it unfinished.
func (w *writer) makeFolder(name string, e *entry) error {
	fd, base, err := w.p.openParent(name)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(fd, base, 0o700); err == unix.EEXIST && w.owners == nil {
		own, err := w.p.openFolder(name)
		if err != nil {
			return explainError(name, err)
		}
		return unix.Close(own)
	} else if err != nil && err != unix.EEXIST {
		return explainError(name, err)
	}
	mode := uint32(e.mode.Perm())
	if e.mode&fs.ModeSticky != 0 {
		mode |= unix.S_ISVTX
	}
	return w.addFolder(name, mode, e.modified, w.ownerOf(e))
}

// addFolder remembers an existing folder for finishFolders.
func (w *writer) addFolder(name string, mode uint32, modified time.Time, o *owner) error {
	own, err := w.p.openFolder(name)
	if err != nil {
		return explainError(name, err)
	}
	defer unix.Close(own)
	var st unix.Stat_t
	if err := unix.Fstat(own, &st); err != nil {
		return err
	}
	w.created = append(w.created, createdFolder{name, mode, modified, st.Dev, st.Ino, o})
	return nil
}

// writeFile writes a file with the owner, mode and time of its entry, and reports the progress.
func (w *writer) writeFile(name string, e *entry) error {
	fd := -1
	err := w.replace(name, func(parent int, base string) (err error) {
		fd, err = unix.Openat2(parent, base, &unix.OpenHow{
			Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC, Mode: 0o600, Resolve: resolveFlags,
		})
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := io.Copy(f, &progressReader{r: io.LimitReader(e.body, e.size), done: w.content, length: w.total, reportedAt: w.reportedAt, report: w.reportProgress}); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	w.content += e.size
	if err := w.ownerOf(e).of(fd); err != nil { // before the mode, since a new owner would change that
		return fmt.Errorf("%q: %w", name, err)
	}
	if err := unix.Fchmod(fd, uint32(e.mode.Perm())); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	times := times(e.modified)
	return unix.UtimesNanoAt(fd, "", times[:], unix.AT_EMPTY_PATH)
}

func (w *writer) reportProgress(progress string) {
	w.reportedAt = time.Now()
	w.report("unpacking, " + progress)
}

// writeHardLink makes name another name of the entry's target.
func (w *writer) writeHardLink(name string, e *entry) error {
	first, err := cleanName(e.target)
	if err != nil || first == name {
		return err
	}
	fd, base, err := w.p.openParent(first)
	if err != nil {
		return err
	}
	// The next openParent closes fd, so a duplicate is kept.
	if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return err
	}
	defer unix.Close(fd)
	return w.replace(name, func(parent int, own string) error { return unix.Linkat(fd, base, parent, own, 0) })
}

// replace calls create to create the file name. If another file has that name, replace
// removes the other file and calls create again.
func (w *writer) replace(name string, create func(parent int, base string) error) error {
	fd, base, err := w.p.openParent(name)
	if err != nil {
		return err
	}
	err = create(fd, base)
	if err == unix.EEXIST {
		if err := unix.Unlinkat(fd, base, 0); err != nil && err != unix.ENOENT {
			return explainError(name, err)
		}
		err = create(fd, base)
	}
	if err != nil {
		return explainError(name, err)
	}
	return nil
}

// finishFolders sets modes and times of the created folders, innermost first.
func (w *writer) finishFolders() error {
	for i := len(w.created) - 1; i >= 0; i-- {
		if err := w.created[i].finish(w.p); err != nil {
			return explainError(w.created[i].name, err)
		}
	}
	return nil
}

// finish sets mode and time of the folder, unless another user has removed or replaced the
// folder.
func (m *createdFolder) finish(p *place) error {
	fd, err := unix.Openat2(p.fd, m.name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolveFlags})
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != m.dev || st.Ino != m.ino {
		return nil
	}
	if err := m.owner.of(fd); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, m.mode); err != nil {
		return err
	}
	times := times(m.modified)
	return unix.UtimesNanoAt(fd, "", times[:], unix.AT_EMPTY_PATH)
}

// of makes the file belong to the owner. Without an owner it does nothing.
func (o *owner) of(fd int) error {
	if o == nil {
		return nil
	}
	return unix.Fchown(fd, o.user, o.group)
}

// ofLink makes the symbolic link base in the folder fd belong to the owner. Another user may have
// replaced the link by a file with a second name elsewhere, which must keep its owner.
func (o *owner) ofLink(fd int, base string) error {
	if o == nil {
		return nil
	}
	own, err := unix.Openat(fd, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	var st unix.Stat_t
	if err := unix.Fstat(own, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return err
	}
	return unix.Fchownat(own, "", o.user, o.group, unix.AT_EMPTY_PATH)
}

// times returns the access and modification times for UtimesNanoAt: the current time and
// modified. Both are the current time if modified is out of the range of file systems.
func times(modified time.Time) [2]unix.Timespec {
	last := unix.Timespec{Nsec: unix.UTIME_NOW}
	seconds := modified.Unix()
	if seconds < 0 || seconds > 1<<33 { // the range that file systems support
		return [2]unix.Timespec{last, last}
	}
	return [2]unix.Timespec{last, {Sec: seconds, Nsec: int64(modified.Nanosecond())}}
}
