package main

import (
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// TestServeDeletesOldJournalEntries proves that a running server deletes all entries
// older than journal_keep, and only those.
func TestServeDeletesOldJournalEntries(t *testing.T) {
	dir := newSite(t)
	state := filepath.Join(dir, "state.db")
	s, err := store.Open(state, store.Options{Site: "testbed.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		for i := range 2*256 + 10 {
			cs.Log(am.JournalEntry{At: v.Now().AddDate(-2, 0, i/100), Event: "old"})
		}
		for range 3 {
			cs.Log(am.JournalEntry{At: v.Now(), Event: "new"})
		}
		return cs, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	site := serve(t, dir)
	wait.Until(t, "old entries are removed", func() bool {
		return strings.Contains(site.out.String(), "old entries of the journal were removed")
	})
	wantTexts(t, site.out.String(), "entries=522")
	site.stop()
	r, err := store.Check(state)
	if err != nil || r.Err() != nil || r.Records[store.Journal] != 3 {
		t.Errorf("the store is %+v, %v", r, err)
	}
}
