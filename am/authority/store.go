package authority

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"patchbay/am/fileowner"
)

// FileName is the name of the database in the site's folder.
const FileName = "authority.db"

// lockTimeout is how long a transaction waits for another process.
const lockTimeout = 20 * time.Second

type bucket string

const (
	members      bucket = "members"
	keys         bucket = "keys"
	sliceRecords bucket = "slices"
	certificates bucket = "certificates" // of slices
	projects     bucket = "projects"
	sliverInfos  bucket = "slivers"
	invitations  bucket = "invitations"
)

var buckets = []bucket{members, keys, sliceRecords, certificates, projects, sliverInfos, invitations}

// store is the database. It opens the file for each transaction, so that commands can use the
// database while the site is served.
type store struct {
	path string
	mu   sync.RWMutex // transactions of one process must not wait for each other's file lock
}

type tx struct{ *bbolt.Tx }

// openStore creates what a new or interrupted one lacks.
func openStore(path string) (*store, error) {
	s := &store{path: path}
	if _, err := os.Lstat(path); err == nil {
		complete := true
		err := s.view(func(t *tx) error {
			for _, b := range buckets {
				complete = complete && t.Bucket([]byte(b)) != nil
			}
			return nil
		})
		if complete || err != nil {
			return s, err
		}
	}
	// The owner of the folder gets the file, also if root runs the program.
	err := fileowner.As(filepath.Dir(path), func() error {
		return s.update(func(t *tx) error {
			for _, b := range buckets {
				if _, err := t.CreateBucketIfNotExists([]byte(b)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return s, err
}

// view passes a consistent state to f.
func (s *store) view(f func(*tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.open(true, func(db *bbolt.DB) error {
		return db.View(func(t *bbolt.Tx) error { return f(&tx{t}) })
	})
}

// update writes all changes of f, or none if f returns an error.
func (s *store) update(f func(*tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open(false, func(db *bbolt.DB) error {
		return db.Update(func(t *bbolt.Tx) error { return f(&tx{t}) })
	})
}

// open turns faults of a damaged or truncated file, which bbolt maps into memory, into errors.
func (s *store) open(readOnly bool, f func(*bbolt.DB) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if e, ok := p.(runtime.Error); ok {
			if _, isFault := e.(interface{ Addr() uintptr }); !isFault {
				panic(p) // a defect of this program
			}
		}
		if p != nil {
			err = refuse(Database, "%s is damaged: %v; restore a backup", s.path, p)
		}
	}()
	db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return refuse(Database, "another program uses %s; try again", FileName)
	case err != nil:
		return refuse(Database, "%s cannot be opened: %v", s.path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(db)
}

// copy writes a consistent copy of the database.
func (s *store) copy(w io.Writer) error {
	return s.view(func(t *tx) error {
		_, err := t.WriteTo(w)
		return err
	})
}

// get returns false if there is no such record.
func get[T any](t *tx, b bucket, key string) (v T, ok bool, err error) {
	text := t.Bucket([]byte(b)).Get([]byte(key))
	if text == nil {
		return v, false, nil
	}
	if err = json.Unmarshal(text, &v); err != nil {
		err = refuse(Database, "the record %s of %s cannot be read: %v", key, b, err)
	}
	return v, true, err
}

func put(t *tx, b bucket, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.Bucket([]byte(b)).Put([]byte(key), text)
}

func remove(t *tx, b bucket, key string) error { return t.Bucket([]byte(b)).Delete([]byte(key)) }

func count(t *tx, b bucket) int { return t.Bucket([]byte(b)).Stats().KeyN }

// all returns the records of a bucket in the order of their keys. Check err after the loop.
func all[T any](t *tx, b bucket, err *error) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		c := t.Bucket([]byte(b)).Cursor()
		for key, text := c.First(); key != nil; key, text = c.Next() {
			var v T
			if *err = json.Unmarshal(text, &v); *err != nil {
				*err = fmt.Errorf("record %s of %s: %w", key, b, *err)
				return
			}
			if !yield(string(key), v) {
				return
			}
		}
	}
}
