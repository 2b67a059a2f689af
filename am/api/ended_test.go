package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// record adds an entry to the journal, as runners and operators do.
func (w *world) record(e am.JournalEntry, slice string) {
	w.t.Helper()
	err := w.store.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
		e.At, e.Slice = v.Now(), urn.MustParse(w.urns[slice])
		cs.Log(e)
		return cs, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// asking has every call about a slice without slivers, with its answer.
const asking = `
	alice Status s1 -> SEARCHFAILED WHY
	alice Renew s1 +1h -> SEARCHFAILED WHY
	alice Provision s1 -> SEARCHFAILED WHY
	alice PerformOperationalAction s1 geni_start -> SEARCHFAILED WHY
	alice PerformOperationalAction s1 geni_dance -> SEARCHFAILED WHY
	alice Delete s1 -> SEARCHFAILED WHY
	alice Shutdown s1 -> SEARCHFAILED WHY
	alice SliverStatus s1 -> SEARCHFAILED WHY
	alice RenewSliver s1 +1h -> SEARCHFAILED WHY
	alice DeleteSliver s1 -> SEARCHFAILED WHY
	alice Describe s1 -> WHY
	alice ListResources2 s1 -> WHY
`

// TestEmptySliceReportsHowItsSliversEnded checks that answers about an empty slice say when
// and how its slivers ended: an expired lease, an operator's release, or the user's Delete. A
// caller without rights to the slice gets none of this.
func TestEmptySliceReportsHowItsSliversEnded(t *testing.T) {
	at := func(d time.Duration) string { return began.Add(d).Format(time.RFC3339) }
	for _, tt := range []struct {
		rule, story string
		entry       am.JournalEntry // is recorded after the story
		why         string
	}{
		{"nothing was reserved", "bob Allocate s2 a", am.JournalEntry{}, "no reservation for it is on record"},
		{"the lease is over, and not ended yet", "alice Allocate s1 a b\npass 11m", am.JournalEntry{}, "any more: its lease ended at " + at(10*time.Minute) + ", and its 2 nodes are released"},
		{"the lease was over", "pass 1h", am.JournalEntry{Event: string(am.EventExpire), Slivers: make([]urn.URN, 2)}, "any more: its lease was over, and its 2 nodes were released at " + at(time.Hour)},
		{"deleted by its user", "alice Allocate s1 a\npass 1m\nalice Delete s1", am.JournalEntry{}, "any more: its node was deleted by urn:publicid:IDN+" + authority + "+user+alice at " + at(time.Minute)},
		{"released by an operator", "pass 2h", am.JournalEntry{Event: string(am.EventDelete), Operator: "root", Text: "the rack moves", Slivers: make([]urn.URN, 1)}, "any more: its node was released by an operator of this aggregate at " + at(2*time.Hour) + ": the rack moves"},
		{"only the last end counts, whatever follows it", "alice Allocate s1 a\nalice Delete s1\nbob Allocate s2 a\nbob Delete s2\npass 3h", am.JournalEntry{Event: string(am.EventExpire), Slivers: make([]urn.URN, 3)}, "its 3 nodes were released at " + at(3*time.Hour)},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := newWorld(t).play("alice owns s1 80h\nbob owns s2 80h\n" + tt.story)
			if tt.entry.Event != "" {
				w.record(tt.entry, "s1")
			}
			w.play(strings.ReplaceAll(asking, "WHY", "'"+tt.why+"'"))
			for _, call := range []string{"Status", "Describe", "SliverStatus", "ListResources2", "Shutdown"} {
				w.play("bob " + call + ` s1 with=s2 -> FORBIDDEN !"any more" !"on record"`)
			}
		})
	}
}
