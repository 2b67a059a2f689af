package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"patchbay/am"
)

type checker struct {
	*Report
	v *View
	// indexed contains the index entries that the records need.
	indexed map[string]bool
	// entries contains the entries of the calendar that the slivers need.
	entries map[string]string
	// holders maps each held component to the slivers that hold it.
	holders map[string][]holder
}

// holder is a sliver that holds a component. from is zero if it has begun.
type holder struct {
	slice, sliver string
	exclusive     bool
	from, until   time.Time
}

// collides reports whether two slivers of different slices hold a component at once, although one of them is exclusive. A
// sliver that has begun may hold it beyond the start of another, which then waits.
func (h *holder) collides(o *holder) bool {
	if !h.exclusive && !o.exclusive || h.slice == o.slice || h.from.IsZero() != o.from.IsZero() {
		return false
	}
	return h.from.IsZero() || h.from.Before(o.until) && o.from.Before(h.until)
}

// checkName checks that a record is stored under its own name.
func (x *checker) checkName(k Kind, id, name string) {
	if id != name {
		x.add(string(k), id, "it is the record of %q", name)
	}
}

// sliver checks that the sliver's slice and request exist. While a sliver holds the component
// exclusively, all slivers on it must belong to one slice. The method also records the index entries
// that the sliver needs.
func (x *checker) sliver(id string, s *am.Sliver) {
	x.checkName(Slivers, id, s.URN.Key())
	if x.v.Rev(SliceKey(s.Slice)) == 0 {
		x.add(string(Slivers), id, "its slice %s has no record", s.Slice)
	}
	if s.Document != "" && x.v.Rev(DocumentKey(s.Document)) == 0 {
		x.add(string(Slivers), id, "its request %s is missing", s.Document)
	}
	x.indexed[bySlice+"\x00"+string(sliceIndexKey(s.Slice.Key(), id))] = true
	if mayExpire(s) {
		x.indexed[byExpiry+"\x00"+string(expiryKey(s.ReleaseTime(), id))] = true
	}
	if s.Waits() {
		x.indexed[byStart+"\x00"+string(startKey(s.Begins, s.Component.Key(), id))] = true
	}
	hold := am.HoldOf(s)
	key := calendarKey(&hold)
	x.entries[string(key)] = string(calendarValue(key, &hold))
	component, h := s.Component.Key(), holder{s.Slice.Key(), id, s.Exclusive, hold.From, hold.Until}
	list := x.holders[component]
	for i := range list {
		if o := &list[i]; h.collides(o) {
			x.add(string(Slivers), id, "it is on %s, which %s of another slice holds at the same time, although one of the two holds it exclusively", s.Component, o.sliver)
			break
		}
	}
	x.holders[component] = append(list, h)
}

// task checks a task's record: its sliver must exist, and the task's generation must not be
// later than the sliver's.
func (x *checker) task(id string, t *am.Task) {
	x.checkName(Tasks, id, t.Sliver.Key())
	s, _, err := x.v.Sliver(t.Sliver)
	switch {
	case errors.Is(err, ErrNotFound):
		x.add(string(Tasks), id, "its sliver has no record")
	case err == nil && t.Generation > s.Generation:
		x.add(string(Tasks), id, "it has generation %d, and its sliver only generation %d", t.Generation, s.Generation)
	}
}

func (x *checker) entry(id string, e *am.JournalEntry) {
	x.checkName(Journal, id, e.ID)
	if rev, ok := JournalRev(id); !ok || rev > x.Revision {
		x.add(string(Journal), id, "its key is not the number of an entry up to revision %d", x.Revision)
	}
}

// indexes adds a problem for each index entry that no record needs, and for each needed entry
// that is missing.
func (x *checker) indexes() {
	x.calendar()
	for _, bucket := range []string{bySlice, byExpiry, byStart} {
		x.v.r.scan(bucket, nil, nil, func(k, _ []byte) bool {
			id := bucket + "\x00" + string(k)
			if !x.indexed[id] {
				x.add(bucket, readable(bucket, k), "no record needs it")
			}
			delete(x.indexed, id)
			return true
		})
	}
	for _, id := range slices.Sorted(maps.Keys(x.indexed)) {
		bucket, k, _ := bytes.Cut([]byte(id), []byte{0})
		x.add(string(bucket), readable(string(bucket), k), "it is missing")
	}
}

// calendar adds a problem for each difference between the calendar and the slivers. A file of an
// older schema has no calendar yet.
func (x *checker) calendar() {
	if x.Schema < calendarSchema {
		return
	}
	x.v.r.scan(calendarBucket, nil, nil, func(k, v []byte) bool {
		switch needed, ok := x.entries[string(k)]; {
		case !ok:
			x.add(calendarBucket, readable(calendarBucket, k), "no sliver needs it")
		case needed != string(v):
			x.add(calendarBucket, readable(calendarBucket, k), "it differs from what its sliver holds")
		}
		delete(x.entries, string(k))
		return true
	})
	for _, k := range slices.Sorted(maps.Keys(x.entries)) {
		x.add(calendarBucket, readable(calendarBucket, []byte(k)), "it is missing")
	}
}

func readable(bucket string, k []byte) string {
	if (bucket == byExpiry || bucket == byStart) && len(k) >= 8 {
		return time.Unix(0, int64(binary.BigEndian.Uint64(k))).UTC().Format(time.RFC3339) + " " + string(k[8:])
	}
	if component, rest, ok := bytes.Cut(k, []byte{0}); bucket == calendarBucket && ok && len(rest) >= 8 {
		return string(component) + " " + timeOf(binary.BigEndian.Uint64(rest)).Format(time.RFC3339) + " " + string(rest[8:])
	}
	return string(bytes.ReplaceAll(k, []byte{0}, []byte(" ")))
}
