package store

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	revision Rev    // the last written revision
	notify   func() // called after a write with changes for followers
	readOnly error  // the error for each change; nil if changes are accepted
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

// commitGroup commits the group in one transaction and answers the callers. It returns the commits that
// the group had no time for; their callers have no answer yet.
func (c *committer) commitGroup(group []*pending) (rest []*pending) {
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
	case err != nil && g.revision != c.revision && c.hasRevision(g.revision): // the failed write may be durable
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
	if err == nil && g.hasChanges {
		c.notify()
	}
	for i, p := range group {
		if slices.Contains(g.rest, p) {
			continue
		}
		// A decision that may have read a failed change gets this error, too, in place of its
		// own.
		if err != nil && (g.answers[i] == nil || g.depends[i]) {
			g.answers[i] = fmt.Errorf("%w: %w", ErrNotCommitted, err)
		}
		p.answer <- g.answers[i]
	}
	return g.rest
}

// groupRun is one run of a group. answers and depends belong to the commits in group, by index.
type groupRun struct {
	group   []*pending
	answers []error
	// depends marks the decisions that ran after a change by another decision of the group, and
	// may have read that change.
	depends  []bool
	revision Rev        // the last revision in the transaction
	rest     []*pending // commits for which no time was left
	// hasChanges means that the group has written changes for followers.
	hasChanges bool
}

var errUnchanged = errors.New("the group changes nothing")

// decideAll runs the decisions of the group in turn, each on the changes of those before it, and applies their
// operations to the transaction. It sets the other fields of g. It fails with errUnchanged if there are no
// changes, and with an error of the store that makes the whole transaction roll back.
func (c *committer) decideAll(r reader, g *groupRun) error {
	if now := r.revision(); now != c.revision {
		return damage(fmt.Sprintf("its revision is %d, but the last one written was %d", now, c.revision))
	}
	began := time.Now()
	for i, p := range g.group {
		switch {
		case i > 0 && time.Since(began) > c.groupTime:
			g.rest = append(g.rest, p)
		case p.ctx.Err() != nil:
			g.answers[i] = p.ctx.Err()
		default:
			g.depends[i] = g.revision != c.revision
			start := time.Now()
			hasChange, ops, err := c.decide(r, p, g.revision+1)
			if g.answers[i] = err; err == nil && len(ops) > 0 {
				g.revision++
				g.hasChanges = g.hasChanges || hasChange
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

// hasRevision reports whether the file has the revision. It also returns true if the file cannot be read.
func (c *committer) hasRevision(revision Rev) bool {
	var now Rev
	err := c.db.read(func(r reader) error { now = r.revision(); return nil })
	return err != nil || now == revision
}

// decide returns the operations that store the decision's change set as revision rev. An empty
// change set needs none. hasChange means that they write a Change. A prepared decision does not run
// again if its result is still right.
func (c *committer) decide(r reader, p *pending, rev Rev) (hasChange bool, ops []op, err error) {
	if p.prepared != nil {
		isValid := false
		err := recoverPanic("the check of a decision", func() error { isValid = c.recent.allows(p.prepared); return nil })
		switch {
		case err != nil:
			return false, nil, err
		case isValid:
			return p.prepared.opsAt(c, r, rev)
		case p.prepared.took > c.short:
			return false, nil, errStale
		}
	}
	v := &View{r: r, now: c.now(), cache: map[Key]any{}}
	var cs ChangeSet
	if err = recoverPanic("a decision", func() error { cs, err = p.decide(v); return err }); err != nil || cs.Empty() {
		return false, nil, err
	}
	recordOps, err := operations(v, cs.recordPart(), rev)
	if err != nil {
		return false, nil, err
	}
	hasChange, ops, err = c.revisionOps(v, cs, nil, rev)
	return hasChange, append(ops, recordOps...), err
}

// revisionOps returns the operations for that part of a change set whose keys depend on the revision.
// changed is the result of changedRecords; nil if it is not known.
func (c *committer) revisionOps(v *View, cs ChangeSet, changed json.RawMessage, rev Rev) (hasChange bool, ops []op, err error) {
	if c.readOnly != nil {
		return false, nil, c.readOnly
	}
	cs.numberEntries(rev)
	change, err := changeOf(v, &cs, changed)
	if err != nil {
		return false, nil, err
	}
	ops, err = operations(v, cs.journalPart(), rev)
	if err == nil && change != nil {
		var b []byte
		b, err = encode(rev, change)
		ops = append(ops, op{string(Changes), []byte(changeKey(rev).ID), b})
	}
	return change != nil || cs.gap != nil, ops, err
}

// operations returns the operations that write a change set at the revision rev: first the deletions and the
// index entries of slivers, then the records.
func operations(v *View, cs ChangeSet, rev Rev) ([]op, error) {
	var ops []op
	last := make(map[Key]int, len(cs.Slivers)) // only the last record of a sliver has index entries
	for i := range cs.Slivers {
		last[SliverKey(cs.Slivers[i].URN)] = i
	}
	for _, k := range cs.Delete {
		if _, put := last[k]; k.Kind == Slivers && !put {
			entries, err := sliverIndexOps(v, k, nil)
			if err != nil {
				return nil, err
			}
			ops = append(ops, entries...)
		}
		ops = append(ops, op{string(k.Kind), []byte(k.ID), nil})
	}
	for i := range cs.Slivers {
		s := &cs.Slivers[i]
		if k := SliverKey(s.URN); last[k] == i {
			entries, err := sliverIndexOps(v, k, s)
			if err != nil {
				return nil, err
			}
			ops = append(ops, entries...)
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
	for _, c := range cs.Cursors {
		put(CursorKey(c.Name), c)
	}
	if cs.gap != nil {
		put(changeKey(cs.gap.Rev), *cs.gap)
	}
	return ops, failed
}

// sliverIndexOps returns the operations that replace the entries of a sliver in the indexes and the calendar, as
// they were before the decision, by those of s; nil deletes them.
func sliverIndexOps(v *View, k Key, s *am.Sliver) (ops []op, err error) {
	var old *am.Sliver
	switch x, err := before[am.Sliver](v, k); {
	case err == nil:
		old = &x
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	was, now := indexEntries(k, old), indexEntries(k, s)
	for bucket, key := range was {
		if !bytes.Equal(key, now[bucket]) {
			ops = append(ops, op{bucket, key, nil})
		}
	}
	ops = append(ops, calendarOps(v.r, old, s)...)
	for bucket, key := range now {
		if !bytes.Equal(key, was[bucket]) {
			ops = append(ops, op{bucket, key, []byte{}})
		}
	}
	return ops, nil
}

// indexEntries returns the keys of a sliver in the indexes, by bucket; none for a nil sliver.
func indexEntries(k Key, s *am.Sliver) map[string][]byte {
	if s == nil {
		return nil
	}
	entries := map[string][]byte{bySlice: sliceIndexKey(s.Slice.Key(), k.ID)}
	if mayExpire(s) {
		entries[byExpiry] = expiryKey(s.ReleaseTime(), k.ID)
	}
	if s.Waits() {
		entries[byStart] = startKey(s.Begins, s.Component.Key(), k.ID)
	}
	return entries
}
