package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is the bucket tree this program writes.
const schemaVersion = 1

var root = []byte("v1")

// boltEngine keeps the buckets in one bbolt file.
type boltEngine struct{ db *bbolt.DB }

// patience is how long to wait for another process to let go of the file.
const patience = 2 * time.Second

// openBolt opens or creates the file. It refuses, and leaves as it is, a file
// that is locked by another process, empty, cut off, otherwise damaged, of
// another program, or of a newer schema.
func openBolt(path string) (*boltEngine, error) {
	db, err := openWhole(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the store %s: %w", path, err)
	}
	return &boltEngine{db}, nil
}

// openWhole looks at what there is before it opens the file for writing. bbolt
// panics, or touches memory behind the end, when pages are missing; both are
// errors here.
func openWhole(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damaged(fmt.Errorf("%v", p))
		}
	}()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := create(path); err != nil {
			return nil, explain(err)
		}
	case err != nil:
		return nil, explain(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is a directory or device; name a file")
	case info.Size() == 0:
		// A store never is. To take it for a new one would forget all promises.
		return nil, errors.New("it is empty; restore a backup, or remove it to begin anew")
	default:
		if err := inspect(path, info.Size()); err != nil {
			return nil, err
		}
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, explain(err)
	}
	if err := prepare(db); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// create makes an empty store, which gets its name when it is whole: a crash
// leaves a good file or none.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	f.Close()
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{Timeout: patience})
	if err != nil {
		return err
	}
	if err := errors.Join(prepare(db), db.Close()); err != nil {
		return err
	}
	// A link, unlike a new name, does not replace what another process made
	// meanwhile; some file systems know no links.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// inspect reads a file of some size without writing to it.
func inspect(path string, size int64) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience, ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return explain(err)
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > size {
			return damaged(fmt.Errorf("%d of %d bytes are there", size, tx.Size()))
		}
		_, err := known(tx)
		return err
	})
}

// explain says what an error of bbolt.Open means to an operator.
func explain(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return errors.New("another process holds it; is a server running on it?")
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("this user may not write it (%w)", err)
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	return damaged(err)
}

func damaged(err error) error {
	return fmt.Errorf("it is damaged or no store (%w); restore a backup, nothing was changed", err)
}

// known tells whether the file is a store of this program, which it is not if
// it is new.
func known(tx *bbolt.Tx) (bool, error) {
	top := tx.Bucket(root)
	if top == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return false, errors.New("it is a bbolt file of another program")
		}
		return false, nil
	}
	meta := top.Bucket([]byte(metaBucket))
	if meta == nil {
		return false, damaged(errors.New("its schema number is missing"))
	}
	v := meta.Get([]byte(schemaName))
	if len(v) != 8 {
		return false, damaged(errors.New("its schema number is missing"))
	}
	if n := binary.BigEndian.Uint64(v); n != schemaVersion {
		return false, fmt.Errorf("it has schema %d and this program knows %d; use the program that wrote it", n, schemaVersion)
	}
	for _, b := range buckets {
		if top.Bucket([]byte(b)) == nil {
			return false, damaged(fmt.Errorf("the bucket %s is missing", b))
		}
	}
	if v := meta.Get([]byte(revisionName)); v != nil && len(v) != 8 {
		return false, damaged(errors.New("its revision is no number"))
	}
	return true, nil
}

// prepare makes the buckets of a new file.
func prepare(db *bbolt.DB) error {
	ready := false
	err := db.View(func(tx *bbolt.Tx) (err error) { ready, err = known(tx); return err })
	if ready || err != nil {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		top, err := tx.CreateBucket(root)
		if err != nil {
			return err
		}
		for _, b := range buckets {
			if _, err := top.CreateBucket([]byte(b)); err != nil {
				return err
			}
		}
		return top.Bucket([]byte(metaBucket)).Put([]byte(schemaName), binary.BigEndian.AppendUint64(nil, schemaVersion))
	})
}

func (e *boltEngine) View(f func(reader) error) error {
	return e.db.View(func(tx *bbolt.Tx) error { return f(boltReader{tx.Bucket(root)}) })
}

func (e *boltEngine) Apply(ops []op) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		top := tx.Bucket(root)
		for _, o := range ops {
			b, err := top.Bucket([]byte(o.bucket)), error(nil)
			if o.value == nil {
				err = b.Delete(o.key)
			} else {
				err = b.Put(o.key, o.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *boltEngine) Close() error { return e.db.Close() }

type boltReader struct{ top *bbolt.Bucket }

func (r boltReader) Get(bucket string, key []byte) []byte {
	return r.top.Bucket([]byte(bucket)).Get(key)
}

func (r boltReader) Scan(bucket string, prefix []byte, f func(k, v []byte) bool) {
	c := r.top.Bucket([]byte(bucket)).Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if !f(k, v) {
			return
		}
	}
}
