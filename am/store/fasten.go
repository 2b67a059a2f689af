package store

import (
	"errors"
	"os"

	"go.etcd.io/bbolt"
)

// fasten makes sure that what is read is on the disk. A writer that was killed, or
// whose last sync failed, may have left bbolt's newest meta page in memory alone.
// To go on from it would overwrite pages that the meta page on the disk still
// needs, and a power cut then leave neither of the two whole. So both are written
// again, as they are, before anything else is; a sync alone does not help, for
// after one that failed Linux takes the page for written.
func fasten(path string, db *bbolt.DB) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	pages := make([]byte, 2*db.Info().PageSize)
	_, err = f.ReadAt(pages, 0)
	if err == nil {
		_, err = f.WriteAt(pages, 0)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
