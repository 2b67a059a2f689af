package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/am"
)

// ErrContended is returned by CommitFor if other changes kept changing what a long decision depends
// on. Nothing has changed.
var ErrContended = errors.New("other changes kept changing what the decision depends on")

const (
	// maxAttempts limits how often a long decision is prepared.
	maxAttempts = 8
	// maxRecent limits the recent operations, and maxRecentBytes their keys and values, in memory. A
	// decision whose preparation took longer than these is prepared again.
	maxRecent      = 1 << 13
	maxRecentBytes = 16 << 20
)

// errStale is the answer for a prepared decision that depends on something that has changed.
var errStale = errors.New("what the decision depends on has changed")

// prepared is the result of a decision that has run on the published state.
type prepared struct {
	base    Rev // the revision of that state
	now     time.Time
	reads   reads
	cs      ChangeSet
	ops     []op            // for all records but those of the journal and the changes, whose keys need the revision
	changed json.RawMessage // the result of changedRecords
	cache   map[Key]any
	took    time.Duration
}

// prepare runs a decision on a view of the published state, outside of the commit, and records what it reads.
func (s *Store) prepare(ctx context.Context, d Decision) (*prepared, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &prepared{cache: map[Key]any{}, reads: reads{keys: map[string]struct{}{}}}
	return p, s.reading(func() error {
		return s.db.read(func(r reader) error {
			// Read the revision before reads are recorded: each change writes its key, so the decision would always be stale.
			p.base, p.now = r.revision(), s.opt.Now()
			began := time.Now()
			r.reads = &p.reads
			err := recoverPanic("a decision", func() (err error) {
				v := &View{r: r, now: p.now, cache: p.cache}
				if p.cs, err = d(v); err == nil {
					p.ops, err = operations(v, p.cs.recordPart(), 0)
				}
				if err == nil && v.hasFollowers() {
					p.changed, err = changedRecords(v, &p.cs)
				}
				return err
			})
			p.took = time.Since(began)
			return err
		})
	})
}

// opsAt returns the operations for the revision rev, like committer.decide. It sets the revision in the values of p.ops.
func (p *prepared) opsAt(c *committer, r reader, rev Rev) (hasChange bool, ops []op, err error) {
	hasChange, ops, err = c.revisionOps(&View{r: r, now: p.now, cache: p.cache}, p.cs, p.changed, rev)
	for _, o := range p.ops { // values of the indexes and of the calendar have no revision
		if o.value != nil && o.bucket != calendarBucket && o.bucket != bySlice && o.bucket != byExpiry && o.bucket != byStart {
			stamp(o.value, rev)
		}
	}
	return hasChange, append(ops, p.ops...), err
}

// reads are what a decision depends on.
type reads struct {
	keys   map[string]struct{} // bucket, 0, key
	ranges []keyRange
	holds  []func(*am.Hold) bool // see View.CalendarOf
	others []func() bool         // see View.DependOn
}

// keyRange are the keys from first to last that begin with prefix. If last is nil, there is no last
// key.
type keyRange struct {
	bucket              string
	prefix, first, last []byte
}

func (r *keyRange) contains(key []byte) bool {
	return bytes.HasPrefix(key, r.prefix) && bytes.Compare(key, r.first) >= 0 && (r.last == nil || bytes.Compare(key, r.last) <= 0)
}

func readKey(bucket string, key []byte) string { return bucket + "\x00" + string(key) }

func (r *reads) addKey(bucket string, key []byte) {
	if r != nil {
		r.keys[readKey(bucket, key)] = struct{}{}
	}
}

// addRange returns a function that sets the last key of the range.
func (r *reads) addRange(bucket string, prefix, first []byte) (end func(last []byte)) {
	if r == nil || bucket == calendarBucket { // View.CalendarOf records what a decision reads of the calendar
		return func([]byte) {}
	}
	r.ranges = append(r.ranges, keyRange{bucket: bucket, prefix: bytes.Clone(prefix), first: bytes.Clone(first)})
	i := len(r.ranges) - 1
	return func(last []byte) { r.ranges[i].last = bytes.Clone(last) }
}

// concerned reports whether the operation o has changed what was read.
func (r *reads) concerned(o *op) bool {
	if _, ok := r.keys[readKey(o.bucket, o.key)]; ok {
		return true
	}
	for i := range r.ranges {
		if r.ranges[i].bucket == o.bucket && r.ranges[i].contains(o.key) {
			return true
		}
	}
	if o.bucket != calendarBucket || o.value == nil || len(r.holds) == 0 {
		return false
	}
	var h am.Hold
	if readHold(o.key, o.value, &h) != nil {
		return true
	}
	for _, f := range r.holds {
		if f(&h) {
			return true
		}
	}
	return false
}

// DependOn says that the decision depends on something outside of the store, such as settings. If
// unchanged returns false when the changes are about to be written, the decision runs again.
func (v *View) DependOn(unchanged func() bool) {
	if r := v.r.reads; r != nil {
		r.others = append(r.others, unchanged)
	}
}

// CalendarOf does what Calendar does, without the entries that begin at the time until or later; a zero until is no limit.
// The decision then depends on those of its entries for which concerns
// returns true: if one of these is added or replaced before the decision's changes are written, the
// decision runs again. It need not do so when an entry is deleted, because then there is only more
// room. concerns is called after the decision, in the commit, and must be quick.
func (v *View) CalendarOf(until time.Time, concerns func(*am.Hold) bool, f func(*am.Hold) bool) error {
	if r := v.r.reads; r != nil {
		r.holds = append(r.holds, func(h *am.Hold) bool { return (until.IsZero() || h.From.Before(until)) && concerns(h) })
	}
	return v.scanCalendar(until, f)
}

// recent has the operations of the last revisions, oldest first.
type recent struct {
	list  []recentOp
	bytes int // of the keys and values in list
	since Rev // it has all operations after this revision
}

type recentOp struct {
	rev Rev
	op
}

func (o *recentOp) size() int { return len(o.key) + len(o.value) }

func (r *recent) add(rev Rev, ops []op) {
	for _, o := range ops {
		if o.bucket != calendarBucket {
			o.value = nil // only the values of the calendar are compared
		}
		r.list = append(r.list, recentOp{rev, o})
		r.bytes += r.list[len(r.list)-1].size()
	}
	if len(r.list) <= maxRecent && r.bytes <= maxRecentBytes {
		return
	}
	n := 0
	for ; len(r.list)-n > maxRecent/2 || r.bytes > maxRecentBytes/2; n++ {
		r.since = r.list[n].rev
		r.bytes -= r.list[n].size()
	}
	r.list = append([]recentOp(nil), r.list[n:]...)
}

// removeAfter removes the operations of revisions that were not written.
func (r *recent) removeAfter(rev Rev) {
	n := len(r.list)
	for ; n > 0 && r.list[n-1].rev > rev; n-- {
		r.bytes -= r.list[n-1].size()
	}
	clear(r.list[n:])
	r.list, r.since = r.list[:n], min(r.since, rev)
}

// allows reports whether nothing has changed on which p depends.
func (r *recent) allows(p *prepared) bool {
	if p.base < r.since {
		return false
	}
	for _, unchanged := range p.reads.others {
		if !unchanged() {
			return false
		}
	}
	for i := len(r.list) - 1; i >= 0 && r.list[i].rev > p.base; i-- {
		if p.reads.concerned(&r.list[i].op) {
			return false
		}
	}
	return true
}
