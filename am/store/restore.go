package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"patchbay/am"
	"patchbay/am/file"
)

// Restoration is a backup that is ready to replace a store. The backup was checked, copied into
// the store's folder, and migrated to the current schema. Every Restoration must end with
// Finish or Discard.
type Restoration struct {
	// Report describes the backup.
	Report *Report

	folder       string // the store's folder; its owner, not root, writes the files in it
	path, staged string
	site         string
	store        *Store
}

// Restore prepares to replace the store in the file path with the backup in the file source. It
// refuses a backup that is damaged, of another site or of a newer schema.
func Restore(path, source, site string) (_ *Restoration, err error) {
	r := &Restoration{folder: file.OwnerFolder(path), path: path, site: site}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		r.path = real // the file is replaced, not a link to it
	}
	if r.Report, err = Check(source); err != nil {
		return nil, err
	}
	if err := r.Report.Err(); err != nil {
		return nil, fmt.Errorf("%s is not a complete backup: %w; take another", source, err)
	}
	if r.Report.Stale {
		return nil, fmt.Errorf("%s is not a complete backup: one of its first two pages is damaged; take another", source)
	}
	if r.Report.Site != "" && r.Report.Site != site {
		return nil, fmt.Errorf("%s is a backup of the site %s, not of %s", source, r.Report.Site, site)
	}
	in, err := os.Open(source)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w; nothing was changed", source, err)
	}
	defer in.Close()
	err = file.AsOwner(r.folder, func() (err error) {
		if r.staged, err = copyBeside(r.path, in); err != nil {
			return fmt.Errorf("cannot copy %s beside %s: %w; nothing was changed", source, r.path, err)
		}
		if err := r.open(); err != nil {
			return errors.Join(err, r.Discard())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// copyBeside writes a new file in the folder of path, durably, and returns the file's name.
func copyBeside(path string, in io.Reader) (name string, err error) {
	out, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".restore-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return "", errors.Join(err, os.Remove(out.Name()))
	}
	return out.Name(), nil
}

// open opens the copy of the backup as the site's store, and migrates it.
func (r *Restoration) open() error {
	db, err := openDatabase(r.staged)
	if err != nil {
		return err
	}
	claimed, err := db.claim(Options{Site: r.site, Move: true})
	if err == nil {
		err = db.migrate(func(uint64) error { return nil }, claimed) // the backup stays as it is
	}
	if err != nil {
		return errors.Join(err, db.close())
	}
	r.store, err = start(db, Options{})
	return err
}

// Read calls f with a view of the backup.
func (r *Restoration) Read(f func(*View) error) error { return r.store.Read(f) }

// Discard removes the copy and changes nothing.
func (r *Restoration) Discard() error {
	var err error
	if r.store != nil {
		err = r.store.Close()
	}
	return errors.Join(err, os.Remove(r.staged))
}

// Finish replaces the store with the backup and adds entry to the backup's journal. It raises the
// backup's revision above latest, so that no revision number is used twice. At each moment, the old
// or the new file has the store's name. Finish keeps the old file under the name oldFile; oldFile
// is "" if there was no old file. If the caller has the store open, present is that store, and
// Finish closes it. If present is nil, Finish fails if another process has the store open.
func (r *Restoration) Finish(latest Rev, entry am.JournalEntry, present *Store) (oldFile string, err error) {
	defer func() {
		if present != nil {
			err = errors.Join(err, present.Close())
		}
		if err != nil {
			_ = os.Remove(r.staged)
		}
	}()
	err = file.AsOwner(r.folder, func() (err error) { oldFile, err = r.finish(latest, entry, present); return err })
	return oldFile, err
}

// finish does the work of Finish, as the owner of the folder.
func (r *Restoration) finish(latest Rev, entry am.JournalEntry, present *Store) (oldFile string, err error) {
	if err := r.seal(latest, entry); err != nil {
		return "", err
	}
	if present == nil {
		unlock, err := lock(r.path)
		if err != nil {
			return "", err
		}
		defer unlock()
	}
	if _, err := os.Lstat(r.path); err == nil {
		if oldFile, err = r.linkOldFile(entry.At); err != nil {
			return "", err
		}
	}
	if oldFile == "" {
		// No store existed. Link does not replace a store that a server has created meanwhile.
		if err := os.Link(r.staged, r.path); err == nil {
			return "", errors.Join(os.Remove(r.staged), file.SyncFolder(filepath.Dir(r.path)))
		} else if errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("another process has created %s meanwhile; stop the server, and restore again; nothing was changed", r.path)
		}
	}
	if err := os.Rename(r.staged, r.path); err != nil {
		return oldFile, fmt.Errorf("cannot put the backup in the place of %s: %w", r.path, err)
	}
	return oldFile, file.SyncFolder(filepath.Dir(r.path))
}

// linkOldFile gives the present store a second name, which no other file has, and returns that name.
func (r *Restoration) linkOldFile(at time.Time) (name string, err error) {
	first := r.path + ".before-restore-" + at.UTC().Format("20060102T150405Z")
	name = first
	for n := 2; ; n++ {
		if err = os.Link(r.path, name); !errors.Is(err, os.ErrExist) {
			break
		}
		name = fmt.Sprintf("%s.%d", first, n)
	}
	if err == nil {
		err = file.SyncFolder(filepath.Dir(name))
	}
	if err != nil {
		return "", fmt.Errorf("cannot keep the present store as %s: %w; nothing was changed", name, err)
	}
	return name, nil
}

// seal raises the revision of the staged store above latest and adds the entry. It marks the
// reservations as restored, and closes the staged store.
func (r *Restoration) seal(latest Rev, entry am.JournalEntry) error {
	db := r.store.db
	info, err := db.file.Stat()
	if err != nil {
		return errors.Join(err, r.store.Close())
	}
	latest = max(latest, r.Report.Revision)
	entry.ID = Position(latest+1, 0)
	text, err := encode(latest+1, entry)
	change, failed := encode(latest+1, Change{At: entry.At, Journal: []am.JournalEntry{entry}})
	err = errors.Join(err, failed)
	if err == nil {
		err = db.update(func(tx reader) error {
			ops := []op{{string(Journal), []byte(entry.ID), text}, {string(Changes), []byte(changeKey(latest + 1).ID), change}, revisionOp(latest + 1), identityOf(info).op()}
			v := &View{r: tx}
			var failed error
			bad := v.Slivers(func(s am.Sliver) bool {
				if s.Status.Allocation != am.Allocated {
					return true
				}
				key := SliverKey(s.URN)
				s.Restored = true
				text, err := encode(v.Rev(key), s) // with the old revision, since no user has changed the sliver
				ops, failed = append(ops, op{string(key.Kind), []byte(key.ID), text}), err
				return err == nil
			})
			if err := errors.Join(bad, failed); err != nil {
				return err
			}
			return tx.apply(ops...)
		})
	}
	return errors.Join(err, r.store.Close())
}

// lock prevents servers from opening the file until unlock is called; a missing file needs
// no lock. It fails with ErrLocked if another process has the file open.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // non-blocking, in case path is a pipe
	if errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, cannotOpen(path, ErrLocked)
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
