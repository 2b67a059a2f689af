package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/fileowner"
)

// ErrNotCommitted is wrapped by Commit when the group's write failed: nothing
// of the decision has happened, unless the error wraps ErrInDoubt, too.
var ErrNotCommitted = errors.New("the store could not write the change")

// ErrInDoubt is wrapped by Commit, beside ErrNotCommitted, when the group's write
// failed and yet shows: what will be there when the store is opened again, all of
// the group or nothing, nobody knows.
var ErrInDoubt = errors.New("it is in doubt whether it has lasted")

// ErrConflict is wrapped by Commit when a condition of the change set does not
// hold: nothing of the decision has happened.
var ErrConflict = errors.New("the record has changed meanwhile")

// ErrClosed is returned by Commit and Read after Close.
var ErrClosed = errors.New("the store is closed")

// Decision reads a view and says what to change, or refuses with an error that
// Commit hands back unchanged. Commit runs it exactly once. It must not keep the view,
// wait, or have effects of its own.
type Decision func(*View) (ChangeSet, error)

// Options are the store's settings; the zero value is good.
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
	// Fault is asked before each write, for tests: its error is the write's.
	Fault func() error
	// Ahead is how many bytes of the disk the file keeps for itself beside its size.
	// When others have filled the disk, changes go on for so long, such as those by
	// which slivers are deleted. There is none where the file system has no such
	// thing, or is full already.
	Ahead int64
	// Broken is told once when the store promises nothing more, with the reason that
	// Err gives; nil for nobody. It is quick, and does not use the store.
	Broken func(error)
}

// Store keeps the records. All methods may be called at the same time.
type Store struct {
	engine Engine
	file   *boltEngine // the engine's, if it is one
	opt    Options
	// trouble is why nothing more is promised, if it is so.
	trouble *trouble
	queue   *queue
	longest atomic.Int64  // see LongestDecision
	done    chan struct{} // closed when the committer has ended

	mu     sync.RWMutex // guards closed, and the engine against reads after Close
	closed bool
}

// pending is a commit waiting for its answer. Either decide or attach is set.
type pending struct {
	ctx    context.Context
	caller string // see CommitFor
	decide Decision
	attach Observer
	answer chan error
}

// Open opens or creates the store in the file path. A file of an older schema is
// brought to that of today, after it was kept beside as path.schemaN. A file that is
// refused stays as it is; the error says why, and what helps. It wraps ErrCopy for a
// copy of the site's store.
func Open(path string, o Options) (s *Store, err error) {
	err = fileowner.As(filepath.Dir(path), func() (err error) { s, err = openStore(path, o); return err })
	return s, err
}

func openStore(path string, o Options) (*Store, error) {
	e, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	e.ahead = o.Ahead
	e.takeAhead()
	s, err := start(e, o, e)
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	s.file = e
	return s, nil
}

// New is a store over an engine, which it closes, also if it returns an error.
func New(e Engine, o Options) (*Store, error) {
	s, err := start(e, o, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot open the store: %w", err)
	}
	return s, nil
}

// start starts the store of an engine; file is the engine of the file path, nil if there
// is none that others know.
func start(e Engine, o Options, file *boltEngine) (_ *Store, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxGroup == 0 {
		o.MaxGroup = 256
	}
	if o.GroupTime == 0 {
		o.GroupTime = 20 * time.Millisecond
	}
	if o.Fault != nil {
		e = faulty{e, o.Fault}
	}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	c := &committer{engine: e, now: o.Now, outbox: o.Outbox, groupTime: o.GroupTime, slow: map[string]bool{}, readOnly: o.ReadOnly, trouble: &trouble{told: o.Broken}}
	// Whose it is comes first: nobody else's store is brought to another schema.
	claimed, err := claim(e, o, file)
	if err != nil {
		return nil, err
	}
	var keep func(schema uint64) error
	if file != nil {
		keep = file.keep
	}
	if err := migrate(e, keep); err != nil {
		return nil, err
	}
	if len(claimed) > 0 {
		if err := e.Apply(claimed); err != nil {
			return nil, err
		}
	}
	if err := e.View(c.load); err != nil {
		return nil, err
	}
	s := &Store{engine: e, opt: o, trouble: c.trouble, queue: newQueue(), done: make(chan struct{})}
	c.longest = &s.longest
	go s.run(c)
	return s, nil
}

