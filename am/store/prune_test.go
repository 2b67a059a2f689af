package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
)

// TestPruneJournal checks that old entries are deleted, oldest first
// and at most limit at a time.
func TestPruneJournal(t *testing.T) {
	fault := error(nil)
	s := open(t, Options{Write: commitAfter(func() error { return fault })})
	for i := range 10 { // revision i+1, i hours after noon; the clock was set back once
		hours := time.Duration(i)
		if i == 7 {
			hours = 0
		}
		commit(t, s, func(*View) (cs ChangeSet, err error) {
			cs.Log(am.JournalEntry{At: noon.Add(hours * time.Hour), Event: fmt.Sprint(i)})
			return cs, nil
		})
	}
	for _, tt := range []struct {
		rule   string
		before time.Duration // since noon, in hours
		limit  int
		n      int
		left   string
	}{
		{"nothing is old", 0, 9, 0, "0123456789"},
		{"as many as asked", 99, 2, 2, "23456789"},
		{"older than the time", 6, 9, 4, "6789"},
		{"after one that is not old nothing goes", 6, 9, 0, "6789"},
		{"all", 99, 9, 4, ""},
		{"none is there", 99, 9, 0, ""},
	} {
		n, err := s.PruneJournal(t.Context(), noon.Add(tt.before*time.Hour), tt.limit)
		if err != nil || n != tt.n {
			t.Errorf("%s: %d, %v; want %d", tt.rule, n, err, tt.n)
		}
		left := ""
		if err := s.Read(func(v *View) error {
			return v.Journal(func(e am.JournalEntry) bool { left += e.Event; return true })
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.left, left); diff != "" {
			t.Errorf("%s: %s", tt.rule, diff)
		}
	}
	commit(t, s, func(*View) (cs ChangeSet, err error) { cs.Log(am.JournalEntry{At: noon}); return cs, nil })
	fault = errNo
	if n, err := s.PruneJournal(t.Context(), noon.Add(time.Hour), 9); n != 0 || !errors.Is(err, ErrNotCommitted) {
		t.Errorf("when it cannot be written: %d, %v", n, err)
	}
}
