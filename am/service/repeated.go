package service

import (
	"errors"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
)

// joinRepeated has the journal entry that was added last to a change set stand for
// the entry of the slice's last change, too, if that was the same call with the
// same credentials, for the same slivers. Entries after the revision settled are
// left alone, as they have no line in the audit yet.
func joinRepeated(cs *store.ChangeSet, v *store.View, settled store.Rev) error {
	added := &cs.Put[len(cs.Put)-1]
	e := added.Value.(am.JournalEntry)
	_, rev, err := v.Slice(e.Slice)
	if errors.Is(err, store.ErrNotFound) || err == nil && rev > settled {
		return nil
	}
	if err != nil {
		return err
	}
	return v.JournalAfter(rev-1, func(last am.JournalEntry) bool {
		if at, ok := store.JournalRev(last.ID); !ok || at != rev {
			return false
		}
		if !repeats(&e, &last) {
			return true
		}
		e.Times, e.Since = max(1, last.Times)+1, last.Since
		if e.Since.IsZero() {
			e.Since = last.At
		}
		added.Value = e
		cs.Remove(store.Key{Kind: store.Journal, ID: last.ID})
		return false
	})
}

// repeats reports whether an entry is of the same call as another, but for its time,
// its request and the address that it came from.
func repeats(e, last *am.JournalEntry) bool {
	return e.Event == last.Event && e.Method == last.Method && e.API == last.API && e.Operator == last.Operator &&
		e.Caller.Equal(last.Caller) && e.Speaker.Equal(last.Speaker) && e.Slice.Equal(last.Slice) &&
		slices.Equal(e.Credentials, last.Credentials) && slices.Equal(e.Slivers, last.Slivers)
}