// ownerOf is the site whose promises an engine keeps, "" for none yet. It is an
// error if that is another than site; "" asks for any.
func ownerOf(e Engine, site string) (owner string, err error) {
	err = e.View(func(r Reader) error { owner = string(r.Get(metaBucket, []byte(siteName))); return nil })
	if err == nil && owner != "" && site != "" && owner != site {
		err = notOurs(owner, site)
	}
	return owner, err
}

func notOurs(owner, site string) error {
	return fmt.Errorf("it keeps the promises of site %s, not of %s; set authority back to %s, or name another file for the new site", owner, site, owner)
}

// run is the committer's goroutine: it takes what is waiting as one group.
func (s *Store) run(c *committer) {
	defer close(s.done)
	var group []*pending
	for p := s.queue.wait(); p != nil; p = s.queue.wait() {
		company := len(group) // of the last group
		group = s.gather(append(group[:0], p), company)
		s.queue.putBack(c.commit(group))
	}
}

// regroup is how long those who were answered together get to come back
// together: less than a write takes.
const regroup = 100 * time.Microsecond

// gather adds what is waiting to group. Without regrouping, the first of those
// just answered would write alone while all others wait. A lone caller had no
// company and is not delayed.
func (s *Store) gather(group []*pending, company int) []*pending {
	began := time.Now()
	for len(group) < s.opt.MaxGroup {
		if p := s.queue.pop(); p != nil {
			group = append(group, p)
			continue
		}
		if len(group) >= company || time.Since(began) > regroup {
			break
		}
		runtime.Gosched()
	}
	return group
}

// Commit runs the decision and returns when its changes are durable and
// published, or with the reason why nothing has changed: the decision's own
// error, ErrConflict, ErrNotCommitted, ErrClosed, or that of ctx if it ended
// before the decision's turn.
func (s *Store) Commit(ctx context.Context, d Decision) error { return s.CommitFor(ctx, "", d) }

// CommitFor is Commit for a caller, by any name. Where many decisions wait, callers
// take turns; Commit is for the site itself, which takes its turn like a caller.
func (s *Store) CommitFor(ctx context.Context, caller string, d Decision) error {
	return s.submit(&pending{ctx: ctx, caller: caller, decide: d, answer: make(chan error, 1)})
}

// LongestDecision is the time of the longest decision since the store was opened.
func (s *Store) LongestDecision() time.Duration { return time.Duration(s.longest.Load()) }

// Observe registers o: it is staged and published all slivers there are, and
// then every change, in order.
func (s *Store) Observe(o Observer) error {
	return s.submit(&pending{ctx: context.Background(), attach: o, answer: make(chan error, 1)})
}

func (s *Store) submit(p *pending) error {
	if !s.queue.push(p) {
		return ErrClosed
	}
	return <-p.answer
}

// Read calls f with a view of what is published.
func (s *Store) Read(f func(*View) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return s.trouble.meet(s.engine.View(func(r Reader) error { return f(&View{r: r, now: s.opt.Now()}) }))
}

// Now is the time by the store's clock, which views have, too.
func (s *Store) Now() time.Time { return s.opt.Now() }

// Slivers is Read for all slivers, as a list.
func (s *Store) Slivers() (all []am.Sliver, err error) {
	err = s.Read(func(v *View) error {
		return v.Slivers(func(x am.Sliver) bool { all = append(all, x); return true })
	})
	return all, err
}

// Close answers what is waiting, then closes the file.
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
	return s.engine.Close()
}
