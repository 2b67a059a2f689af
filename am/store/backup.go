package store

import (
	"io"

	"go.etcd.io/bbolt"
)

// Backup writes the present state of the store to w, as a file that Open accepts. Before it writes,
// it calls announce with the number of bytes. Changes during the backup are not part of it. They
// make the store's file grow, since bbolt reuses no pages that the backup may still read.
func (s *Store) Backup(w io.Writer, announce func(size int64)) error {
	return s.reading(func() error {
		return s.db.view(func(tx *bbolt.Tx) error {
			announce(tx.Size())
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
