package store

import (
	"io"

	"go.etcd.io/bbolt"
)

// Backup writes the store as of one moment to w, as a file that Open accepts. It calls
// begin with the size before the first byte. Changes continue meanwhile and are not
// included, but the file grows as long as the backup takes.
func (s *Store) Backup(w io.Writer, begin func(size int64)) error {
	return s.reading(func() error {
		return s.db.view(func(tx *bbolt.Tx) error {
			begin(tx.Size())
			_, err := tx.WriteTo(w)
			return err
		})
	})
}

// Backup writes the store in the file path to w, like the method Backup. It fails with an
// error that wraps ErrLocked if another process has the store open for writing.
func Backup(path string, w io.Writer) error {
	err := readUntrusted(func() error {
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
