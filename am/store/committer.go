package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"patchbay/am"
)

// committer turns groups of decisions into writes. One goroutine owns it.
type committer struct {
	engine    engine
	now       func() time.Time
	revision  Rev // the last one written
	observers []Observer
	// doubt is set when a write failed and yet shows: nobody knows whether it
	// lasts, so nothing more is promised until the next start.
	doubt error
}

func (c *committer) load(r reader) error {
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

// commit decides, stages, writes, publishes and answers one group.
func (c *committer) commit(group []*pending) {
	if c.doubt != nil {
		for _, p := range group {
			p.answer <- c.doubt
		}
		return
	}
	answers := make([]error, len(group))
	revision := c.revision
	var ops []op
	read := false
	err := c.engine.View(func(r reader) error {
		read = true
		for i, p := range group {
			if p.attach != nil {
				answers[i] = c.attach(r, p.attach)
			}
		}
		o := newOverlay(r)
		for i, p := range group {
			switch {
			case p.attach != nil:
			case p.ctx.Err() != nil:
				answers[i] = p.ctx.Err()
			default:
				answers[i] = c.decide(o, p.decide, &revision)
			}
		}
		ops = o.ops
		return nil
	})
	if err == nil && len(ops) > 0 {
		ops = append(ops, op{metaBucket, []byte(revisionName), binary.BigEndian.AppendUint64(nil, uint64(revision))})
		if err = c.engine.Apply(ops); err != nil && c.shows(revision) {
			c.doubt = fmt.Errorf("%w: it is in doubt whether an earlier change has lasted; start the server again (%w)", ErrNotCommitted, err)
		}
	}
	if err == nil {
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
		if err != nil && answers[i] == nil && (p.attach == nil || !read) {
			answers[i] = fmt.Errorf("%w: %w", ErrNotCommitted, err)
		}
		p.answer <- answers[i]
	}
}

// shows tells whether the engine shows a revision.
func (c *committer) shows(revision Rev) bool {
	now := &committer{}
	return c.engine.View(now.load) != nil || now.revision == revision
}

// decide runs one decision over the overlay and stages what it wants.
func (c *committer) decide(o *overlay, d Decision, revision *Rev) error {
	cs, err := run(d, &View{o, c.now()})
	if err != nil {
		return err
	}
	v := &View{r: o}
	for _, e := range cs.Expect {
		if v.Rev(e.Key) != e.Rev {
			return fmt.Errorf("%w: %s %s", ErrConflict, e.Key.Kind, e.Key.ID)
		}
	}
	if cs.Empty() {
		return nil
	}
	next := *revision + 1
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
		if p := recover(); p != nil {
			err = fmt.Errorf("a decision panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return d(v)
}

// attach shows a new observer what is published, before any of the group.
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

// operations spells a change set out as writes, the indexes included.
func operations(v *View, cs ChangeSet, rev Rev) ([]op, error) {
	var ops []op
	unindex := func(k Key) error {
		if k.Kind != Slivers {
			return nil
		}
		old, _, err := get[am.Sliver](v, k)
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
		if e, ok := p.Value.(am.JournalEntry); ok {
			e.ID = fmt.Sprintf("%016x-%04x", rev, i)
			p.Key.ID, p.Value = e.ID, e
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
