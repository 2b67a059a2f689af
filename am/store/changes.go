package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Change has the journal entries of one revision, and the slices and slivers that it has changed, before
// and after, with the fields that followers need. The store writes it in the
// transaction of the change, and keeps it until all followers have read it. A store without
// followers writes none.
type Change struct {
	Rev     Rev `json:"-"`
	At      time.Time
	Journal []am.JournalEntry `json:",omitempty"`
	Slices  []Diff[am.Slice]  `json:",omitempty"`
	Slivers []Diff[am.Sliver] `json:",omitempty"`
	// Lost is the number of changes up to this revision that were deleted before all followers
	// had read them. A Change with Lost has no other content.
	Lost int `json:",omitempty"`
	// Messages are events for hooks, written by a program of schema 4.
	Messages []Message `json:",omitempty"`
}

// Diff is a record before and after a change. Before is nil for a new record, After for a
// deleted one. The records have only the fields that followers need.
type Diff[T any] struct{ Before, After *T }

// Cursor says what a follower has read. If Name is the follower's name, it has read all changes before
// Position. If Name is that of a further cursor (PartOf), it has read one part of the changes beyond that, up
// to and including Position.
type Cursor struct{ Name, Position string }

// CursorKey returns the key of a cursor.
func CursorKey(name string) Key { return Key{Cursors, name} }

// PartOf returns the name of a further cursor of a follower, for one part of the changes.
func PartOf(follower, part string) string { return follower + "\x00" + part }

// PutCursor adds a cursor.
func (c *ChangeSet) PutCursor(name, position string) {
	c.Cursors = append(c.Cursors, Cursor{name, position})
}

// Position returns the position of part n of a revision. Positions have the same length, so that
// they sort in the order of writing. The ids of journal entries have the same form.
func Position(rev Rev, n int) string { return fmt.Sprintf("%016x-%04x", uint64(rev), n) }

// JournalRev returns the revision in a position or in the id of a journal entry. The result is
// false if id is neither.
func JournalRev(id string) (Rev, bool) {
	rev, _, ok := ParsePosition(id)
	return rev, ok
}

// ParsePosition returns the revision and the part in a position or in the id of a journal entry. The
// result ok is false if id is neither.
func ParsePosition(id string) (rev Rev, n int, ok bool) {
	first, second, _ := strings.Cut(id, "-")
	u, err := strconv.ParseUint(first, 16, 64)
	part, wrong := strconv.ParseUint(second, 16, 32)
	return Rev(u), int(part), len(first) == 16 && len(second) >= 4 && err == nil && wrong == nil
}

// Cursor returns the position in a cursor, or "" if there is no such cursor.
func (v *View) Cursor(name string) (string, error) {
	c, _, err := get[Cursor](v, CursorKey(name))
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return c.Position, err
}

// Cursors calls f with each cursor whose name begins with prefix, until f returns false.
func (v *View) Cursors(prefix string, f func(Cursor) bool) (failed error) {
	v.r.scan(string(Cursors), []byte(prefix), nil, decoding(Cursors, &failed, f))
	return failed
}

// ChangesFrom calls f with the changes of the revision rev and later ones, oldest first, until f
// returns false.
func (v *View) ChangesFrom(rev Rev, f func(Change) bool) (failed error) {
	v.r.scan(string(Changes), nil, []byte(changeKey(rev).ID), func(id, b []byte) bool {
		var c Change
		rev, err := strconv.ParseUint(string(id), 16, 64)
		if err == nil {
			_, err = decode(b, &c)
		}
		if err != nil {
			failed = unreadableRecord(Key{Changes, string(id)}, err)
			return false
		}
		c.Rev = Rev(rev)
		return f(c)
	})
	return failed
}

func changeKey(rev Rev) Key { return Key{Changes, fmt.Sprintf("%016x", uint64(rev))} }

// Changed returns a channel that receives a value after each write with changes for followers.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.changed = append(s.changed, c)
	return c
}

