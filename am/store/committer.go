package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"patchbay/am"
)

// committer turns groups of decisions into writes. One goroutine owns it.
type committer struct {
	engine    Engine
	now       func() time.Time
	revision  Rev // the last one written
	observers []Observer
	outbox    func(Change) []Message
	readOnly  error // the answer to each change, if it is not nil
	// trouble is set when a write failed and yet shows, as nobody knows whether it
	// lasts, and when damage was met: nothing more is promised until the next start.
	trouble *trouble
	// groupTime is after how long the decisions of a group that have not run are left
	// to the next group: they would delay the answers of those that have.
	groupTime time.Duration
	// slow are the callers whose last decision took longer than that: the next one
	// begins a group, so that nobody else's answer waits for it.
	slow map[string]bool
	// longest is the time of the longest decision so far, in nanoseconds.
	longest *atomic.Int64
}

// took notes how long a decision of a caller took.
func (c *committer) took(caller string, d time.Duration) {
	if int64(d) > c.longest.Load() {
		c.longest.Store(int64(d))
	}
	if d > c.groupTime {
		c.slow[caller] = true
	} else {
		delete(c.slow, caller)
	}
}

func (c *committer) load(r Reader) error {
	b := r.Get(metaBucket, []byte(revisionName))
	if b == nil {
		return nil
	}
	if len(b) != 8 {
		return errors.New("its revision is damaged; restore a backup")
	}
	c.revision = Rev(binary.BigEndian.Uint64(b))
	return nil
}

// commit decides, stages, writes, publishes and answers one group. It returns those
// for which the group's decisions left no time, unanswered.
func (c *committer) commit(group []*pending) (rest []*pending) {
	if why := c.trouble.err(); why != nil {
		for _, p := range group {
			p.answer <- fmt.Errorf("%w: %w", ErrNotCommitted, why)
		}
		return nil
	}
	answers := make([]error, len(group))
	staged := make([]bool, len(group)) // whether it was decided upon changes of others
	revision := c.revision
	var ops []Op
	read := false
	err := c.engine.View(func(r Reader) error {
		if now := (&View{r: r}).Revision(); now != c.revision {
			return damage(fmt.Sprintf("it is of revision %d, and the last was %d", now, c.revision))
		}
		read = true
		for i, p := range group {
			if p.attach != nil {
				answers[i] = c.attach(r, p.attach)
			}
		}
		o, began := newOverlay(r), time.Now()
		for i, p := range group {
			switch {
			case p.attach != nil:
			case i > 0 && (time.Since(began) > c.groupTime || c.slow[p.caller]):
				rest = append(rest, p)
			case p.ctx.Err() != nil:
				answers[i] = p.ctx.Err()
			default:
				staged[i] = len(o.ops) > 0
				start := time.Now()
				answers[i] = c.decide(o, p.decide, &revision)
				c.took(p.caller, time.Since(start))
			}
		}
		ops = o.ops
		return nil
	})
	if c.trouble.meet(err) == nil {
		for _, answer := range answers {
			if c.trouble.meet(answer); errors.Is(answer, ErrBroken) {
				err = answer // nor is what others of the group want promised any more
			}
		}
	}
	if err == nil && len(ops) > 0 {
		ops = append(ops, Op{metaBucket, []byte(revisionName), binary.BigEndian.AppendUint64(nil, uint64(revision))})
		if err = c.engine.Apply(ops); err != nil && c.shows(revision) {
			c.trouble.set(fmt.Errorf("it is in doubt whether an earlier change has lasted; start the server again (%w)", err))
			err = fmt.Errorf("%w; start the server again (%w)", ErrInDoubt, err)
		}
	}
	if c.trouble.meet(err) == nil {
		c.revision = revision
	}
	for _, x := range c.observers {
		if err == nil {
			x.Publish()
		} else {
			x.Rollback()
		}
	}
	for i, p := range group {
		if len(rest) > 0 && slices.Contains(rest, p) {
			continue
		}
		// What was refused for a change that has not happened was refused for nothing.
		if err != nil && (answers[i] == nil && (p.attach == nil || !read) || staged[i]) {
			answers[i] = fmt.Errorf("%w: %w", ErrNotCommitted, err)
		}
		p.answer <- answers[i]
	}
	return rest
}

