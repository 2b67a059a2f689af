package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am/file"
)

const (
	// lockTimeout is the longest wait for another process to close the file.
	lockTimeout = 2 * time.Second
	// minMapSize is the least number of bytes of address space that is mapped for the file. It
	// may be larger than the file. While the file fits into this space, no change waits for the
	// end of a long read, such as a backup.
	minMapSize = 1 << 30
	// growthStep is the number of bytes by which the file grows.
	growthStep = 4 << 20
)

type database struct {
	db   *bbolt.DB
	file *os.File // the file that bbolt has open
	path string
	// commitTx commits a write transaction; see Options.Write.
	commitTx func(*bbolt.Tx) error
	// beginning is held while a transaction begins.
	beginning sync.Mutex
	// stuck is set when bbolt has panicked and left its locks held. Then bbolt must not be used
	// again.
	stuck atomic.Pointer[error]
	// ahead is Options.Ahead. size is the size of the file when preallocate last ran. Only
	// the writer uses them.
	ahead, size int64
}

// openDatabase refuses a file that another process has locked, a file of another program or of a
// newer schema, and a damaged file, such as an empty or truncated one. It does not change a file
// that it refuses.
func openDatabase(path string) (*database, error) {
	d := &database{path: path, commitTx: (*bbolt.Tx).Commit}
	if err := readUntrusted(d.open); err != nil {
		return nil, cannotOpen(path, err)
	}
	return d, nil
}

// open opens the file for bbolt, after all its pages were checked, and creates it if it does not exist.
func (d *database) open() error {
	size, err := sizeOf(d.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := create(d.path); err != nil {
			return explain(err)
		}
	case err != nil:
		return err
	default:
		if err := inspect(d.path, size, func(*bbolt.Tx, int, bool) error { return nil }); err != nil {
			return err
		}
	}
	d.db, err = bbolt.Open(d.path, 0o600, &bbolt.Options{
		Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, InitialMmapSize: max(minMapSize, int(2*size)),
		OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			d.file, err = os.OpenFile(name, flag, mode)
			return d.file, err
		},
	})
	if err != nil {
		return explain(err)
	}
	d.db.AllocSize = growthStep
	err = checkName(d.path, d.file)
	if err == nil {
		err = d.db.View(checkIsStore) // another process may have written since inspect
	}
	if err == nil {
		err = rewriteMetaPages(d.path, d.db.Info().PageSize)
	}
	if err != nil {
		return errors.Join(err, d.db.Close())
	}
	return nil
}

// rewriteMetaPages ensures that the newest state in the file is on the disk. A writer that
// was killed, or whose last sync failed, may have left bbolt's newer meta page in memory
// only. The next change would then overwrite pages that the older meta page, which is on
// the disk, still needs. After a power failure neither meta page might have all its
// pages. So both meta pages are written again, unchanged, before anything else. A sync
// alone is not enough: after a failed sync Linux considers the page written.
func rewriteMetaPages(path string, pageSize int) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	first := make([]byte, 2*pageSize)
	_, err = f.ReadAt(first, 0)
	if err == nil {
		_, err = f.WriteAt(first, 0)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// checkName fails if path no longer names the open file. A restore may have replaced the file
// while this process waited for the lock.
func checkName(path string, file *os.File) error {
	named, err := os.Stat(path)
	if err != nil {
		return err
	}
	open, err := file.Stat()
	if err == nil && !os.SameFile(named, open) {
		err = errors.New("it was replaced meanwhile")
	}
	return err
}

// begin lets only one caller into bbolt at a time. If both meta pages are damaged, bbolt panics
// while it holds its locks, and a second caller would wait for them forever.
func (d *database) begin(writable bool) (tx *bbolt.Tx, err error) {
	d.beginning.Lock()
	defer d.beginning.Unlock()
	if why := d.stuck.Load(); why != nil {
		return nil, *why
	}
	err = d.call(func() error { tx, err = d.db.Begin(writable); return err })
	return tx, err
}

// call converts a panic of bbolt in f to an error. Such a panic leaves bbolt's locks held, so bbolt
// is not used again.
func (d *database) call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damage(p)
			d.stuck.Store(&err)
		}
	}()
	return f()
}

func (d *database) view(f func(*bbolt.Tx) error) error {
	return recoverFault(func() error {
		tx, err := d.begin(false)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return f(tx)
	})
}

func (d *database) read(f func(reader) error) error {
	return d.view(func(tx *bbolt.Tx) error {
		r, err := readerOf(tx)
		if err != nil {
			return err
		}
		return f(r)
	})
}

// update commits the transaction if f succeeds, and otherwise rolls it back. After an error nothing
// has changed, with one exception: a failed commit may still have written the new revision to the
// file.
func (d *database) update(f func(reader) error) error {
	return recoverFault(func() error {
		tx, err := d.begin(true)
		if err != nil {
			return err
		}
		err = recoverFault(func() error {
			r, err := readerOf(tx)
			if err != nil {
				return err
			}
			if err := f(r); err != nil {
				return err
			}
			return d.checkInPlace()
		})
		if err != nil {
			_ = tx.Rollback()
			return err
		}
		if err := d.call(func() error { return d.commitTx(tx) }); err != nil {
			return err
		}
		d.preallocate()
		return nil
	})
}

// checkInPlace fails if d.path no longer names the open file, because changes in that file
// would be lost.
func (d *database) checkInPlace() error {
	if err := checkName(d.path, d.file); err != nil {
		return brokenError{fmt.Errorf("the file was not at its place (%w), so a change was refused that would have been lost; no change is accepted until the server is started again, even if the file is put back: make a backup with patchbay backup before you stop the server, and restore it, or put the file back and start the server again", err)}
	}
	return nil
}

// preallocate allocates disk space for the growth of the file (Options.Ahead).
func (d *database) preallocate() {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	info, err := d.file.Stat()
	if d.ahead == 0 || err != nil || info.Size() == d.size {
		return
	}
	d.size = info.Size()
	_ = syscall.Fallocate(int(d.file.Fd()), keepSize, 0, d.size+d.ahead)
}

// close closes the file. Do not call it while a read is running.
func (d *database) close() error {
	if why := d.stuck.Load(); why != nil {
		return *why // bbolt's locks are held until the process ends
	}
	return d.db.Close()
}

// recoverFault converts a memory fault in the mapped file to an error. It does not recover other
// panics.
func recoverFault(f func() error) error { return file.RecoverFault(f, faultOf) }
