package binder

import (
	"strings"
	"sync"
	"testing"

	"patchbay/am"
	"patchbay/am/store"
)

func stage(x *Index, slivers ...am.Sliver) {
	var cs store.ChangeSet
	for _, s := range slivers {
		cs.PutSliver(s)
	}
	x.Stage(cs)
}

func TestFree(t *testing.T) {
	for _, tt := range []struct {
		rule, component string
		held            []string
		want            int
	}{
		{"exclusive and free", "pc1", nil, 1},
		{"exclusive and held", "pc1", []string{"s pc1 raw-pc"}, 0},
		{"exclusive and being cleaned", "pc1", []string{"s pc1 raw-pc~"}, 0},
		{"shared and empty", "h1", nil, 4},
		{"shared, less what is held", "h1", []string{"s h1 vm", "s h1 big-vm"}, 1},
		{"shared, less what is being cleaned", "h1", []string{"s h1 vm~"}, 3},
		{"shared and closed", "h1", []string{"s h1 vm!"}, 0},
		{"shared and overfull", "h1", []string{"s h1 big-vm", "s h1 big-vm", "s h1 big-vm"}, 0},
	} {
		v := site(t, testbed)
		c, _ := v.ComponentNamed(tt.component)
		if got := holding(v, tt.held...).Free(c.Index); got != tt.want {
			t.Errorf("%s: Free is %d, want %d", tt.rule, got, tt.want)
		}
	}
	x := NewIndex(site(t, strings.Replace(testbed, "names: pc1..pc2,", "names: pc1..pc2, drained: true,", 1)))
	if x.Free(0) != 0 || x.Free(2) != 1 || x.Free(-1) != 0 || x.Free(1000) != 0 {
		t.Error("drained or absent components are free")
	}
}

func TestStagedIsBoundAgainstButNotShown(t *testing.T) {
	v := site(t, testbed)
	x := NewIndex(v)
	before := x.Version()
	stage(x, sliver(v, "1", "s", "pc1", "raw-pc"))
	if got := result(Bind(request(""), x, slice("mine"))); !strings.HasPrefix(got, "a=pc2") {
		t.Errorf("a staged sliver does not hold its component: %s", got)
	}
	if x.Free(0) != 1 || x.Version() != before {
		t.Error("what is only staged shows")
	}
	x.Rollback()
	if got := result(Bind(request(""), x, slice("mine"))); !strings.HasPrefix(got, "a=pc1") || x.Free(0) != 1 {
		t.Errorf("after the rollback: %s, free %d", got, x.Free(0))
	}
	stage(x, sliver(v, "1", "s", "pc1", "raw-pc"))
	x.Publish()
	if x.Free(0) != 0 || x.Version() == before {
		t.Error("what is published does not show")
	}
}

func TestReleasedHoldsUntilItsRecordIsDeleted(t *testing.T) {
	v := site(t, testbed)
	x := holding(v, "s pc1 raw-pc")
	s := sliver(v, "held0", "s", "pc1", "raw-pc~")
	stage(x, s)
	x.Publish()
	if x.Free(0) != 0 {
		t.Error("free before it is clean")
	}
	x.Stage(store.ChangeSet{Delete: []store.Key{store.SliverKey(s.URN)}})
	x.Publish()
	if x.Free(0) != 1 {
		t.Error("not free after its record is gone")
	}
	x.Stage(store.ChangeSet{Delete: []store.Key{store.SliverKey(s.URN)}})
	x.Publish()
	if x.Free(0) != 1 {
		t.Error("deleted twice")
	}
	if len(x.holds)+len(x.slices)+len(x.undo)+len(x.touched) != 0 {
		t.Errorf("something is left of it: %+v, %+v", x.holds, x.slices)
	}
}

func TestVersionStaysWhenNothingIsFreed(t *testing.T) {
	v := site(t, testbed)
	x := holding(v, "s pc1 raw-pc")
	before := x.Version()
	s := sliver(v, "held0", "s", "pc1", "raw-pc")
	s.Error = "something else about it"
	stage(x, s)
	var cs store.ChangeSet
	cs.Log(am.JournalEntry{Event: "Renew"})
	x.Stage(cs)
	x.Publish()
	if x.Version() != before {
		t.Error("the version grew")
	}
}

