package service

import (
	"path/filepath"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// TestVersionOfTheAdvertisement changes one input of the advertisement after another and checks its
// version.
func TestVersionOfTheAdvertisement(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const text = "provider: rack\nsliver_types: [{name: raw-pc}]\npublic_addresses: [192.0.2.10]\ncomponents: [{name: pc1, exclusive: true}]"
	v := parseInventory(t, text)
	s := New(Config{Store: st, Inventory: inForce(v)})
	x := am.Sliver{
		URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: "1"}, Slice: urn.URN{Authority: "example.org", Type: urn.Slice, Name: "s"},
		Component: v.Components[0].URN, ComponentName: "pc1", Provider: "rack", SliverType: "raw-pc", Exclusive: true, Amount: am.Amount{Slots: 1},
		Created: now, Expires: now.Add(time.Hour), Status: am.Status{Allocation: am.Allocated},
	}
	commit := func(change func(*store.ChangeSet)) error {
		return st.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			change(&cs)
			return cs, nil
		})
	}
	put := func() error { return commit(func(cs *store.ChangeSet) { cs.PutSliver(x) }) }
	window := &maintenance.Plan{}
	for _, tt := range []struct {
		change string
		make   func() error
		grows  bool
	}{
		{"nothing", func() error { return nil }, false},
		{"a reservation", put, true},
		{"a renewal", func() error { x.Expires = now.Add(2 * time.Hour); return put() }, false},
		{"an entry of the journal", func() error { return commit(func(cs *store.ChangeSet) { cs.Log(am.JournalEntry{Event: "Renew"}) }) }, false},
		{"the end of the lease, as the record remains", func() error { now = now.Add(3 * time.Hour); return nil }, false},
		{"a released sliver that is being cleaned", func() error { x.Status.Allocation = am.Unallocated; return put() }, false},
		{"a public address that the sliver gets", func() error { x.PublicAddress = v.PublicAddresses[0]; return put() }, true},
		{"the end of the cleaning", func() error { return commit(func(cs *store.ChangeSet) { cs.Remove(store.SliverKey(x.URN)) }) }, true},
		{"another plan", func() (err error) {
			window, err = maintenance.Parse([]byte("planned: [{components: pc1, from: 2030-01-01T04:00:00Z, until: 2030-01-01T05:00:00Z, text: Sorry.}]"), "maintenance.yaml")
			if err != nil {
				return err
			}
			return s.SetPlan(t.Context(), window)
		}, true},
		{"the beginning of maintenance", func() error { now = time.Date(2030, 1, 1, 4, 30, 0, 0, time.UTC); return nil }, true},
		{"the end of maintenance", func() error { now = now.Add(time.Hour); return nil }, true},
		{"another inventory", func() error { return s.SetInventory(t.Context(), parseInventory(t, text), func() {}) }, true},
	} {
		before, err := s.AdvertisementVersion()
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.make(); err != nil {
			t.Fatalf("%s: %v", tt.change, err)
		}
		if after, err := s.AdvertisementVersion(); err != nil || after < before || (after > before) != tt.grows {
			t.Errorf("%s: version %d, then %d, %v; want it to grow: %v", tt.change, before, after, err, tt.grows)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if err := s.SetPlan(t.Context(), nil); err == nil {
		t.Error("the store is not closed")
	}
	if _, err := s.AdvertisementVersion(); err == nil {
		t.Error("no error without a store")
	}
	if _, err := s.AppendAdvertisement(nil, false); err == nil {
		t.Error("an advertisement without a store")
	}
}
