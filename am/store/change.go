package store

import (
	"slices"

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
	Changes   Kind = "changes"
	Cursors   Kind = "cursors"

	// Components are what providers found out about components.
	Components Kind = "components"
)

// Key names one record. ID is a URN's Key, or the id of a document or journal entry.
type Key struct {
	Kind Kind
	ID   string
}

// Rev is a revision of the store: each change has the next number. The Rev of a record is the
// revision that last wrote the record; 0 means that the record does not exist.
type Rev uint64

// ChangeSet is the result of a decision: the records to write and the keys to delete, which are
// applied together. The store deletes first. Of two records with the same key the last one counts.
type ChangeSet struct {
	Slices     []am.Slice
	Slivers    []am.Sliver
	Documents  []am.Document
	Tasks      []am.Task
	Components []am.FoundComponent
	Journal    []am.JournalEntry
	Cursors    []Cursor
	Delete     []Key

	gap *Change // in place of changes that are deleted
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
func (c *ChangeSet) PutSlice(s am.Slice) { c.Slices = append(c.Slices, s) }

// PutSliver adds a sliver's record.
func (c *ChangeSet) PutSliver(s am.Sliver) { c.Slivers = append(c.Slivers, s) }

// PutTask adds a task, which replaces an older task of the same sliver.
func (c *ChangeSet) PutTask(t am.Task) { c.Tasks = append(c.Tasks, t) }

// PutComponent adds what a provider found out about a component.
func (c *ChangeSet) PutComponent(f am.FoundComponent) { c.Components = append(c.Components, f) }

// PutDocument adds a request document.
func (c *ChangeSet) PutDocument(d am.Document) { c.Documents = append(c.Documents, d) }

// Log adds a journal entry; the store sets the entry's id.
func (c *ChangeSet) Log(e am.JournalEntry) { c.Journal = append(c.Journal, e) }

// numberEntries sets the ids of the journal entries, in a copy of their list: the decision may still use the original.
func (c *ChangeSet) numberEntries(rev Rev) {
	c.Journal = slices.Clone(c.Journal)
	for i := range c.Journal {
		c.Journal[i].ID = Position(rev, i)
	}
}

// journalPart returns the part of the change set that concerns the journal and the changes.
func (c ChangeSet) journalPart() ChangeSet {
	deleted := slices.DeleteFunc(slices.Clone(c.Delete), func(k Key) bool { return !k.dependsOnRevision() })
	return ChangeSet{Journal: c.Journal, gap: c.gap, Delete: deleted}
}

// recordPart returns the change set without its journalPart.
func (c ChangeSet) recordPart() ChangeSet {
	c.Delete = slices.DeleteFunc(slices.Clone(c.Delete), Key.dependsOnRevision)
	c.Journal, c.gap = nil, nil
	return c
}

// dependsOnRevision reports whether the id of the key contains a revision.
func (k Key) dependsOnRevision() bool { return k.Kind == Journal || k.Kind == Changes }

// Remove adds keys to delete. Deleting an absent record is not an error.
func (c *ChangeSet) Remove(k ...Key) { c.Delete = append(c.Delete, k...) }

// Drop removes records from the change set and adds their keys to those to delete.
func (c *ChangeSet) Drop(keys ...Key) {
	drop := make(map[Key]bool, len(keys))
	for _, k := range keys {
		drop[k] = true
	}
	c.Slices = slices.DeleteFunc(c.Slices, func(s am.Slice) bool { return drop[SliceKey(s.URN)] })
	c.Slivers = slices.DeleteFunc(c.Slivers, func(s am.Sliver) bool { return drop[SliverKey(s.URN)] })
	c.Documents = slices.DeleteFunc(c.Documents, func(d am.Document) bool { return drop[DocumentKey(d.ID)] })
	c.Tasks = slices.DeleteFunc(c.Tasks, func(t am.Task) bool { return drop[TaskKey(t.Sliver)] })
	c.Remove(keys...)
}

// Clone returns a change set whose lists can be changed without changing c.
func (c *ChangeSet) Clone() ChangeSet {
	d := *c
	d.Slices, d.Slivers, d.Documents, d.Tasks = slices.Clone(c.Slices), slices.Clone(c.Slivers), slices.Clone(c.Documents), slices.Clone(c.Tasks)
	d.Delete = slices.Clone(c.Delete)
	return d
}

// Empty reports whether the change set changes nothing.
func (c *ChangeSet) Empty() bool {
	return len(c.Slices)+len(c.Slivers)+len(c.Documents)+len(c.Tasks)+len(c.Components)+len(c.Journal)+len(c.Cursors)+len(c.Delete) == 0
}
