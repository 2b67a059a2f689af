package service

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// TestManifestOfASliver checks that a provider gets the manifest that Describe would return: all
// live slivers of all requests of the slice, and nothing of other slices.
func TestManifestOfASliver(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	st, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	inv := testInventory(t)
	s := New(Config{Store: st, Inventory: inForce(inv), Reading: rspec.ReadOptions{Managers: []urn.URN{inv.Manager}, Stored: true}})
	named := func(kind, name string) urn.URN {
		return urn.MustParse("urn:publicid:IDN+example.org+" + kind + "+" + name)
	}
	sliver := func(name, slice, document string, expires time.Duration) am.Sliver {
		return am.Sliver{URN: named("sliver", name), Slice: named("slice", slice), ClientID: name, Document: document,
			Component: named("node", "pc1"), SliverType: "raw-pc", Image: "debian-12", Created: now.Add(-time.Hour), Expires: now.Add(expires),
			Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}}
	}
	err = st.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		for id, nodes := range map[string][]string{"d1": {"one", "old"}, "d2": {"two"}, "d3": {"alone"}, "d4": {"frozen"}} {
			text := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">`
			for _, n := range nodes {
				text += fmt.Sprintf(`<node client_id="%s"/>`, n)
			}
			cs.PutDocument(am.Document{ID: id, Slice: named("slice", "s"), Text: []byte(text + "</rspec>")})
		}
		cs.PutSlice(am.Slice{URN: named("slice", "shut"), Shutdown: now})
		for _, x := range []am.Sliver{
			sliver("one", "s", "d1", time.Hour), sliver("old", "s", "d1", -time.Hour), sliver("two", "s", "d2", time.Hour),
			sliver("alone", "other", "d3", time.Hour), sliver("frozen", "shut", "d4", time.Hour),
		} {
			cs.PutSliver(x)
		}
		return cs, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule, sliver string
		code         am.Code
		has, lacks   []string
	}{
		{"the whole slice", "one", 0, []string{"+sliver+one", "+sliver+two", `type="manifest"`}, []string{"+sliver+old", "alone"}},
		{"whichever sliver is named", "two", 0, []string{"+sliver+one", "+sliver+two"}, nil},
		{"another slice", "alone", 0, []string{"+sliver+alone"}, []string{"+sliver+one"}},
		{"expired", "old", am.SearchFailed, nil, nil},
		{"unknown", "nobody", am.SearchFailed, nil, nil},
		{"shut down", "frozen", am.Forbidden, nil, nil},
	} {
		text, err := s.ManifestOf(named("sliver", tt.sliver))
		if e, ok := err.(*am.Error); ok && e.Code != tt.code || ok != (tt.code != 0) || !ok && err != nil {
			t.Errorf("%s: %v, want code %v", tt.rule, err, tt.code)
		}
		for _, part := range tt.has {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: no %s in\n%s", tt.rule, part, text)
			}
		}
		for _, part := range tt.lacks {
			if strings.Contains(string(text), part) {
				t.Errorf("%s: %s in\n%s", tt.rule, part, text)
			}
		}
	}
}
