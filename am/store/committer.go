package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"patchbay/am"
)

// committer turns groups of decisions into transactions. Only one goroutine uses it.
type committer struct {
	db       *database
	now      func() time.Time
	revision Rev // the last written revision
	outbox   func(Change) []Message
	watchers []func([]ChangeSet) // see Store.Watch
	readOnly error               // the error for each change; nil if changes are accepted
	// failure is set when damage is found. It is also set when a write fails after its revision
	// has reached the file, because such a write may or may not be durable. After that, no
	// change is accepted until the next start.
	failure *failure
	// groupTime limits the total duration of a group's decisions. When it has passed, the
	// remaining decisions move to the next group, so that they do not delay the answers to the
	// others.
	groupTime time.Duration
	short     time.Duration // see Options.Short
	// published is the last revision that readers see.
	published *atomic.Uint64
	recent    recent
	// longest is the duration of the longest decision so far, in nanoseconds.
	longest *atomic.Int64
}

// commit commits the group in one transaction and answers the callers. It returns the commits that
// the group had no time for; their callers have no answer yet.
func (c *committer) commit(group []*pending) (rest []*pending) {
	if why := c.failure.err(); why != nil {
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
		c.failure.set(fmt.Errorf("it is unknown whether an earlier change is durable; start the server again (%w)", err))
		err = fmt.Errorf("%w; start the server again (%w)", ErrInDoubt, err)
	}
	if err != nil {
		c.recent.removeAfter(c.revision)
	}
	if c.failure.note(err) == nil {
		c.revision = g.revision
		c.published.Store(uint64(c.revision))
	}
	if err == nil {
		for _, f := range c.watchers {
			f(g.written)
		}
	}
	for i, p := range group {
		if slices.Contains(g.rest, p) {
			continue
		}
		// A decision that may have read a failed change gets this error, too, in place of its
		// own.
		if err != nil && p.watch == nil && (g.answers[i] == nil || g.depends[i]) {
			g.answers[i] = fmt.Errorf("%w: %w", ErrNotCommitted, err)
		}
		p.answer <- g.answers[i]
	}
	return g.rest
}

type groupRun struct {
	group   []*pending
	answers []error
	// depends marks the decisions that ran after a change by another decision of the group, and
	// may have read that change.
	depends  []bool
	revision Rev        // the last revision in the transaction
	rest     []*pending // commits for which no time was left
	written  []ChangeSet
}

var errUnchanged = errors.New("the group changes nothing")

func (c *committer) decideAll(r reader, g *groupRun) error {
	if now := (&View{r: r}).Revision(); now != c.revision {
		return damage(fmt.Sprintf("its revision is %d, but the last one written was %d", now, c.revision))
	}
	for i, p := range g.group {
		if p.watch != nil {
			g.answers[i] = c.beginWatch(r, p.watch)
		}
	}
	began := time.Now()
	for i, p := range g.group {
		switch {
		case p.watch != nil: // done already
		case i > 0 && time.Since(began) > c.groupTime:
			g.rest = append(g.rest, p)
		case p.ctx.Err() != nil:
			g.answers[i] = p.ctx.Err()
		default:
			g.depends[i] = g.revision != c.revision
			start := time.Now()
			cs, ops, err := c.decide(r, p, g.revision+1)
			if g.answers[i] = err; err == nil && len(ops) > 0 {
				g.revision++
				g.written = append(g.written, cs)
				if err := r.apply(ops...); err != nil {
					return err
				}
				c.recent.add(g.revision, ops)
			}
			c.longest.Store(max(c.longest.Load(), int64(time.Since(start))))
		}
		if errors.Is(g.answers[i], ErrBroken) {
			return g.answers[i] // the rest of the group is refused, too
		}
	}
	if g.revision == c.revision {
		return errUnchanged
	}
	return r.apply(revisionOp(g.revision))
}

// hasRevision also returns true if the file cannot be read.
func (c *committer) hasRevision(revision Rev) bool {
	var now Rev
	err := c.db.read(func(r reader) error { now = (&View{r: r}).Revision(); return nil })
	return err != nil || now == revision
}

