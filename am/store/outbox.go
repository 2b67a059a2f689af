package store

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Message is an event for receivers outside the store, such as hooks. The store writes a
// message and its change in one transaction, so the message exists only if the change is
// durable. The message is deleted when all receivers have taken it.
type Message struct {
	At    time.Time
	Slice urn.URN
	// To are the names of the receivers that have not taken the message yet.
	To []string
	// Text is the content.
	Text json.RawMessage
}

// Change is an accepted change set, with the previous content of each changed record.
type Change struct {
	At      time.Time
	Slices  []Diff[am.Slice]
	Slivers []Diff[am.Sliver]
	Journal []am.JournalEntry
}

// Diff is a record before and after a change. Before is nil for a new record, After for a
// deleted one. An outbox must not change the lists and maps in the records, which the store and
// the decision still use.
type Diff[T any] struct{ Before, After *T }

// MessageKey returns the key of a message.
func MessageKey(id string) Key { return Key{Events, id} }

// PutMessage adds a message with its id, or replaces the message with this id.
func (c *ChangeSet) PutMessage(id string, m Message) {
	c.Messages = append(c.Messages, identified{id, m})
}

type identified struct {
	id string
	Message
}

// addMessages adds the messages that outbox returns to the change set. rev is the revision that
// will store the change set. If no slice or sliver changes, addMessages does not call outbox.
func addMessages(outbox func(Change) []Message, v *View, cs *ChangeSet, rev Rev) (err error) {
	c := Change{At: v.now}
	if c.Slices, err = diffs(v, Slices, cs.Slices, func(s *am.Slice) Key { return SliceKey(s.URN) }, cs.Delete); err != nil {
		return err
	}
	if c.Slivers, err = diffs(v, Slivers, cs.Slivers, func(s *am.Sliver) Key { return SliverKey(s.URN) }, cs.Delete); err != nil {
		return err
	}
	if len(c.Slices)+len(c.Slivers) == 0 {
		return nil
	}
	c.Journal = cs.Journal
	for i, m := range outbox(c) {
		cs.PutMessage(journalID(rev, i), m)
	}
	return nil
}

// diffs returns the records in put first, in their order there, and then the deleted records.
func diffs[T any](v *View, kind Kind, put []T, keyOf func(*T) Key, deleted []Key) ([]Diff[T], error) {
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
	list := make([]Diff[T], 0, len(order))
	for _, k := range order {
		was, err := before[T](v, k)
		switch {
		case err == nil:
			list = append(list, Diff[T]{&was, after[k]})
		case !errors.Is(err, ErrNotFound):
			return nil, err
		case after[k] != nil:
			list = append(list, Diff[T]{nil, after[k]})
		}
	}
	return list, nil
}

// MarkTaken records in cs that receivers have taken messages. The map receivers contains the
// receivers' names by message id. MarkTaken deletes messages that have no receivers left, and
// returns their number. It ignores messages that no longer exist.
func MarkTaken(v *View, cs *ChangeSet, receivers map[string][]string) (deleted int, err error) {
	for _, id := range slices.Sorted(maps.Keys(receivers)) {
		m, err := v.Message(id)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		m.To = slices.DeleteFunc(m.To, func(name string) bool { return slices.Contains(receivers[id], name) })
		if len(m.To) > 0 {
			cs.PutMessage(id, m)
			continue
		}
		cs.Remove(MessageKey(id))
		deleted++
	}
	return deleted, nil
}

// Message reads a message, or returns ErrNotFound.
func (v *View) Message(id string) (Message, error) {
	m, _, err := get[Message](v, MessageKey(id))
	return m, err
}

// MessagesAfter calls f with each message whose id sorts after lastID, oldest first, until f
// returns false. If lastID is "", it begins with the oldest message.
func (v *View) MessagesAfter(lastID string, f func(id string, m Message) bool) error {
	var failed error
	v.r.scan(string(Events), nil, append([]byte(lastID), 0), func(id, b []byte) bool {
		var m Message
		if _, err := decode(b, &m); err != nil {
			failed = unreadableRecord(MessageKey(string(id)), err)
			return false
		}
		return f(string(id), m)
	})
	return failed
}
