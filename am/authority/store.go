package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"patchbay/am/file"
)

// FileName is the name of the database in the site's folder.
const FileName = "authority.db"

// LockTimeout is how long the opening waits for another process.
const LockTimeout = 20 * time.Second

// InUse reports whether a process has opened the state in the folder dir.
func InUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

type bucket string

// Records.
const (
	members      bucket = "members"
	keys         bucket = "keys"
	sliceRecords bucket = "slices"
	certificates bucket = "certificates" // of slices
	projects     bucket = "projects"
	sliverInfos  bucket = "slivers" // by slice and sliver
	invitations  bucket = "invitations"
)

// Indexes, so that no transaction reads all records. The functions in index.go write them.
const (
	memberships     bucket = "memberships"       // member, slice or project → role, and * if accepted
	keysOfMember    bucket = "keys_of_member"    // member, id of a key
	slicesOfProject bucket = "slices_of_project" // project, slice
	ends            bucket = "ends"              // slice → its end
	slicesByEnd     bucket = "slices_by_end"     // end, slice
	sliversOf       bucket = "slivers_of_member" // creator, slice, sliver
)

// Sign-ins to the pages, and requests of projects. Databases of earlier versions lack these.
const (
	links    bucket = "links"
	sessions bucket = "sessions"
	feeds    bucket = "feeds"
	accessOf bucket = "access_of_owner" // member or operator; links, sessions or feeds; hash
	requests bucket = "requests"        // of projects
)

var (
	records    = []bucket{members, keys, sliceRecords, certificates, projects, sliverInfos, invitations}
	indexes    = []bucket{memberships, keysOfMember, slicesOfProject, ends, slicesByEnd, sliversOf}
	accesses   = []bucket{links, sessions, feeds, accessOf}
	allBuckets = slices.Concat(records, indexes, accesses, []bucket{requests})
)

// store is the open database. One process has it open at a time.
type store struct {
	path string
	db   *bbolt.DB
	// mostDecoded is the largest number of records that one transaction has decoded. Others wait
	// for a transaction, so tests limit this number.
	mostDecoded atomic.Int64
}

type tx struct {
	*bbolt.Tx
	decoded int64
}

// openStore opens the database, and creates the buckets that it lacks. It migrates the database of an
// earlier version that has no indexes.
func openStore(path string) (s *store, err error) {
	// The owner of the folder gets the file, also if root runs the program.
	err = file.AsOwner(filepath.Dir(path), func() (err error) { s, err = openFile(path, false); return err })
	if err != nil {
		return nil, err
	}
	complete := true
	err = s.view(func(t *tx) error {
		for _, b := range allBuckets {
			complete = complete && t.Bucket([]byte(b)) != nil
		}
		return nil
	})
	if err == nil && !complete {
		err = s.update(func(t *tx) error {
			hasIndexes := t.Bucket([]byte(memberships)) != nil
			for _, b := range allBuckets {
				if _, err := t.CreateBucketIfNotExists([]byte(b)); err != nil {
					return err
				}
			}
			if hasIndexes {
				return nil
			}
			return migrate(t)
		})
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func openFile(path string, readOnly bool) (*store, error) {
	s := &store{path: path}
	err := s.guard(func() (err error) {
		s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: LockTimeout, ReadOnly: readOnly})
		switch {
		case errors.Is(err, bbolterrors.ErrTimeout):
			err = refuse(Database, "another program uses %s; try again", FileName)
		case err != nil:
			err = refuse(Database, "%s cannot be opened: %v", path, err)
		}
		return err
	})
	return s, err
}

// view passes a consistent state to f.
func (s *store) view(f func(*tx) error) error {
	return s.guard(func() error {
		return s.db.View(func(t *bbolt.Tx) error { return s.run(t, f) })
	})
}

