package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is the bucket tree this program writes.
const schemaVersion = 1

var root = []byte("v1")

// boltEngine keeps the buckets in one bbolt file.
type boltEngine struct{ db *bbolt.DB }

// openBolt opens or creates the file. It refuses a file that is locked by
// another process, is not a bbolt file, or was written by a newer program; it
// never resets one.
func openBolt(path string) (*boltEngine, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 2 * time.Second, FreelistType: bbolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("cannot open the store %s: another process holds it; is a server running on it?", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("cannot open the store %s: it is damaged or no store (%w); restore a backup, nothing was changed", path, err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("cannot open the store %s: this user may not write it", path)
	case err != nil:
		return nil, fmt.Errorf("cannot open the store %s: %w", path, err)
	}
	if err := prepare(db); err != nil {
		db.Close()
		return nil, fmt.Errorf("cannot open the store %s: %w", path, err)
	}
	return &boltEngine{db}, nil
}

// prepare makes missing buckets and checks the schema's number.
func prepare(db *bbolt.DB) error {
	ready := false
	err := db.View(func(tx *bbolt.Tx) error {
		top := tx.Bucket(root)
		if top == nil {
			if k, _ := tx.Cursor().First(); k != nil {
				return errors.New("it is a bbolt file of another program")
			}
			return nil
		}
		v := top.Bucket([]byte(metaBucket)).Get([]byte(schemaName))
		if len(v) != 8 {
			return errors.New("its schema number is missing; restore a backup")
		}
		if n := binary.BigEndian.Uint64(v); n != schemaVersion {
			return fmt.Errorf("it has schema %d and this program knows %d; use the program that wrote it", n, schemaVersion)
		}
		ready = true
		return nil
	})
	if err != nil || ready {
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
