package binder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// changeable are lines of which drawSite makes inventories: each time some
// components, otherwise.
var changeable = []string{
	"{name: pc%[1]d, exclusive: true, hardware_types: [small]}",
	"{name: pc%[1]d, exclusive: true, drained: true, hardware_types: [small, large]}",
	"{name: pc%[1]d, exclusive: false, sliver_types: [vm], capacity: {slots: 3}}",
	"{name: pc%[1]d, exclusive: false, sliver_types: [vm, raw-pc], capacity: {slots: 2}}",
	"{name: pc%[1]d, exclusive: true, component_id: 'urn:publicid:IDN+example.org+node+other%[1]d'}",
	"{name: pc%[1]d, exclusive: true, provider: second}",
	"{name: pc%[1]d, exclusive: true, interfaces: [{name: eth0, link: core, capacity: 1G}]}",
	"{name: new%[1]d, exclusive: true, component_id: 'urn:publicid:IDN+example.org+node+pc%[1]d', interfaces: [{name: eth0, link: core}]}",
	"",
}

func drawSite(t *rapid.T) *inventory.Inventory {
	text := "provider: rack\nhardware_types: [small, large]\nsliver_types: [{name: raw-pc}, {name: vm}]\nlinks: [{name: core}]\n" +
		rapid.SampledFrom([]string{"", "vlans: [100..103]\n", "vlans: [102..105]\n"}).Draw(t, "vlans") +
		rapid.SampledFrom([]string{"", "public_addresses: [192.0.2.1..192.0.2.3]\n"}).Draw(t, "public") + "components:\n  - {name: last, exclusive: true}\n"
	for i := range 5 {
		if line := rapid.SampledFrom(changeable).Draw(t, "component"); line != "" {
			text += "  - " + fmt.Sprintf(line, i) + "\n"
		}
	}
	v, err := inventory.Parse([]byte(text), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// drawSliver is one that some inventory may have promised.
func drawSliver(t *rapid.T, id int) am.Sliver {
	n := rapid.IntRange(0, 4).Draw(t, "on")
	name := fmt.Sprintf("pc%d", n)
	s := am.Sliver{
		URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(id)}, Slice: slice(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "slice")),
		Component: component(rapid.SampledFrom([]string{name, fmt.Sprintf("other%d", n)}).Draw(t, "urn")), ComponentName: name,
		Provider: rapid.SampledFrom([]string{"rack", "second", ""}).Draw(t, "provider"),
		Amount:   am.Amount{Slots: 1}, Exclusive: rapid.Bool().Draw(t, "alone"), Status: am.Status{Allocation: am.Allocated},
	}
	if rapid.Bool().Draw(t, "leaving") {
		s.Status.Allocation = am.Unallocated
	}
	if rapid.Bool().Draw(t, "wired") {
		s.Interfaces = []am.Interface{{
			ClientID: "i", Component: urn.URN{Authority: "example.org", Type: urn.Interface, Name: s.Component.Name + ":eth0"}, ComponentName: "eth0",
			Out: 5, In: 7, VLAN: rapid.IntRange(0, 4).Draw(t, "tag") + 100,
		}}
	}
	return s
}

// knowledge is all that an index knows, as text.
func knowledge(x *Index) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var b strings.Builder
	for i, c := range x.inv.Components {
		fmt.Fprintln(&b, c.Name, x.usage[i], x.available.Load().free[i].Load())
		for _, p := range x.places[i] {
			fmt.Fprintln(&b, p.at, p.cleaning, p.serving, p.away, p.class.lone.at(p.at), p.class.open.at(p.at), p.class.empty.at(p.at), p.class.serving, p.class.slots, p.class.cleaning, p.class.away)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(x.slices)) {
		fmt.Fprintln(&b, of, x.slices[of])
	}
	fmt.Fprintln(&b, x.network.ports, x.network.tags.holders, x.network.tags.held, x.network.public.held, x.network.widest, x.available.Load().public.Load())
	for _, tag := range slices.Sorted(maps.Keys(x.network.alone)) {
		if n := x.network.alone[tag]; n != 0 {
			fmt.Fprintln(&b, tag, n)
		}
	}
	return b.String()
}