// update writes all changes of f, or none if f returns an error.
func (s *store) update(f func(*tx) error) error {
	return s.guard(func() error {
		return s.db.Update(func(t *bbolt.Tx) error { return s.run(t, f) })
	})
}

// run calls f in a transaction, and updates mostDecoded.
func (s *store) run(t *bbolt.Tx, f func(*tx) error) error {
	x := &tx{Tx: t}
	err := f(x)
	for most := s.mostDecoded.Load(); x.decoded > most && !s.mostDecoded.CompareAndSwap(most, x.decoded); {
		most = s.mostDecoded.Load()
	}
	return err
}

// guard turns faults of a damaged or truncated file, which bbolt maps into memory, into errors.
func (s *store) guard(f func() error) error {
	return file.RecoverFault(f, func(p any) error {
		_, isFault := p.(interface{ Addr() uintptr })
		if _, isError := p.(runtime.Error); isError && !isFault {
			return nil // a defect of this program
		}
		return refuse(Database, "%s is damaged: %v; restore a backup", s.path, p)
	})
}

// get returns false if there is no such record.
func get[T any](t *tx, b bucket, key string) (v T, ok bool, err error) {
	text := t.Bucket([]byte(b)).Get([]byte(key))
	if text == nil {
		return v, false, nil
	}
	t.decoded++
	v, err = decode[T](record{b, key, text})
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

// join makes a key of several parts, which contain no zero byte.
func join(parts ...string) string { return strings.Join(parts, "\x00") }

// following returns the keys of a bucket that begin with the parts, without these parts: at most
// most, in their order.
func following(t *tx, b bucket, most int, parts ...string) (list []string) {
	prefix := []byte(join(append(parts, "")...))
	c := t.Bucket([]byte(b)).Cursor()
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix) && len(list) < most; key, _ = c.Next() {
		list = append(list, string(key[len(prefix):]))
	}
	return list
}

// record is the text of a record.
type record struct {
	bucket
	key  string
	text []byte
}

func decode[T any](r record) (v T, err error) {
	if err = json.Unmarshal(r.text, &v); err != nil {
		err = refuse(Database, "the record %s of %s cannot be read: %v", strings.ReplaceAll(r.key, "\x00", " "), r.bucket, err)
	}
	return v, err
}

// maxRows limits the records that one lookup reads.
const maxRows = 10_000

// snapshot holds copies of records. A lookup copies them in a transaction, and decodes them after
// it, since others wait for the transaction.
type snapshot []record

// add adds a record if it exists.
func (s *snapshot) add(t *tx, b bucket, key string) error {
	text := t.Bucket([]byte(b)).Get([]byte(key))
	if text == nil {
		return nil
	}
	return s.append(maxRows, record{b, key, bytes.Clone(text)})
}

// addAll adds all records of a bucket. It fails if the snapshot gets more than most.
func (s *snapshot) addAll(t *tx, b bucket, most int) error {
	c := t.Bucket([]byte(b)).Cursor()
	for key, text := c.First(); key != nil; key, text = c.Next() {
		if err := s.append(most, record{b, string(key), bytes.Clone(text)}); err != nil {
			return err
		}
	}
	return nil
}

func (s *snapshot) append(most int, r record) error {
	if len(*s) >= most {
		return tooMany(most)
	}
	*s = append(*s, r)
	return nil
}

func tooMany(most int) error {
	return refuse(Argument, "the answer needs more than %d records; name fewer objects in the option match", most)
}

// each decodes the records. Check err after the loop.
func each[T any](s snapshot, err *error) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, r := range s {
			var v T
			if v, *err = decode[T](r); *err != nil || !yield(r.key, v) {
				return
			}
		}
	}
}

// all returns all records of a bucket in the order of their keys, for operators and migrations.
func all[T any](s *store, b bucket, err *error) iter.Seq2[string, T] {
	var list snapshot
	*err = s.view(func(t *tx) error { return list.addAll(t, b, math.MaxInt) })
	return each[T](list, err)
}
