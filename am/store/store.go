package store

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am"
	"patchbay/am/file"
)

// ErrNotCommitted is wrapped by the error of Commit if the decision's changes could not be
// written. Then nothing has changed, unless the error also wraps ErrInDoubt.
var ErrNotCommitted = errors.New("the store could not write the change")

// ErrInDoubt is wrapped by the error of Commit, beside ErrNotCommitted, if the write failed but
// the file has its revision. After the store is opened again, either all changes of this write
// exist or none.
var ErrInDoubt = errors.New("it is unknown whether the change is durable")

// ErrClosed is returned by Commit and Read after Close.
var ErrClosed = errors.New("the store is closed")

// Decision reads a view and returns the changes to make, or an error that Commit returns
// unchanged. It may run several times, and only its last run counts. A Decision must not use the view
// after it has returned, must not wait, and must not have side effects.
type Decision func(*View) (ChangeSet, error)

// Options are the store's settings; the zero value is usable.
type Options struct {
	// Now is the clock of views; nil means time.Now.
	Now func() time.Time
	// MaxGroup is the maximum number of decisions that share one write; 0 means 256.
	MaxGroup int
	// GroupTime is the maximum total duration of the decisions of one write; 0 means 20 ms.
	// When it has passed, the remaining decisions wait for the next write.
	GroupTime time.Duration
	// Short is the longest duration of a decision of CommitFor that may run in the commit, where all
	// other changes wait for it; 0 means 5 ms.
	Short time.Duration
	// Site is the name of the store's site. A new store records the name and the identity of its
	// file. Open refuses the store for any other site, and refuses a copy. If Site is "", Open
	// checks neither the site nor the identity.
	Site string
	// Move makes Open accept a copy, which becomes the site's store.
	Move bool
	// ReadOnly, if not nil, makes the store read-only: Commit refuses each change with this
	// error. Open then accepts a copy. It still migrates the file to the current schema.
	ReadOnly error
	// Ahead is the number of bytes that are allocated on the disk beyond the file's size. When
	// other programs have filled the disk, the store can still write this much, for example to
	// delete slivers. Nothing is allocated if the file system is full or does not support this.
	Ahead int64
	// Broken, if not nil, is called once when the store stops accepting changes, with
	// the reason that Err returns. It must be quick and must not use the store.
	Broken func(error)
	// Write, if not nil, is called for each write and returns the error of the write. It calls
	// write once, or not at all: then it must return an error, and nothing is written. Tests use
	// it to make writes fail.
	Write func(write func() error) error
}

// Store keeps the records of a site. Its methods may be called concurrently.
type Store struct {
	db  *database
	opt Options
	// failure is the reason why no more changes are accepted, if there is one.
	failure *failure
	queue   *queue
	longest atomic.Int64 // see LongestDecision
	// revision is the last published revision.
	revision atomic.Uint64
	done     chan struct{} // closed when the committer has ended

	mu      sync.Mutex // guards the following two; no read begins after closed is set
	closed  bool
	changed []chan struct{} // see Changed
	readers sync.WaitGroup
}

// pending is a commit that waits for its answer.
type pending struct {
	ctx    context.Context
	caller string // see CommitFor
	decide Decision
	// prepared is the result of the decision outside of the commit; nil if it did not run there.
	prepared *prepared
	answer   chan error
}

// Open opens or creates the store in the file path. A file of an older schema is copied to
// path.schemaN and then migrated to the current schema. Open does not change a file that it
// refuses; the error says why and what to do. The error wraps ErrCopy if the file is a copy
// of the site's store.
func Open(path string, o Options) (s *Store, err error) {
	err = file.AsOwner(filepath.Dir(path), func() (err error) { s, err = openStore(path, o); return err })
	return s, err
}

// openStore does the work of Open, as the owner of the folder.
func openStore(path string, o Options) (_ *Store, err error) {
	db, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	if db.ahead = o.Ahead; o.Write != nil {
		db.commitTx = func(tx *bbolt.Tx) error {
			err := o.Write(tx.Commit)
			if err != nil {
				_ = tx.Rollback() // if Write has not called write
			}
			return err
		}
	}
	db.preallocate()
	// Check the site first: another site's store must not be migrated.
	claimed, err := db.claim(o)
	if err == nil {
		err = db.migrate(db.keepCopy, claimed)
	}
	if err != nil {
		return nil, cannotOpen(path, errors.Join(err, db.close()))
	}
	return start(db, o)
}