// shows tells whether the engine shows a revision.
func (c *committer) shows(revision Rev) bool {
	now := &committer{}
	return c.engine.View(now.load) != nil || now.revision == revision
}

// decide runs one decision over the overlay and stages what it wants.
func (c *committer) decide(o *overlay, d Decision, revision *Rev) error {
	v := &View{r: o, now: c.now(), read: map[Key]any{}}
	cs, err := run(d, v)
	if err != nil {
		return err
	}
	for _, e := range cs.Expect {
		if v.Rev(e.Key) != e.Rev {
			return fmt.Errorf("%w: %s %s", ErrConflict, e.Key.Kind, e.Key.ID)
		}
	}
	if cs.Empty() {
		return nil
	}
	if c.readOnly != nil {
		return c.readOnly
	}
	next := *revision + 1
	cs.number(next)
	if err := post(c.outbox, v, &cs, next); err != nil {
		return err
	}
	ops, err := operations(v, cs, next)
	if err != nil {
		return err
	}
	*revision = next
	o.stage(ops)
	for _, x := range c.observers {
		x.Stage(cs)
	}
	return nil
}

// run turns a panic of a decision into its refusal: one caller's bug must not
// end the committer of all.
func run(d Decision, v *View) (cs ChangeSet, err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case damagedMemory(p):
			err = fmt.Errorf("%w: %w", ErrNotCommitted, damage(p))
		default:
			err = fmt.Errorf("a decision panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return d(v)
}

// attach shows a new observer what is published, before any of the group.
func (c *committer) attach(r Reader, x Observer) error {
	var all ChangeSet
	err := (&View{r: r}).Slivers(func(s am.Sliver) bool { all.PutSliver(s); return true })
	if err != nil {
		return err
	}
	x.Stage(all)
	x.Publish()
	c.observers = append(c.observers, x)
	return nil
}

// operations spells a change set out as writes, the indexes included.
func operations(v *View, cs ChangeSet, rev Rev) ([]Op, error) {
	var ops []Op
	unindex := func(k Key) error {
		if k.Kind != Slivers {
			return nil
		}
		old, err := before[am.Sliver](v, k)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		ops = append(ops, Op{bySlice, sliceIndexKey(old.Slice.Key(), k.ID), nil})
		if mayExpire(&old) {
			ops = append(ops, Op{byExpiry, expiryKey(old.Expires, k.ID), nil})
		}
		return nil
	}
	for _, k := range cs.Delete {
		if err := unindex(k); err != nil {
			return nil, err
		}
		ops = append(ops, Op{string(k.Kind), []byte(k.ID), nil})
	}
	last := make(map[Key]int, len(cs.Put)) // a record put twice is what the last one says
	for i, p := range cs.Put {
		last[p.Key] = i
	}
	for i, p := range cs.Put {
		if p.Key.Kind != Journal && last[p.Key] != i {
			continue
		}
		if err := unindex(p.Key); err != nil {
			return nil, err
		}
		b, err := encode(rev, p.Value)
		if err != nil {
			return nil, err
		}
		ops = append(ops, Op{string(p.Key.Kind), []byte(p.Key.ID), b})
		if s, ok := p.Value.(am.Sliver); ok {
			ops = append(ops, Op{bySlice, sliceIndexKey(s.Slice.Key(), p.Key.ID), []byte{}})
			if mayExpire(&s) {
				ops = append(ops, Op{byExpiry, expiryKey(s.Expires, p.Key.ID), []byte{}})
			}
		}
	}
	return ops, nil
}
