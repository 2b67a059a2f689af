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

// Message is something to tell outside of a change. It is written in the same
// transaction as the change, so there is one if and only if the change lasts, and
// stays until nobody has yet to take it.
type Message struct {
	At    time.Time
	Slice urn.URN
	// To are the names of those who have yet to take it.
	To []string
	// Text is what to tell.
	Text json.RawMessage
}

// Change is an accepted change set with what was there before it.
type Change struct {
	At      time.Time
	Slices  []Became[am.Slice]
	Slivers []Became[am.Sliver]
	Journal []am.JournalEntry
}

// Became is a record before and after a change; nil where it is not there. Its
// lists and maps are the store's and the decision's, so they are only to be read.
type Became[T any] struct{ Before, After *T }

// MessageKey is the key of a message.
func MessageKey(id string) Key { return Key{Events, id} }

// PutMessage adds a message under the id that it was read with.
func (c *ChangeSet) PutMessage(id string, m Message) {
	c.Put = append(c.Put, Record{MessageKey(id), m})
}

// post adds to cs, which will be revision rev, what is to be told of it.
func post(outbox func(Change) []Message, v *View, cs *ChangeSet, rev Rev) (err error) {
	c := Change{At: v.now}
	if c.Slices, err = became[am.Slice](v, cs, Slices); err != nil {
		return err
	}
	if c.Slivers, err = became[am.Sliver](v, cs, Slivers); err != nil {
		return err
	}
	if len(c.Slices)+len(c.Slivers) == 0 {
		return nil
	}
	for _, r := range cs.Put {
		if e, ok := r.Value.(am.JournalEntry); ok {
			c.Journal = append(c.Journal, e)
		}
	}
	cs.Put = slices.Clip(cs.Put) // a decision may keep its list
	for i, m := range outbox(c) {
		cs.PutMessage(journalID(rev, i), m)
	}
	return nil
}

// became lists the records of one kind that cs changes: in the order in which
// they are put, then those that are only deleted.
func became[T any](v *View, cs *ChangeSet, kind Kind) ([]Became[T], error) {
	var order []Key
	after := map[Key]*T{}
	for _, r := range cs.Put {
		if x, ok := r.Value.(T); ok && r.Key.Kind == kind {
			if after[r.Key] == nil {
				order = append(order, r.Key)
			}
			after[r.Key] = &x
		}
	}
	for _, k := range cs.Delete {
		if _, known := after[k]; k.Kind == kind && !known {
			order = append(order, k)
			after[k] = nil
		}
	}
	list := make([]Became[T], 0, len(order))
	for _, k := range order {
		was, err := before[T](v, k)
		switch {
		case err == nil:
			list = append(list, Became[T]{&was, after[k]})
		case !errors.Is(err, ErrNotFound):
			return nil, err
		case after[k] != nil:
			list = append(list, Became[T]{nil, after[k]})
		}
	}
	return list, nil
}

// Taken adds to cs that messages were taken: by their ids, who has. What nobody
// has yet to take is deleted, and counted. Messages that are gone are no error.
func Taken(v *View, cs *ChangeSet, by map[string][]string) (deleted int, err error) {
	for _, id := range slices.Sorted(maps.Keys(by)) {
		m, err := v.Message(id)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		m.To = slices.DeleteFunc(m.To, func(name string) bool { return slices.Contains(by[id], name) })
		if len(m.To) > 0 {
			cs.PutMessage(id, m)
			continue
		}
		cs.Remove(MessageKey(id))
		deleted++
	}
	return deleted, nil
}

// Message reads a message, or ErrNotFound.
func (v *View) Message(id string) (Message, error) {
	m, _, err := get[Message](v, MessageKey(id))
	return m, err
}

// MessagesAfter calls f with each message whose id is behind after, oldest first,
// until f returns false. All are behind "".
func (v *View) MessagesAfter(after string, f func(id string, m Message) bool) error {
	var failed error
	v.r.scan(string(Events), nil, append([]byte(after), 0), func(id, b []byte) bool {
		var m Message
		if _, err := decode(b, &m); err != nil {
			failed = unreadableRecord(MessageKey(string(id)), err)
			return false
		}
		return f(string(id), m)
	})
	return failed
}