func TestSetInventory(t *testing.T) {
	v := site(t, testbed)
	x := holding(v, "s pc1 raw-pc", "s h1 vm", "s pc3 raw-pc")
	before := x.Version()

	// pc1 is gone, h1 is now exclusive, pc3 is not where it was.
	other := site(t, `
provider: rack
sliver_types: [{name: raw-pc}]
components:
  - {name: pc3, exclusive: true}
  - {name: h1, exclusive: true}
  - {name: pc4, exclusive: true}
`)
	stage(x, sliver(v, "staged", "s", "h2", "vm"))
	x.SetInventory(other)
	x.Rollback()
	if x.Version() == before || x.Inventory() != other {
		t.Error("the change does not show")
	}
	for i, want := range []int{0, 0, 1, 0} {
		if x.Free(i) != want {
			t.Errorf("component %d: %d free, want %d", i, x.Free(i), want)
		}
	}
	// The sliver on the lost component goes.
	x.Stage(store.ChangeSet{Delete: []store.Key{store.SliverKey(sliver(v, "held0", "s", "pc1", "raw-pc").URN)}})
	x.Publish()
	x.SetInventory(v)
	for i, want := range []int{1, 1, 0, 3, 4, 4} {
		if x.Free(i) != want {
			t.Errorf("back again, component %d: %d free, want %d", i, x.Free(i), want)
		}
	}
}

func TestManyReadersOneWriter(t *testing.T) {
	v := site(t, testbed)
	x := NewIndex(v)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if n := x.Free(3); n != 4 && n != 3 {
					t.Errorf("%d free: a staged or half-made state shows", n)
					return
				}
				_, _ = Bind(request("type=vm", "on=pc1"), x, slice("mine"))
				x.Version()
			}
		})
	}
	s := sliver(v, "1", "s", "h1", "vm")
	for i := range 500 {
		stage(x, s)
		if i%3 == 0 {
			stage(x, sliver(v, "2", "s", "h1", "vm"))
			x.Rollback()
			continue
		}
		x.Publish()
		x.Stage(store.ChangeSet{Delete: []store.Key{store.SliverKey(s.URN)}})
		x.Publish()
	}
	close(done)
	readers.Wait()
}

// TestFreePublicAddresses holds that the count follows what is published, and
// that a change of nothing else makes a new version.
func TestFreePublicAddresses(t *testing.T) {
	v := site(t, testbed+"public_addresses: [192.0.2.10..192.0.2.12]\n")
	x := NewIndex(v)
	want := func(free int) {
		t.Helper()
		if got := x.FreePublicAddresses(); got != free {
			t.Errorf("%d addresses are free, want %d", got, free)
		}
	}
	want(3)
	s := sliver(v, "1", "s", "pc1", "raw-pc")
	stage(x, s)
	x.Publish()
	before := x.Version()
	s.PublicAddress = v.PublicAddresses[1]
	stage(x, s)
	want(3)
	x.Rollback()
	want(3)
	stage(x, s)
	x.Publish()
	want(2)
	if x.Version() == before {
		t.Error("a held address makes no new version")
	}
	other := s
	other.URN.Name, other.Component.Name = "2", "gone" // two with one address: it counts once
	stage(x, other)
	x.Publish()
	want(2)
	x.SetInventory(site(t, testbed+"public_addresses: [192.0.2.11]\n"))
	want(0)
	x.Stage(store.ChangeSet{Delete: []store.Key{store.SliverKey(s.URN)}})
	x.Publish()
	want(0)
	before = x.Version()
	x.Stage(store.ChangeSet{Delete: []store.Key{store.SliverKey(other.URN)}})
	x.Publish()
	want(1)
	if x.Version() == before {
		t.Error("a freed address makes no new version")
	}
	x.SetInventory(site(t, testbed))
	want(0)
}
