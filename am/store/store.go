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
	"patchbay/am/fileowner"
)

// ErrNotCommitted is wrapped by Commit if the group's write failed: nothing of the
// decision has happened, unless the error also wraps ErrInDoubt.
var ErrNotCommitted = errors.New("the store could not write the change")

// ErrInDoubt is wrapped by Commit, beside ErrNotCommitted, if the group's write failed
// and its revision is nevertheless in the file: after the next open either all of the
// group or nothing exists.
var ErrInDoubt = errors.New("it is in doubt whether it has lasted")

// ErrClosed is returned by Commit and Read after Close.
var ErrClosed = errors.New("the store is closed")

// Decision reads a view and returns what to change, or refuses with an error that
// Commit returns unchanged. Commit runs it exactly once. It must not keep the view,
// wait, or have side effects.
type Decision func(*View) (ChangeSet, error)

// Options are the store's settings; the zero value is usable.
type Options struct {
	// Now is the clock of views; time.Now when nil.
	Now func() time.Time
	// MaxGroup is how many decisions share one write, 256 when 0.
	MaxGroup int
	// GroupTime is how long the decisions of one write may take together, 20 ms when 0;
	// the one that passes it is the group's last.
	GroupTime time.Duration
	// Site is the name of the site whose promises the store keeps. A new store
	// remembers it, and is then opened for no other; "" opens any.
	// Of a file it also remembers which one it is: a copy is refused.
	Site string
	// Move makes a copy the store of the site.
	Move bool
	// ReadOnly is the answer of Commit to each change; nil for a store that may be
	// changed. A copy is opened, too. The file may still be brought to the schema of today.
	ReadOnly error
	// Outbox says what is to be told outside of a change; nil for nothing. It is
	// called by the committer, so it is quick, waits for nothing and has no effects.
	Outbox func(Change) []Message
	// Ahead is how many bytes of the disk the file keeps for itself beside its size.
	// When others have filled the disk, changes go on for so long, such as those by
	// which slivers are deleted. There is none where the file system has no such
	// thing, or is full already.
	Ahead int64
	// Broken is told once when the store promises nothing more, with the reason that
	// Err gives; nil for nobody. It is quick, and does not use the store.
	Broken func(error)

	// commit replaces the commit of bbolt in tests.
	commit func(*bbolt.Tx) error
}

// Store keeps the records of a site. Its methods may be called concurrently.
type Store struct {
	db  *database
	opt Options
	// trouble is why nothing more is promised, if it is so.
	trouble *trouble
	queue   *queue
	longest atomic.Int64  // see LongestDecision
	done    chan struct{} // closed when the committer has ended

	mu      sync.Mutex // guards closed, and that no read begins after it is set
	closed  bool
	readers sync.WaitGroup
}

// pending is a commit that waits for its answer. Either decide or attach is set.
type pending struct {
	ctx    context.Context
	caller string // see CommitFor
	decide Decision
	attach Observer
	answer chan error
}

// Open opens or creates the store in the file path. It migrates a file of an older
// schema to the current one, after keeping a copy as path.schemaN. A refused file is
// not changed; the error says why and what to do. It wraps ErrCopy for a copy of the
// site's store.
func Open(path string, o Options) (s *Store, err error) {
	err = fileowner.As(filepath.Dir(path), func() (err error) { s, err = openStore(path, o); return err })
	return s, err
}

func openStore(path string, o Options) (_ *Store, err error) {
	db, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	if db.ahead = o.Ahead; o.commit != nil {
		db.commit = o.commit
	}
	db.takeAhead()
	// Whose it is comes first: nobody else's store is brought to another schema.
	claimed, err := db.claim(o)
	if err == nil {
		err = db.migrate(db.keep, claimed)
	}
	if err != nil {
		return nil, cannotOpen(path, errors.Join(err, db.close()))
	}
	return start(db, o)
}

// start starts the store of an open database; it closes the database if it fails.
func start(db *database, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxGroup = cmp.Or(o.MaxGroup, 256)
	o.GroupTime = cmp.Or(o.GroupTime, 20*time.Millisecond)
	s := &Store{db: db, opt: o, trouble: &trouble{told: o.Broken}, queue: newQueue(), done: make(chan struct{})}
	c := &committer{db: db, now: o.Now, outbox: o.Outbox, groupTime: o.GroupTime, readOnly: o.ReadOnly, trouble: s.trouble, longest: &s.longest}
	if err := db.read(func(r reader) error { c.revision = (&View{r: r}).Revision(); return nil }); err != nil {
		return nil, errors.Join(err, db.close())
	}
	go s.run(c)
	return s, nil
}

// run is the committer's goroutine: it commits all waiting decisions as one group.
// After a group of several it lets other goroutines run as long as that brings more
// callers: otherwise the first caller that returns would write alone while all others
// wait. A lone caller is not delayed.
func (s *Store) run(c *committer) {
	defer close(s.done)
	var group []*pending
	for p := s.queue.wait(); p != nil; p = s.queue.wait() {
		if company := len(group); company > 1 {
			for waiting := -1; waiting < s.queue.len() && waiting < company; runtime.Gosched() {
				waiting = s.queue.len()
			}
		}
		group = group[:0]
		for ; p != nil; p = s.queue.pop() {
			if group = append(group, p); len(group) == s.opt.MaxGroup {
				break
			}
		}
		s.queue.putBack(c.commit(group))
	}
}

// Commit runs the decision and returns when its changes are durable and published, or
// why nothing has changed: the decision's own error, ErrNotCommitted, ErrClosed, or
// that of ctx if it ended before the decision's turn.
func (s *Store) Commit(ctx context.Context, d Decision) error { return s.CommitFor(ctx, "", d) }

// CommitFor is Commit for a caller, by any name. Callers take turns; Commit is for the
// site itself, which takes turns like a caller.
func (s *Store) CommitFor(ctx context.Context, caller string, d Decision) error {
	return s.submit(&pending{ctx: ctx, caller: caller, decide: d, answer: make(chan error, 1)})
}

// LongestDecision returns the time of the longest decision since the store was opened.
func (s *Store) LongestDecision() time.Duration { return time.Duration(s.longest.Load()) }

// Observe registers o: it stages and publishes all existing slivers, and then every
// change in order.
func (s *Store) Observe(o Observer) error {
	return s.submit(&pending{ctx: context.Background(), attach: o, answer: make(chan error, 1)})
}

func (s *Store) submit(p *pending) error {
	if !s.queue.push(p) {
		return ErrClosed
	}
	return <-p.answer
}

// Read calls f with a view of the published state. f may call Read.
func (s *Store) Read(f func(*View) error) error {
	return s.reading(func() error {
		return s.db.read(func(r reader) error { return f(&View{r: r, now: s.opt.Now()}) })
	})
}

// reading calls f, which reads, unless the store is closed. Close waits for it.
func (s *Store) reading(f func() error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.readers.Add(1)
	s.mu.Unlock()
	defer s.readers.Done()
	return s.trouble.meet(f())
}

// Now returns the time of the store's clock, which views use too.
func (s *Store) Now() time.Time { return s.opt.Now() }

// Slivers returns all slivers.
func (s *Store) Slivers() (all []am.Sliver, err error) {
	err = s.Read(func(v *View) error {
		return v.Slivers(func(x am.Sliver) bool { all = append(all, x); return true })
	})
	return all, err
}

// Close answers waiting commits, waits for running reads, and closes the file.
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
