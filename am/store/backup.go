package store

import (
	"errors"
	"io"

	"go.etcd.io/bbolt"
)

// errNoFile says that an engine cannot be copied so.
var errNoFile = errors.New("the store is not in a file; use what its engine has for backups")

// Backup writes the store as it is at one moment to w, as the bytes of a file that
// Open reads. begin is told how many there are before the first. Changes go on
// meanwhile, and are not in it; but the file grows as long as it takes.
func (s *Store) Backup(w io.Writer, begin func(size int64)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.file == nil:
		return errNoFile
	}
	return s.trouble.meet(s.file.view(func(tx *bbolt.Tx) error {
		begin(tx.Size())
		_, err := tx.WriteTo(w)
		return err
	}))
}

// Backup writes the store in the file path to w, as the method does. Nobody may
// have it open to write, or its error wraps ErrLocked.
func Backup(path string, w io.Writer) error {
	err := whole(func() error {
		size, err := sizeOf(path)
		if err != nil {
			return err
		}
		return inspect(path, size, func(tx *bbolt.Tx, _ int, _ bool) error { _, err := tx.WriteTo(w); return err })
	})
	if err != nil {
		return cannotOpen(path, err)
	}
	return nil
}
