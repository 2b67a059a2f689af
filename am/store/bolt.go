package store

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"go.etcd.io/bbolt"
)

var root = []byte("v1")

// boltEngine keeps the buckets in one bbolt file.
type boltEngine struct {
	db   *bbolt.DB
	file *os.File // the one that bbolt has open
	page int64    // bytes of its pages
	path string
	// ahead is Options.Ahead, and size that of the file when takeAhead last looked:
	// the writer's alone.
	ahead, size int64
	// spoilt is why nothing is written any more: a write came upon damage.
	spoilt atomic.Pointer[error]

	gate  sync.Mutex // guards the rest, and that one View at a time begins
	stuck error      // why nothing begins any more: bbolt was left with its locks held
	ended bool       // by Close
	last  int        // the last transaction that was seen
}

// OpenBolt opens or creates the engine of one bbolt file. It refuses, and leaves
// as it is, a file that is locked by another process, empty, cut off, otherwise
// damaged, of another program, or of a newer schema.
func OpenBolt(path string) (Engine, error) {
	e, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func openBolt(path string) (*boltEngine, error) {
	db, file, err := openWhole(path)
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	return &boltEngine{db: db, file: file, page: int64(db.Info().PageSize), path: path}, nil
}

// takeAhead keeps disk for what the file has not yet grown by (Options.Ahead).
func (e *boltEngine) takeAhead() {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	info, err := e.file.Stat()
	if e.ahead == 0 || err != nil || info.Size() == e.size {
		return
	}
	e.size = info.Size()
	_ = syscall.Fallocate(int(e.file.Fd()), keepSize, 0, e.size+e.ahead)
}

func (e *boltEngine) View(f func(Reader) error) error {
	return e.view(func(tx *bbolt.Tx) error {
		top, err := topOf(tx)
		if err != nil {
			return err
		}
		return f(boltReader{top})
	})
}

func (e *boltEngine) view(f func(*bbolt.Tx) error) error {
	return guard(func() error {
		tx, err := e.begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return f(tx)
	})
}

// begin begins a transaction that reads. bbolt panics where neither of its first
// pages is good, and then keeps the locks that all others need to end: so these
// are looked at before.
func (e *boltEngine) begin() (tx *bbolt.Tx, err error) {
	e.gate.Lock()
	defer e.gate.Unlock()
	if err := e.firstPages(); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			err = damage(p)
			e.stuck = err
		}
	}()
	if tx, err = e.db.Begin(false); err != nil {
		return nil, err
	}
	if tx.ID() < e.last {
		_ = tx.Rollback() // it has read nothing yet
		return nil, damage("it shows what it was before the last change")
	}
	e.last = tx.ID()
	return tx, nil
}

// firstPages looks whether one of the first pages tells of the last change, as bbolt
// goes on from the one before where they do not. The caller has the gate.
func (e *boltEngine) firstPages() error {
	switch {
	case e.stuck != nil:
		return e.stuck
	case e.ended:
		return ErrClosed
	}
	p := &pages{r: e.file, page: e.page}
	if _, err := p.readMeta(); err != nil {
		return damage(err)
	}
	if p.meta.tx < uint64(e.last) {
		return damage("its first pages know nothing of the last change")
	}
	return nil
}

// fit refuses to write into a file of which a reader could not be sure.
func (e *boltEngine) fit() error {
	e.gate.Lock()
	defer e.gate.Unlock()
	if err := e.firstPages(); err != nil {
		return err
	}
	if err := stillAt(e.path, e.file); err != nil {
		return spoiled{fmt.Errorf("the file was not at its place (%w) when a change was to be written, which would have been lost; nothing more is promised until the server is started again, not even if the file is put back: make a backup with patchbay backup before you stop the server, and restore that, or put the file back and start the server again", err)}
	}
	return nil
}

// topOf is the bucket of all others.
func topOf(tx *bbolt.Tx) (*bbolt.Bucket, error) {
	defer breaks()
	if top := tx.Bucket(root); top != nil {
		return top, nil
	}
	return nil, damage("it has no buckets")
}

func (e *boltEngine) Apply(ops []Op) (err error) {
	if err := e.spoilt.Load(); err != nil {
		return *err
	}
	if err := e.fit(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil { // bbolt has met damage
			err = damage(p)
			e.spoilt.Store(&err)
		}
	}()
	id := 0
	err = e.db.Update(func(tx *bbolt.Tx) (err error) {
		id = tx.ID()
		top, err := topOf(tx)
		if err != nil {
			return err
		}
		for _, o := range ops {
			b := top.Bucket([]byte(o.Bucket))
			if b == nil {
				if b, err = top.CreateBucket([]byte(o.Bucket)); err != nil {
					return err
				}
			}
			switch {
			case len(o.Key) == 0 || len(o.Key) > MaxKey: // bbolt lets both be deleted
				err = fmt.Errorf("a key has %d bytes", len(o.Key))
			case o.Value == nil:
				err = b.Delete(o.Key)
			default:
				err = b.Put(o.Key, o.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		e.gate.Lock()
		e.last = max(e.last, id)
		e.gate.Unlock()
		e.takeAhead()
	}
	return err
}

func (e *boltEngine) Close() error {
	if err := e.spoilt.Load(); err != nil {
		return *err // its locks may be held for ever; they end with the process
	}
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.stuck != nil {
		return e.stuck // as above
	}
	e.ended = true
	return e.db.Close()
}

// broken is what a reader panics with where pages of the file are damaged, or gone
// from under the server.
type broken struct{ error }

// guard turns what goes wrong in the mapped file into an error. Panics of others
// go on.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover(); {
		case p == nil:
		case damagedMemory(p):
			err = damage(p)
		default:
			panic(p)
		}
	}()
	return f()
}

// boltReader reads one transaction; its panics are broken.
type boltReader struct{ top *bbolt.Bucket }

// bucket is nil for one that nothing was put into.
func (r boltReader) bucket(name string) *bbolt.Bucket { return r.top.Bucket([]byte(name)) }

func breaks() {
	if p := recover(); p != nil {
		panic(broken{damage(p)})
	}
}

func (r boltReader) Get(bucket string, key []byte) []byte {
	defer breaks()
	if b := r.bucket(bucket); b != nil {
		return b.Get(key)
	}
	return nil
}

func (r boltReader) Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool) {
	c, k, v := r.seek(bucket, prefix, from)
	for k != nil && bytes.HasPrefix(k, prefix) && f(k, v) {
		k, v = next(c)
	}
}

// seek finds the first key that a scan shows.
func (r boltReader) seek(bucket string, prefix, from []byte) (c *bbolt.Cursor, k, v []byte) {
	defer breaks()
	b := r.bucket(bucket)
	if b == nil {
		return nil, nil, nil
	}
	c = b.Cursor()
	if bytes.Compare(from, prefix) > 0 {
		prefix = from
	}
	k, v = c.Seek(prefix)
	return c, k, v
}

func next(c *bbolt.Cursor) (k, v []byte) {
	defer breaks()
	return c.Next()
}
