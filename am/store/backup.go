package store

import (
	"io"

	"go.etcd.io/bbolt"
)

// Backup writes the store as it is at one moment to w, as the bytes of a file that
// Open reads. begin is told how many there are before the first. Changes go on
// meanwhile, and are not in it; but the file grows as long as it takes.
func (s *Store) Backup(w io.Writer, begin func(size int64)) error {
	return s.reading(func() error {
		return s.db.view(func(tx *bbolt.Tx) error {
			begin(tx.Size())
			_, err := tx.WriteTo(w)
			return err
		})
	})
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
