package service

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// TestEachEntryOfTheJournalIsReadOnceForTheEndsOfSlices checks that repeated calls about empty
// slices read each journal entry once, also entries added later. The latest end counts, and slices
// with a common prefix are distinguished.
func TestEachEntryOfTheJournalIsReadOnceForTheEndsOfSlices(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	slice := func(name string) urn.URN { return urn.URN{Authority: "example.org", Type: urn.Slice, Name: name} }
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	record := func(event am.Event, names ...string) {
		t.Helper()
		day = day.Add(24 * time.Hour)
		for _, name := range names {
			err := s.Commit(ctx, func(*store.View) (cs store.ChangeSet, err error) {
				cs.Log(am.JournalEntry{At: day, Event: string(event), Slice: slice(name)})
				return cs, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var n endings
	check := func(when, name, want string) {
		t.Helper()
		err := s.Read(func(v *store.View) error {
			got, err := n.describe(v, slice(name))
			if err == nil && !strings.Contains(got, want) {
				t.Errorf("%s, of %s: %q, want %q", when, name, got, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	record(am.EventDelete, "lab", "lab1")
	record(am.EventExpire, "lab1")
	record(am.EventProvision, "lab", "lab2")
	check("at first", "lab", "2026-05-02T")
	check("at first", "lab1", "2026-05-03T")
	check("at first", "lab2", "no reservation")
	if gone, err := s.PruneJournal(ctx, day.Add(time.Hour), 100); err != nil || gone != 5 {
		t.Fatal(gone, err)
	}
	check("without reading it again", "lab", "2026-05-02T")
	record(am.EventExpire, "lab", "lab2")
	check("after a further end", "lab", "2026-05-05T")
	check("after a further end", "lab1", "2026-05-03T")
	check("after a further end", "lab2", "2026-05-05T")

	for i := range 2 * maxJournalRead {
		n.texts[fmt.Sprint(i)] = "x"
	}
	check("when many slices are kept", "lab", "2026-05-05T")
	if len(n.texts) > maxJournalRead {
		t.Errorf("%d slices are kept, more than the entries that are read", len(n.texts))
	}
}