// TestAnotherInventoryIsAsGoodAsANewIndex holds that after any inventories and any
// changes, also such as come while one is prepared, an index knows what one made
// anew would.
func TestAnotherInventoryIsAsGoodAsANewIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(drawSite(t))
		there := map[string]am.Sliver{}
		id := 0
		some := func() {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				var cs store.ChangeSet
				before := maps.Clone(there)
				if ids := slices.Sorted(maps.Keys(there)); len(ids) > 0 && rapid.Bool().Draw(t, "delete") {
					key := rapid.SampledFrom(ids).Draw(t, "which")
					cs.Remove(store.SliverKey(there[key].URN))
					delete(there, key)
				} else {
					id++
					s := drawSliver(t, id)
					cs.PutSliver(s)
					there[s.URN.Name] = s
				}
				x.Stage(cs)
				if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
					x.Rollback()
					there = before
				} else {
					x.Publish()
				}
			}
		}
		for range rapid.IntRange(1, 4).Draw(t, "reloads") {
			some()
			v := drawSite(t)
			set, drop := x.Prepare(v)
			some()
			if rapid.IntRange(0, 4).Draw(t, "drop") == 0 {
				drop()
				v = x.Inventory()
			} else {
				set()
			}
			some()
			anew := NewIndex(v)
			var all store.ChangeSet
			for _, s := range there {
				all.PutSliver(s)
			}
			anew.Stage(all)
			anew.Publish()
			if got, want := knowledge(x), knowledge(anew); got != want {
				t.Fatalf("it knows\n%s\nand one made anew\n%s", got, want)
			}
		}
	})
}

// TestWhoHasAComponentKeepsItUnderAnotherURN holds that a machine is not given twice
// because its component_id was changed.
func TestWhoHasAComponentKeepsItUnderAnotherURN(t *testing.T) {
	v := site(t, testbed)
	x := NewIndex(v)
	s := sliver(v, "1", "s", "pc1", "raw-pc")
	s.ComponentName, s.Provider = "pc1", v.Components[0].Provider
	stage(x, s)
	x.Publish()
	other := strings.Replace(testbed, "names: pc1..pc2,", "name: pc1, component_id: 'urn:publicid:IDN+example.org+node+rack-1',", 1)
	x.SetInventory(site(t, other))
	if c, _ := x.Inventory().ComponentNamed("pc1"); x.Free(c.Index) != 0 {
		t.Error("it is free under its new URN while somebody has it")
	}
}

// TestStockIsOfOneInventory holds that what is free is never told of another
// inventory than it is of, while inventories change.
func TestStockIsOfOneInventory(t *testing.T) {
	small, large := site(t, testbed), site(t, strings.Replace(testbed, "names: pc1..pc2", "names: pc1..pc2, drained: true", 1))
	x := NewIndex(small)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				s := x.Availability()
				free := 1
				if s.Inventory().Components[0].Drained {
					free = 0
				}
				if s.Free(0) != free {
					t.Errorf("%d free of an inventory of which %d are", s.Free(0), free)
					return
				}
			}
		})
	}
	for i := range 200 {
		x.SetInventory([]*inventory.Inventory{large, small}[i%2])
	}
	close(done)
	readers.Wait()
}

// TestStockIsOfOneMoment publishes slivers on two components together: whoever
// reads meets both or none.
func TestStockIsOfOneMoment(t *testing.T) {
	x := NewIndex(site(t, testbed))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if s := x.Availability(); s.Free(0) != s.Free(1) {
					t.Errorf("%d and %d free of two that change together", s.Free(0), s.Free(1))
					return
				}
			}
		})
	}
	for i := range 2000 {
		var cs store.ChangeSet
		for n, c := range x.Inventory().Components[:2] {
			s := am.Sliver{URN: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+s%d", n)), Component: c.URN, Exclusive: true, Amount: am.Amount{Slots: 1}}
			s.Status.Allocation = am.Allocated
			if i%2 == 0 {
				cs.PutSliver(s)
			} else {
				cs.Remove(store.SliverKey(s.URN))
			}
		}
		x.Stage(cs)
		x.Publish()
	}
	close(done)
	readers.Wait()
}
