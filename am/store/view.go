package store

import (
	"cmp"
	"errors"
	"hash/fnv"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// ErrNotFound is returned for a record that does not exist.
var ErrNotFound = errors.New("no such record")

// View reads one consistent state of the store. A view is valid only within the function that
// receives it. The records that the view has returned stay valid.
type View struct {
	r   reader
	now time.Time
	// cache contains the slices and slivers that a decision has read, as they are in the store.
	// Decoding them again for the indexes and for followers would double the cost of a decision.
	// cache is nil outside of decisions.
	cache map[Key]any
	memo  map[string]any // see Memo
}

// Memo returns what f returns for the view. It calls f once for each name.
func Memo[T any](v *View, name string, f func() T) T {
	if t, ok := v.memo[name].(T); ok {
		return t
	}
	if v.memo == nil {
		v.memo = map[string]any{}
	}
	t := f()
	v.memo[name] = t
	return t
}

// IsPublished reports whether the view is of a published state. Others are of decisions, and their changes may fail.
func (v *View) IsPublished() bool { return v.cache == nil }

// Now returns the time of the view, which is the same for all reads in it.
func (v *View) Now() time.Time { return v.now }

// get returns ErrNotFound if the record does not exist.
func get[T any](v *View, k Key) (T, Rev, error) {
	var t T
	b := v.r.get(string(k.Kind), []byte(k.ID))
	if b == nil {
		return t, 0, ErrNotFound
	}
	rev, err := decode(b, &t)
	if err != nil {
		return t, 0, unreadableRecord(k, err)
	}
	if v.cache != nil && (k.Kind == Slivers || k.Kind == Slices) {
		v.cache[k] = t
	}
	return t, rev, nil
}

// before returns a record as it was before the decision, or ErrNotFound. The record shares
// its lists with the copy that the decision has read.
func before[T any](v *View, k Key) (T, error) {
	if t, ok := v.cache[k].(T); ok {
		return t, nil
	}
	t, _, err := get[T](v, k)
	return t, err
}

// Slice reads a slice's record, or returns ErrNotFound.
func (v *View) Slice(u urn.URN) (am.Slice, Rev, error) { return get[am.Slice](v, SliceKey(u)) }

// Sliver reads a sliver's record, or returns ErrNotFound.
func (v *View) Sliver(u urn.URN) (am.Sliver, Rev, error) { return get[am.Sliver](v, SliverKey(u)) }

// Document reads a request document, or returns ErrNotFound.
func (v *View) Document(id string) (am.Document, Rev, error) {
	return get[am.Document](v, DocumentKey(id))
}

// DocumentHead reads a request document without its text, or returns ErrNotFound. If the record
// does not contain the document's size, DocumentHead estimates the size.
func (v *View) DocumentHead(id string) (am.Document, error) {
	d, _, err := get[documentHead](v, DocumentKey(id))
	return am.Document(d), err
}

// Task reads the task of a sliver, or returns ErrNotFound.
func (v *View) Task(sliver urn.URN) (am.Task, Rev, error) { return get[am.Task](v, TaskKey(sliver)) }

// Component reads what a provider found out about a component, or returns ErrNotFound.
func (v *View) Component(u urn.URN) (am.FoundComponent, Rev, error) {
	return get[am.FoundComponent](v, ComponentKey(u))
}

// Rev returns the revision of a record, or 0 if the record does not exist.
func (v *View) Rev(k Key) Rev {
	return revisionOf(v.r.get(string(k.Kind), []byte(k.ID)))
}

// SliversOf reads all slivers of a slice, ordered by URN. It includes released and expired
// slivers that still hold a component. A slice without slivers is no error.
func (v *View) SliversOf(slice urn.URN) ([]am.Sliver, error) {
	out := []am.Sliver{}
	err := v.EachOf(slice, nil, func(s am.Sliver) bool { out = append(out, s); return true })
	return out, err
}

func (v *View) keysOf(slice urn.URN, f func(Key) bool) {
	prefix := sliceIndexKey(slice.Key(), "")
	v.r.scan(bySlice, prefix, nil, func(k, _ []byte) bool { return f(Key{Slivers, string(k[len(prefix):])}) })
}

// SliceRevision returns a number that differs after each change of the slice's records. It does not
// decode them.
func (v *View) SliceRevision(slice urn.URN) uint64 {
	h := fnv.New64a()
	add := func(k Key) bool {
		b := v.r.get(string(k.Kind), []byte(k.ID))
		h.Write([]byte(k.ID))
		h.Write(b[:min(8, len(b))]) // the revision
		return true
	}
	add(SliceKey(slice))
	v.keysOf(slice, add)
	return h.Sum64()
}

// SliverBytes returns the total size of the records of a slice's slivers and of the slivers in
// others, in bytes. It does not decode the records.
func (v *View) SliverBytes(slice urn.URN, others []urn.URN) (n int) {
	add := func(k Key) bool { n += len(v.r.get(string(Slivers), []byte(k.ID))); return true }
	v.keysOf(slice, add)
	for _, u := range others {
		add(SliverKey(u))
	}
	return n
}

// EachOf calls f with the slivers of a slice in the order of SliversOf, until f returns false.
// If skip is not nil and returns true for the key of a sliver, EachOf does not read the sliver.
func (v *View) EachOf(slice urn.URN, skip func(Key) bool, f func(am.Sliver) bool) (err error) {
	v.keysOf(slice, func(k Key) bool {
		if skip != nil && skip(k) {
			return true
		}
		var s am.Sliver
		s, _, err = get[am.Sliver](v, k)
		return err == nil && f(s)
	})
	return err
}

// each calls f with the records of a kind, beginning at the key first, until f returns false.
func each[T any](v *View, k Kind, first []byte, f func(T) bool) (failed error) {
	v.r.scan(string(k), nil, first, decoding(k, &failed, f))
	return failed
}

// decoding returns a function for scan. At a record that it cannot read, that function stops and
// stores the error in failed.
func decoding[T any](k Kind, failed *error, f func(T) bool) func(id, b []byte) bool {
	return func(id, b []byte) bool {
		var t T
		if _, err := decode(b, &t); err != nil {
			*failed = unreadableRecord(Key{k, string(id)}, err)
			return false
		}
		return f(t)
	}
}

// Slivers calls f with every sliver, ordered by URN, until f returns false.
func (v *View) Slivers(f func(am.Sliver) bool) error { return each(v, Slivers, nil, f) }

// Slices calls f with every slice, ordered by URN, until f returns false.
func (v *View) Slices(f func(am.Slice) bool) error { return each(v, Slices, nil, f) }

// Tasks calls f with every task, ordered by sliver, until f returns false.
func (v *View) Tasks(f func(am.Task) bool) error { return each(v, Tasks, nil, f) }

// Components calls f with the record of every component, ordered by URN, until f returns false.
func (v *View) Components(f func(am.FoundComponent) bool) error { return each(v, Components, nil, f) }

// Journal calls f with every entry, oldest first, until f returns false.
func (v *View) Journal(f func(am.JournalEntry) bool) error { return each(v, Journal, nil, f) }

// JournalBackwards does what Journal does, with the latest entry first.
func (v *View) JournalBackwards(f func(am.JournalEntry) bool) (failed error) {
	v.r.backwards(string(Journal), decoding(Journal, &failed, f))
	return failed
}

// JournalAfter calls f with the entries of revisions later than rev, oldest first, until f
// returns false.
func (v *View) JournalAfter(rev Rev, f func(am.JournalEntry) bool) error {
	return each(v, Journal, []byte(Position(rev+1, 0)), f)
}

// Revision returns the revision of the last change.
func (v *View) Revision() Rev { return v.r.revision() }

// eachEnd calls f with the end of each running lease and the key of its sliver, earliest
// end first, until f returns false. The leases of frozen slivers do not run.
func (v *View) eachEnd(f func(at time.Time, sliver Key) bool) (err error) {
	v.r.scan(byExpiry, nil, nil, func(k, _ []byte) bool {
		var at time.Time
		var id string
		at, id, err = readExpiryKey(k)
		return err == nil && f(at, Key{Slivers, id})
	})
	return err
}

// EachEnding calls f with each sliver whose lease ends at latest or before it, earliest end
// first, until f returns false.
func (v *View) EachEnding(latest time.Time, f func(am.Sliver) bool) (err error) {
	failed := v.eachEnd(func(at time.Time, k Key) bool {
		if at.After(latest) {
			return false
		}
		var s am.Sliver
		s, _, err = get[am.Sliver](v, k)
		return err == nil && f(s)
	})
	return cmp.Or(err, failed)
}

// EachWaiting calls f with what each sliver holds that has not begun, earliest start first, until f returns false.
// f must keep nothing of the Hold, as in Calendar.
func (v *View) EachWaiting(f func(*am.Hold) bool) (err error) {
	var h am.Hold
	v.r.scan(byStart, nil, nil, func(k, _ []byte) bool {
		var entry []byte
		if _, _, entry, err = readStartKey(k); err == nil {
			err = readHold(entry, v.r.get(calendarBucket, entry), &h)
		}
		return err == nil && f(&h)
	})
	return err
}

// HasWaiting reports whether a sliver exists that has not begun.
func (v *View) HasWaiting() (has bool) {
	v.r.scan(byStart, nil, nil, func([]byte, []byte) bool { has = true; return false })
	return has
}

// EachStarting calls f with each sliver that has not begun although its start has come, earliest start first, until f
// returns false. next is the start of the first sliver whose start has not come; zero for none.
func (v *View) EachStarting(f func(am.Sliver) bool) (next time.Time, err error) {
	v.r.scan(byStart, nil, nil, func(k, _ []byte) bool {
		var at time.Time
		var id string
		if at, id, _, err = readStartKey(k); err != nil {
			return false
		}
		if at.After(v.now) {
			next = at
			return false
		}
		var s am.Sliver
		s, _, err = get[am.Sliver](v, Key{Slivers, id})
		return err == nil && f(s)
	})
	return next, err
}

// Due returns up to limit slivers whose leases have ended by the view's time, earliest end
// first. nextEnd is the earliest end of all other leases; zero if there are none.
func (v *View) Due(limit int) (due []am.Sliver, nextEnd time.Time, err error) {
	failed := v.eachEnd(func(at time.Time, k Key) bool {
		if at.After(v.now) || len(due) == limit {
			nextEnd = at
			return false
		}
		var s am.Sliver
		s, _, err = get[am.Sliver](v, k)
		due = append(due, s)
		return err == nil
	})
	return due, nextEnd, cmp.Or(err, failed)
}
