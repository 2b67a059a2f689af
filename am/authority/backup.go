package authority

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am/file"
)

// Backup writes a consistent copy of the state.
func (a *Authority) Backup(w io.Writer) error {
	return a.store.view(func(t *tx) error {
		_, err := t.WriteTo(w)
		return err
	})
}

// Restore replaces the state of the authority in a site's folder by a backup, without its sessions and links. It
// returns the file that keeps the previous state; "" if there was none. The certificates and keys in the folder
// authority must be those of the backup, or later ones.
func Restore(dir, backup string, now time.Time) (kept string, err error) {
	if err := check(backup); err != nil {
		return "", fmt.Errorf("%s cannot be restored: %w", backup, err)
	}
	text, err := os.ReadFile(backup)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, FileName)
	err = file.AsOwner(dir, func() error {
		present, err := os.ReadFile(path)
		if err == nil {
			kept = path + ".before-restore-" + now.UTC().Format("20060102T150405Z")
			err = file.Write(kept, present, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return writeRestored(path, text)
	})
	return kept, err
}

// writeRestored ends the sessions and links of the backup before it replaces the database.
func writeRestored(path string, backup []byte) error {
	unfinished := path + ".restoring"
	if err := file.Write(unfinished, backup, 0o600); err != nil {
		return err
	}
	s, err := openFile(unfinished, false)
	if err == nil {
		err = errors.Join(s.update(endAllAccess), s.db.Close())
	}
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return file.SyncFolder(filepath.Dir(path))
}

// check fails unless the file is an undamaged database with the records of an authority. It reads all
// pages.
func check(path string) error {
	s, err := openFile(path, true)
	if err != nil {
		return err
	}
	err = s.view(func(t *tx) error {
		for _, b := range records { // a backup of an earlier version has no indexes
			if t.Bucket([]byte(b)) == nil {
				return fmt.Errorf("it has no %s, so it is no backup of an authority", b)
			}
		}
		var first error
		for err := range t.Check(bbolt.WithKVStringer(bbolt.HexKVStringer())) { // bbolt waits until all errors are read
			if first == nil {
				first = err
			}
		}
		return first
	})
	return errors.Join(err, s.db.Close())
}
