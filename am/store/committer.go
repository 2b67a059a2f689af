package store

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"patchbay/am"
)

// committer turns groups of decisions into transactions. One goroutine owns it.
type committer struct {
	db        *database
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
	// longest is the time of the longest decision so far, in nanoseconds.
	longest *atomic.Int64
}

// commit decides, writes, publishes and answers one group in one transaction. It
// returns, unanswered, the commits for which the group had no time left.
func (c *committer) commit(group []*pending) (rest []*pending) {
	if why := c.trouble.err(); why != nil {
		for _, p := range group {
			p.answer <- fmt.Errorf("%w: %w", ErrNotCommitted, why)
		}
		return nil
	}
	g := groupRun{group: group, answers: make([]error, len(group)), depends: make([]bool, len(group)), revision: c.revision}
	err := c.db.update(func(r reader) error { return c.decideAll(r, &g) })
	switch {
	case errors.Is(err, errUnchanged):
		err = nil
	case err != nil && g.revision != c.revision && c.hasRevision(g.revision):
		c.trouble.set(fmt.Errorf("it is in doubt whether an earlier change has lasted; start the server again (%w)", err))
		err = fmt.Errorf("%w; start the server again (%w)", ErrInDoubt, err)
	}
	if c.trouble.meet(err) == nil {
		c.revision = g.revision
	}
	for _, x := range c.observers {
		if err == nil {
			x.Publish()
		} else {
			x.Rollback()
		}
	}
	for i, p := range group {
		if slices.Contains(g.rest, p) {
			continue
		}
		// What was refused for a change that has not happened was refused for nothing.
		if err != nil && (g.answers[i] == nil && (p.attach == nil || !g.attached) || g.depends[i]) {
			g.answers[i] = fmt.Errorf("%w: %w", ErrNotCommitted, err)
		}
		p.answer <- g.answers[i]
	}
	return g.rest
}

// groupRun is the state of a group in its transaction.
type groupRun struct {
	group   []*pending
	answers []error
	// depends says which were decided after changes of others in the group.
	depends  []bool
	attached bool       // the observers have seen what is published
	revision Rev        // the last one in the transaction
	rest     []*pending // no time was left for them
}

// errUnchanged ends the transaction of a group that changes nothing.
var errUnchanged = errors.New("nothing is to be written")

// decideAll runs the decisions of a group and applies their changes to the transaction.
func (c *committer) decideAll(r reader, g *groupRun) error {
	if now := (&View{r: r}).Revision(); now != c.revision {
		return damage(fmt.Sprintf("it is of revision %d, and the last was %d", now, c.revision))
	}
	for i, p := range g.group {
		if p.attach != nil {
			g.answers[i] = c.attach(r, p.attach)
		}
	}
	g.attached = true
	began := time.Now()
	for i, p := range g.group {
		switch {
		case p.attach != nil:
		case i > 0 && time.Since(began) > c.groupTime:
			g.rest = append(g.rest, p)
		case p.ctx.Err() != nil:
			g.answers[i] = p.ctx.Err()
		default:
			g.depends[i] = g.revision != c.revision
			start := time.Now()
			cs, ops, err := c.decide(r, p.decide, g.revision+1)
			if g.answers[i] = err; err == nil && len(ops) > 0 {
				g.revision++
				if err := r.apply(ops...); err != nil {
					return err
				}
				for _, x := range c.observers {
					x.Stage(cs)
				}
			}
			c.longest.Store(max(c.longest.Load(), int64(time.Since(start))))
		}
		if errors.Is(g.answers[i], ErrBroken) {
			return g.answers[i] // nor is what others of the group want promised any more
		}
	}
	if g.revision == c.revision {
		return errUnchanged
	}
	return r.apply(revisionOp(g.revision))
}

// hasRevision reports whether the file contains a revision, or cannot be read.
func (c *committer) hasRevision(revision Rev) bool {
	var now Rev
	err := c.db.read(func(r reader) error { now = (&View{r: r}).Revision(); return nil })
	return err != nil || now == revision
}

// decide runs one decision. It returns its change set and the operations that store it
// as revision next; none if it changes nothing.
func (c *committer) decide(r reader, d Decision, next Rev) (cs ChangeSet, ops []op, err error) {
	v := &View{r: r, now: c.now(), read: map[Key]any{}}
	if err = guarded("a decision", func() error { cs, err = d(v); return err }); err != nil {
		return cs, nil, err
	}
	if cs.Empty() {
		return cs, nil, nil
	}
	if c.readOnly != nil {
		return cs, nil, c.readOnly
	}
	cs.number(next)
	if c.outbox != nil {
		if err := guarded("what is to be told of a change", func() error { return post(c.outbox, v, &cs, next) }); err != nil {
			return cs, nil, err
		}
	}
	ops, err = operations(v, cs, next)
	return cs, ops, err
}

// attach stages all published records for a new observer, before those of the group.
func (c *committer) attach(r reader, x Observer) error {
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

// operations returns the operations that store a change set, including the indexes.
func operations(v *View, cs ChangeSet, rev Rev) ([]op, error) {
	var ops []op
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
		ops = append(ops, op{bySlice, sliceIndexKey(old.Slice.Key(), k.ID), nil})
		if mayExpire(&old) {
			ops = append(ops, op{byExpiry, expiryKey(old.Expires, k.ID), nil})
		}
		return nil
	}
	for _, k := range cs.Delete {
		if err := unindex(k); err != nil {
			return nil, err
		}
		ops = append(ops, op{string(k.Kind), []byte(k.ID), nil})
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
		ops = append(ops, op{string(p.Key.Kind), []byte(p.Key.ID), b})
		if s, ok := p.Value.(am.Sliver); ok {
			ops = append(ops, op{bySlice, sliceIndexKey(s.Slice.Key(), p.Key.ID), []byte{}})
			if mayExpire(&s) {
				ops = append(ops, op{byExpiry, expiryKey(s.Expires, p.Key.ID), []byte{}})
			}
		}
	}
	return ops, nil
}
