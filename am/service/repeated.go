package service

import (
	"errors"
	"slices"

	"patchbay/am"
	"patchbay/am/store"
)

// joinRepeated merges the slice's last journal entry into the entry just added, if isRepeat
// allows it.
func joinRepeated(cs *store.ChangeSet, v *store.View) error {
	added := &cs.Journal[len(cs.Journal)-1]
	e := *added
	_, rev, err := v.Slice(e.Slice)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return v.JournalAfter(rev-1, func(last am.JournalEntry) bool {
		if at, ok := store.JournalRev(last.ID); !ok || at != rev {
			return false
		}
		if !isRepeat(&e, &last) {
			return true
		}
		e.Times, e.Since = max(1, last.Times)+1, last.Since
		if e.Since.IsZero() {
			e.Since = last.At
		}
		*added = e
		cs.Remove(store.Key{Kind: store.Journal, ID: last.ID})
		return false
	})
}

// isRepeat reports whether two entries have the same method, caller, credentials and slivers.
// Their texts, times, request ids and client addresses may differ.
func isRepeat(e, last *am.JournalEntry) bool {
	return e.Event == last.Event && e.Method == last.Method && e.API == last.API && e.Operator == last.Operator &&
		e.Caller.Equal(last.Caller) && e.Speaker.Equal(last.Speaker) && e.Slice.Equal(last.Slice) &&
		slices.Equal(e.Credentials, last.Credentials) && slices.Equal(e.Slivers, last.Slivers)
}