// start returns a Store of an open database and starts its committer. It closes the database if it fails.
func start(db *database, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxGroup = cmp.Or(o.MaxGroup, 256)
	o.GroupTime = cmp.Or(o.GroupTime, 20*time.Millisecond)
	o.Short = cmp.Or(o.Short, 5*time.Millisecond)
	s := &Store{db: db, opt: o, failure: &failure{notify: o.Broken}, queue: newQueue(), done: make(chan struct{})}
	c := &committer{db: db, now: o.Now, notify: s.notifyFollowers, groupTime: o.GroupTime, short: o.Short, readOnly: o.ReadOnly, failure: s.failure, longest: &s.longest, published: &s.revision}
	if err := db.read(func(r reader) error { c.revision = r.revision(); return nil }); err != nil {
		return nil, errors.Join(err, db.close())
	}
	s.revision.Store(uint64(c.revision))
	go s.run(c)
	return s, nil
}

// run commits all waiting decisions as one group. After a group of several decisions, run lets
// other goroutines run, until as many commits wait as the last group had, or no more commits
// arrive. Otherwise the caller with the first answer would get a write for its next commit alone,
// and all others would wait for that write.
func (s *Store) run(c *committer) {
	defer close(s.done)
	var group []*pending
	for p := s.queue.wait(); p != nil; p = s.queue.wait() {
		if lastSize := len(group); lastSize > 1 {
			for waiting := -1; waiting < s.queue.len() && waiting < lastSize; runtime.Gosched() {
				waiting = s.queue.len()
			}
		}
		group = group[:0]
		for ; p != nil; p = s.queue.pop() {
			if group = append(group, p); len(group) == s.opt.MaxGroup {
				break
			}
		}
		s.queue.putBack(c.commitGroup(group))
	}
}

// Commit runs the decision and returns nil when its changes are durable.
// Otherwise it returns the decision's own error, ErrClosed, an error that wraps
// ErrNotCommitted, or the error of ctx if ctx ended before the decision's turn.
//
// The decision runs in the commit, where all other changes wait for it. So it must be quick.
func (s *Store) Commit(ctx context.Context, d Decision) error {
	return s.submit(&pending{ctx: ctx, decide: d})
}

// CommitFor does what Commit does, on behalf of the named caller. Changes of different callers take
// turns. Commit uses the name "", which stands for the site itself.
//
// The decision may take long, since it runs on a view of the published state, for which no other change waits.
// The commit only checks that nothing has changed that the decision has read. Else the decision
// runs again: in the commit if it is short, and otherwise on another view, a few times at most.
// Then CommitFor returns ErrContended. An error or an empty change set is returned from a view.
//
// If isShort is true, the decision runs in the commit only, as with Commit: where it would have to run again, that
// is less work.
func (s *Store) CommitFor(ctx context.Context, caller string, isShort bool, d Decision) error {
	if isShort {
		return s.submit(&pending{ctx: ctx, caller: caller, decide: d})
	}
	for range maxAttempts {
		p, err := s.prepare(ctx, d)
		if err != nil || p.cs.Empty() {
			return err
		}
		if err := s.submit(&pending{ctx: ctx, caller: caller, decide: d, prepared: p}); !errors.Is(err, errStale) {
			return err
		}
	}
	return ErrContended
}

func (s *Store) submit(p *pending) error {
	p.answer = make(chan error, 1)
	if !s.queue.push(p) {
		return ErrClosed
	}
	return <-p.answer
}

// Revision returns the revision of the last change. It is quicker than View.Revision.
func (s *Store) Revision() Rev { return Rev(s.revision.Load()) }

// LongestDecision returns the longest time that one change took in the commit since the store was opened.
func (s *Store) LongestDecision() time.Duration { return time.Duration(s.longest.Load()) }

// Read calls f with a view of the published state. f may call Read.
func (s *Store) Read(f func(*View) error) error {
	return s.reading(func() error {
		return s.db.read(func(r reader) error { return f(&View{r: r, now: s.opt.Now()}) })
	})
}

// reading calls f unless the store is closed. Close waits until f has returned.
func (s *Store) reading(f func() error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.readers.Add(1)
	s.mu.Unlock()
	defer s.readers.Done()
	return s.failure.note(f())
}

// Now returns the time of the store's clock, which views use too.
func (s *Store) Now() time.Time { return s.opt.Now() }

// Slivers returns all slivers.
func (s *Store) Slivers() (list []am.Sliver, err error) {
	err = s.Read(func(v *View) error {
		return v.Slivers(func(x am.Sliver) bool { list = append(list, x); return true })
	})
	return list, err
}

// Close refuses new commits and reads, finishes the waiting commits and running reads, and
// closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.queue.close()
	s.mu.Unlock()
	<-s.done
	s.readers.Wait()
	return s.db.close()
}
