package service

import (
	"path/filepath"
	"testing"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/inventory"
)

// TestContendedDecisions changes a slice beside each run of a long decision that rests on it.
func TestContendedDecisions(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		commit func(*Service) func(store.Decision) error
		want   am.Code
	}{
		{"a decision", func(s *Service) func(store.Decision) error {
			return func(d store.Decision) error { return s.commit(t.Context(), credentials.Grant{}, false, d) }
		}, am.ServerBusy},
		{"an urgent one runs in the commit", func(s *Service) func(store.Decision) error {
			return func(d store.Decision) error { return s.commitUrgent(t.Context(), credentials.Grant{}, urn.URN{}, d) }
		}, am.Success},
	} {
		inv, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{Short: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Store: st, Inventory: inForce(inv)})
		slice := urn.URN{Authority: "example.org", Type: urn.Slice, Name: "s"}
		put := func(v *store.View) (cs store.ChangeSet, err error) { return cs, countChange(&cs, v, slice) }
		runs := 0
		err = tt.commit(s)(func(v *store.View) (store.ChangeSet, error) {
			if runs++; runs <= 8 {
				if err := st.Commit(t.Context(), put); err != nil {
					t.Error(err)
				}
			}
			return put(v)
		})
		if got := am.CodeOf(err); err == nil && tt.want != am.Success || err != nil && got != tt.want {
			t.Errorf("%s: after %d runs: %v", tt.rule, runs, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