func (s *Store) notifyFollowers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.changed {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (v *View) hasFollowers() bool {
	_, name, _ := v.r.seek(string(Cursors), nil, nil)
	return name != nil
}

// changedRecords returns the Change of a change set without its journal entries, in JSON.
func changedRecords(v *View, cs *ChangeSet) (json.RawMessage, error) {
	c := Change{At: v.now}
	var err error
	if c.Slices, err = diffs(v, Slices, cs.Slices, func(s *am.Slice) Key { return SliceKey(s.URN) }, cs.Delete, followedSlice); err != nil {
		return nil, err
	}
	if c.Slivers, err = diffs(v, Slivers, cs.Slivers, func(s *am.Sliver) Key { return SliverKey(s.URN) }, cs.Delete, followedSliver); err != nil || len(c.Slices)+len(c.Slivers) == 0 {
		return nil, err
	}
	return json.Marshal(c)
}

// changeOf returns the Change of a change set in JSON; nil if no follower needs it. changed is the
// result of changedRecords; nil if it is not known. The entries are added last, since their ids contain
// the revision.
func changeOf(v *View, cs *ChangeSet, changed json.RawMessage) (_ json.RawMessage, err error) {
	if !v.hasFollowers() {
		return nil, nil
	}
	if changed == nil {
		if changed, err = changedRecords(v, cs); err != nil {
			return nil, err
		}
	}
	if len(cs.Journal) == 0 {
		return changed, nil
	}
	if changed == nil {
		return json.Marshal(Change{At: v.now, Journal: cs.Journal})
	}
	entries, err := json.Marshal(struct{ Journal []am.JournalEntry }{cs.Journal})
	if err != nil {
		return nil, err
	}
	return append(append(changed[:len(changed)-1:len(changed)-1], ','), entries[1:]...), nil // one object with the fields of both
}

// followedSlice returns the fields of a slice that followers need. It returns nil for a slice that
// is not shut down.
func followedSlice(s *am.Slice) *am.Slice {
	if s.Shutdown.IsZero() {
		return nil
	}
	return &am.Slice{URN: s.URN, Shutdown: s.Shutdown, ShutdownBy: s.ShutdownBy, ShutdownOperator: s.ShutdownOperator}
}

// followedSliver returns the fields of a sliver that followers need.
func followedSliver(s *am.Sliver) *am.Sliver {
	return &am.Sliver{
		URN: s.URN, Slice: s.Slice, ClientID: s.ClientID, Component: s.Component, Creator: s.Creator, Speaker: s.Speaker, Request: s.Request,
		Status: s.Status, Error: s.Error, Expires: s.Expires, NotifiedEnd: s.NotifiedEnd, NotifiedBefore: s.NotifiedBefore, ProbedUntil: s.ProbedUntil,
		Begins: s.Begins, Ends: s.Ends, Begun: s.Begun, PublicAddress: s.PublicAddress,
		Observed: am.Observed{Addresses: s.Observed.Addresses, Logins: s.Observed.Logins, Outside: s.Observed.Outside},
	}
}

// diffs returns the records in put first, in their order there, and then the deleted records. It
// leaves out those of which followers see no difference.
func diffs[T any](v *View, kind Kind, put []T, keyOf func(*T) Key, deleted []Key, followed func(*T) *T) (list []Diff[T], err error) {
	var order []Key
	after := map[Key]*T{}
	for i := range put {
		k := keyOf(&put[i])
		if after[k] == nil {
			order = append(order, k)
		}
		after[k] = &put[i]
	}
	for _, k := range deleted {
		if _, known := after[k]; k.Kind == kind && !known {
			order = append(order, k)
			after[k] = nil
		}
	}
	for _, k := range order {
		var d Diff[T]
		switch was, err := before[T](v, k); {
		case err == nil:
			d.Before = followed(&was)
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
		if after[k] != nil {
			d.After = followed(after[k])
		}
		if !reflect.DeepEqual(d.Before, d.After) {
			list = append(list, d)
		}
	}
	return list, nil
}

// ChangeLimits say which changes are kept for a follower that does not read them.
type ChangeLimits struct {
	// Number is the largest number of changes, and Age their greatest age; 0 stands for
	// 100,000 and 7 d.
	Number int
	Age    time.Duration
}

// pruneBatch is the largest number of changes that one transaction deletes.
const pruneBatch = 500

// PruneChanges deletes the changes that all followers have read. It also deletes the oldest changes
// beyond the limits. In place of these it leaves a Change with Lost, from which a follower learns
// that it has missed changes.
func (s *Store) PruneChanges(ctx context.Context, l ChangeLimits) error {
	l.Number, l.Age = cmp.Or(l.Number, 100_000), cmp.Or(l.Age, 7*24*time.Hour)
	total := 0
	err := s.Read(func(v *View) error {
		v.r.scan(string(Changes), nil, nil, func(_, _ []byte) bool { total++; return true })
		return nil
	})
	for n := pruneBatch; err == nil && n == pruneBatch; total -= n {
		err = s.Commit(ctx, func(v *View) (cs ChangeSet, err error) {
			n, err = pruneChanges(v, &cs, total, l)
			return cs, err
		})
	}
	return err
}

// pruneChanges adds to cs the deletions of at most pruneBatch changes, and a gap if followers have not read all
// of them. It returns the number of deletions; 0 if it would only replace a gap by an equal one. total is the
// number of all changes.
func pruneChanges(v *View, cs *ChangeSet, total int, l ChangeLimits) (n int, err error) {
	slowest := ^Rev(0)
	err = v.Cursors("", func(c Cursor) bool {
		if rev, ok := JournalRev(c.Position); ok && !strings.Contains(c.Name, "\x00") { // else a further cursor, which is ahead
			slowest = min(slowest, rev)
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	var gap Change
	onlyOldGap := true // nothing but a gap of an earlier time is deleted
	failed := v.ChangesFrom(0, func(c Change) bool {
		switch {
		case n == pruneBatch:
			return false
		case c.Rev < slowest:
			onlyOldGap = false
		case total-n > l.Number || v.now.Sub(c.At) > l.Age:
			if c.Lost == 0 {
				c.Lost, onlyOldGap = 1, false
			}
			gap = Change{Rev: c.Rev, At: c.At, Lost: gap.Lost + c.Lost}
		default:
			return false
		}
		cs.Remove(changeKey(c.Rev))
		n++
		return true
	})
	if onlyOldGap {
		*cs, n = ChangeSet{}, 0
	} else if gap.Lost > 0 {
		cs.gap = &gap
	}
	return n, failed
}

// Message is an event that a program of schema 4 has written for hooks.
type Message struct {
	ID    string
	At    time.Time
	Slice urn.URN
	// To are the names of the hooks that have not taken the event.
	To []string
	// Text is the event in JSON.
	Text json.RawMessage
}

// convertMessages returns the operations that turn the messages of schema 4 into changes. It
// deletes their bucket.
func convertMessages(v *View) (ops []op, err error) {
	const events = "events"
	byRev := map[Rev]*Change{}
	v.r.scan(events, nil, nil, func(id, b []byte) bool {
		var m Message
		if _, err = decode(b, &m); err != nil {
			return false
		}
		m.ID = string(id)
		rev, ok := JournalRev(string(id))
		if !ok {
			err = fmt.Errorf("an event has the id %q", id)
			return false
		}
		if byRev[rev] == nil {
			byRev[rev] = &Change{Rev: rev, At: m.At}
		}
		byRev[rev].Messages = append(byRev[rev].Messages, m)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("cannot convert the events for hooks: %w", err)
	}
	for rev, c := range byRev {
		b, err := encode(rev, *c)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op{string(Changes), []byte(changeKey(rev).ID), b})
	}
	if v.r.bucket(events) != nil {
		err = v.r.top.DeleteBucket([]byte(events))
	}
	return ops, err
}
