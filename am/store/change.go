package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
)

// Kind is the kind of a record.
type Kind string

// Kinds of record; the value is the name of the bucket.
const (
	Slices    Kind = "slices"
	Slivers   Kind = "slivers"
	Documents Kind = "requests"
	Tasks     Kind = "tasks"
	Journal   Kind = "journal"
	Events    Kind = "events"

	// Components are what providers found out about components.
	Components Kind = "components"
)

// Key names one record. ID is a URN's Key, or the id of a document, journal entry or message.
type Key struct {
	Kind Kind
	ID   string
}

// Rev is a revision of the store: each change has the next number. The Rev of a record is the
// revision that last wrote the record; 0 means that the record does not exist.
type Rev uint64

// Record is a value to store under its key: an am.Slice, am.Sliver, am.Document,
// am.Task, am.JournalEntry, am.FoundComponent or Message.
type Record struct {
	Key   Key
	Value any
}

// ChangeSet is the result of a decision: Put and Delete are applied together.
type ChangeSet struct {
	Put    []Record
	Delete []Key
}

// SliceKey returns the key of a slice's record.
func SliceKey(u urn.URN) Key { return Key{Slices, u.Key()} }

// SliverKey returns the key of a sliver's record.
func SliverKey(u urn.URN) Key { return Key{Slivers, u.Key()} }

// TaskKey returns the key of a sliver's task.
func TaskKey(sliver urn.URN) Key { return Key{Tasks, sliver.Key()} }

// DocumentKey returns the key of a request document.
func DocumentKey(id string) Key { return Key{Documents, id} }

// ComponentKey returns the key of a component's record.
func ComponentKey(u urn.URN) Key { return Key{Components, u.Key()} }

// PutSlice adds a slice's record.
func (c *ChangeSet) PutSlice(s am.Slice) {
	c.Put = append(c.Put, Record{SliceKey(s.URN), s})
}

// PutSliver adds a sliver's record.
func (c *ChangeSet) PutSliver(s am.Sliver) {
	c.Put = append(c.Put, Record{SliverKey(s.URN), s})
}

// PutTask adds a task, which replaces an older task of the same sliver.
func (c *ChangeSet) PutTask(t am.Task) {
	c.Put = append(c.Put, Record{TaskKey(t.Sliver), t})
}

// PutComponent adds what a provider found out about a component.
func (c *ChangeSet) PutComponent(f am.FoundComponent) {
	c.Put = append(c.Put, Record{ComponentKey(f.URN), f})
}

// PutDocument adds a request document.
func (c *ChangeSet) PutDocument(d am.Document) {
	c.Put = append(c.Put, Record{DocumentKey(d.ID), d})
}

// Log adds a journal entry; the store sets the entry's id.
func (c *ChangeSet) Log(e am.JournalEntry) {
	c.Put = append(c.Put, Record{Key{Kind: Journal}, e})
}

// numberEntries copies the list c.Put first, because the decision may still use the original list.
func (c *ChangeSet) numberEntries(rev Rev) {
	if !slices.ContainsFunc(c.Put, func(r Record) bool { return r.Key.Kind == Journal }) {
		return
	}
	c.Put = slices.Clone(c.Put)
	for i, r := range c.Put {
		if e, ok := r.Value.(am.JournalEntry); ok {
			e.ID = journalID(rev, i)
			c.Put[i] = Record{Key{Journal, e.ID}, e}
		}
	}
}

// ofJournal returns the part of the change set that concerns the journal and the messages, whose keys depend on the
// revision, or the other part.
func (c ChangeSet) ofJournal(is bool) ChangeSet {
	isOther := func(k Key) bool { return (k.Kind == Journal || k.Kind == Events) != is }
	c.Put = slices.DeleteFunc(slices.Clone(c.Put), func(r Record) bool { return isOther(r.Key) })
	c.Delete = slices.DeleteFunc(slices.Clone(c.Delete), isOther)
	return c
}

// journalID returns ids of the same length, so that they sort in the order of writing. n is the
// index in the revision.
func journalID(rev Rev, n int) string { return fmt.Sprintf("%016x-%04x", uint64(rev), n) }

// JournalRev returns the revision that wrote a journal entry, which is part of the entry's id. The
// result is false if id is not the id of a journal entry.
func JournalRev(id string) (Rev, bool) {
	rev, n, ok := strings.Cut(id, "-")
	if !ok || len(rev) != 16 || len(n) < 4 {
		return 0, false
	}
	u, err := strconv.ParseUint(rev, 16, 64)
	return Rev(u), err == nil
}

// Remove adds keys to delete. Deleting an absent record is not an error.
func (c *ChangeSet) Remove(k ...Key) { c.Delete = append(c.Delete, k...) }

// Empty reports whether the change set changes nothing.
func (c *ChangeSet) Empty() bool { return len(c.Put) == 0 && len(c.Delete) == 0 }