// decide returns the decision's change set, and the operations that store it as revision rev. An
// empty change set needs no operations. A prepared decision does not run again if its result is
// still right.
func (c *committer) decide(r reader, p *pending, rev Rev) (cs ChangeSet, ops []op, err error) {
	switch {
	case p.prepared == nil:
	case c.recent.allow(p.prepared):
		return p.prepared.changes(c, r, rev)
	case p.prepared.took > c.short:
		return cs, nil, errStale
	}
	v := &View{r: r, now: c.now(), cache: map[Key]any{}}
	if err = recoverPanic("a decision", func() error { cs, err = p.decide(v); return err }); err != nil || cs.Empty() {
		return cs, nil, err
	}
	if cs, err = c.complete(v, cs, rev); err != nil {
		return cs, nil, err
	}
	ops, err = operations(v, cs, rev)
	return cs, ops, err
}

// complete adds to a change set what depends on the revision that stores it.
func (c *committer) complete(v *View, cs ChangeSet, rev Rev) (ChangeSet, error) {
	if c.readOnly != nil {
		return cs, c.readOnly
	}
	cs.numberEntries(rev)
	if c.outbox == nil {
		return cs, nil
	}
	err := recoverPanic("the outbox", func() error { return addMessages(c.outbox, v, &cs, rev) })
	return cs, err
}

// beginWatch calls f with all slivers before the group's changes, and with all later changes.
func (c *committer) beginWatch(r reader, f func([]ChangeSet)) error {
	var all ChangeSet
	err := (&View{r: r}).Slivers(func(s am.Sliver) bool { all.PutSliver(s); return true })
	if err != nil {
		return err
	}
	f([]ChangeSet{all})
	c.watchers = append(c.watchers, f)
	return nil
}

func operations(v *View, cs ChangeSet, rev Rev) ([]op, error) {
	var ops []op
	// index replaces the index entries of a sliver's record; a nil sliver has none.
	index := func(k Key, s *am.Sliver) error {
		var old *am.Sliver
		switch x, err := before[am.Sliver](v, k); {
		case err == nil:
			old = &x
			ops = append(ops, op{bySlice, sliceIndexKey(old.Slice.Key(), k.ID), nil})
			if mayExpire(old) {
				ops = append(ops, op{byExpiry, expiryKey(old.Expires, k.ID), nil})
			}
		case !errors.Is(err, ErrNotFound):
			return err
		}
		ops = append(ops, calendarOps(v.r, old, s)...)
		if s != nil {
			ops = append(ops, op{bySlice, sliceIndexKey(s.Slice.Key(), k.ID), []byte{}})
			if mayExpire(s) {
				ops = append(ops, op{byExpiry, expiryKey(s.Expires, k.ID), []byte{}})
			}
		}
		return nil
	}
	last := make(map[Key]int, len(cs.Slivers)) // only the last record of a sliver has index entries
	for i := range cs.Slivers {
		last[SliverKey(cs.Slivers[i].URN)] = i
	}
	for _, k := range cs.Delete {
		if _, put := last[k]; k.Kind == Slivers && !put {
			if err := index(k, nil); err != nil {
				return nil, err
			}
		}
		ops = append(ops, op{string(k.Kind), []byte(k.ID), nil})
	}
	for i := range cs.Slivers {
		s := &cs.Slivers[i]
		if k := SliverKey(s.URN); last[k] == i {
			if err := index(k, s); err != nil {
				return nil, err
			}
		}
	}
	var failed error
	put := func(k Key, value any) {
		b, err := encode(rev, value)
		failed = cmp.Or(failed, err)
		ops = append(ops, op{string(k.Kind), []byte(k.ID), b})
	}
	for _, s := range cs.Slices {
		put(SliceKey(s.URN), s)
	}
	for _, s := range cs.Slivers {
		put(SliverKey(s.URN), s)
	}
	for _, d := range cs.Documents {
		put(DocumentKey(d.ID), d)
	}
	for _, t := range cs.Tasks {
		put(TaskKey(t.Sliver), t)
	}
	for _, f := range cs.Components {
		put(ComponentKey(f.URN), f)
	}
	for _, e := range cs.Journal {
		put(Key{Journal, e.ID}, e)
	}
	for _, m := range cs.Messages {
		put(MessageKey(m.id), m.Message)
	}
	return ops, failed
}
