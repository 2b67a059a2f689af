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
	// holders maps each held component to its holder.
	holders map[string]holder
}

// holder is a slice that holds a component, with one of the slice's slivers on it.
type holder struct {
	slice, sliver string
	alone         bool // one of the slice's slivers on the component is exclusive
}

// checkName checks that a record is stored under its own name.
func (x *checker) checkName(k Kind, id, name string) {
	if id != name {
		x.add(string(k), id, "it is the record of %q", name)
	}
}

// sliver checks that the sliver's slice and request exist. If a sliver on the component is
// exclusive, all slivers on it must belong to one slice. The method also records the index entries
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
	component, slice := s.Component.Key(), s.Slice.Key()
	h, held := x.holders[component]
	switch {
	case !held:
		x.holders[component] = holder{slice, id, s.Exclusive}
	case h.slice != slice && (h.alone || s.Exclusive):
		x.add(string(Slivers), id, "it is on %s, which %s of another slice holds too, although one of the two slices holds it exclusively", s.Component, h.sliver)
	case s.Exclusive:
		h.alone = true
		x.holders[component] = h
	}
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
