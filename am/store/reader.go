package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// root is the bucket that contains all others.
var root = []byte("v1")

// metaBucket, the calendar and the indexes bySlice, byExpiry and byStart are buckets that hold no
// records. The other names are keys in metaBucket.
const (
	metaBucket     = "meta"
	calendarBucket = "calendar"
	bySlice        = "by_slice"
	byExpiry       = "by_expiry"
	byStart        = "by_start"
	revisionName   = "revision"
	schemaName     = "schema"
	siteName       = "site"
	identityName   = "identity"
)

// buckets are the buckets that every schema has. Since schema 3 the calendar is required too. The
// buckets of changes and cursors may be missing, and by_start until schema 6.
var buckets = []string{metaBucket, string(Slices), string(Slivers), string(Documents), string(Tasks), string(Journal), bySlice, byExpiry}

const maxKey = bbolt.MaxKeySize

// op sets a key, or deletes it when value is nil.
type op struct {
	bucket     string
	key, value []byte
}

// reader reads one transaction. Its results are valid only during the transaction and must not
// be changed. At a damaged or missing page, a reader panics with a value of type damagePanic.
type reader struct {
	top   *bbolt.Bucket
	reads *reads // gets what is read; may be nil
}

type damagePanic struct{ error }

func panicAsBroken() {
	if p := recover(); p != nil {
		panic(damagePanic{damage(p)})
	}
}

func readerOf(tx *bbolt.Tx) (reader, error) {
	defer panicAsBroken()
	if top := tx.Bucket(root); top != nil {
		return reader{top: top}, nil
	}
	return reader{}, damage("it has no buckets")
}

// bucket returns nil if the bucket does not exist. apply creates a bucket when it first sets a key
// in it.
func (r reader) bucket(name string) *bbolt.Bucket { return r.top.Bucket([]byte(name)) }

// get returns nil if the key does not exist.
func (r reader) get(bucket string, key []byte) []byte {
	defer panicAsBroken()
	r.reads.addKey(bucket, key)
	if b := r.bucket(bucket); b != nil {
		return b.Get(key)
	}
	return nil
}

// revision returns the revision of the last change.
func (r reader) revision() Rev {
	b := r.get(metaBucket, []byte(revisionName))
	if len(b) != 8 {
		return 0
	}
	return Rev(binary.BigEndian.Uint64(b))
}

// scan calls f for each key that has the prefix and is at least first, in order, until f
// returns false.
func (r reader) scan(bucket string, prefix, first []byte, f func(k, v []byte) bool) {
	end := r.reads.addRange(bucket, prefix, first)
	c, k, v := r.seek(bucket, prefix, first)
	for k != nil && bytes.HasPrefix(k, prefix) {
		if !f(k, v) {
			end(k)
			return
		}
		k, v = next(c)
	}
}

// backwards calls f for each key of a bucket, last first, until f returns false.
func (r reader) backwards(bucket string, f func(k, v []byte) bool) {
	r.reads.addRange(bucket, nil, nil)
	b := r.bucket(bucket)
	if b == nil {
		return
	}
	c := b.Cursor()
	step := func(move func() (k, v []byte)) (k, v []byte) {
		defer panicAsBroken()
		return move()
	}
	for k, v := step(c.Last); k != nil && f(k, v); k, v = step(c.Prev) {
	}
}

// seek returns a cursor at the first key of a scan, with that key and its value.
func (r reader) seek(bucket string, prefix, first []byte) (c *bbolt.Cursor, k, v []byte) {
	defer panicAsBroken()
	b := r.bucket(bucket)
	if b == nil {
		return nil, nil, nil
	}
	c = b.Cursor()
	if bytes.Compare(first, prefix) > 0 {
		prefix = first
	}
	k, v = c.Seek(prefix)
	return c, k, v
}

func seekFrom(c *bbolt.Cursor, first []byte) (k, v []byte) {
	defer panicAsBroken()
	return c.Seek(first)
}

func next(c *bbolt.Cursor) (k, v []byte) {
	defer panicAsBroken()
	return c.Next()
}

// apply carries out the operations in order. It needs a write transaction, which must be rolled back after an error.
func (r reader) apply(ops ...op) (err error) {
	defer panicAsBroken()
	for _, o := range ops {
		b := r.bucket(o.bucket)
		if b == nil {
			if b, err = r.top.CreateBucket([]byte(o.bucket)); err != nil {
				return err
			}
		}
		switch {
		case len(o.key) == 0 || len(o.key) > maxKey: // bbolt would ignore a deletion of such a key
			err = fmt.Errorf("a key has %d bytes", len(o.key))
		case o.value == nil:
			err = b.Delete(o.key)
		default:
			err = b.Put(o.key, o.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
