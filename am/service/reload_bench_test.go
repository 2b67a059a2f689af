package service

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// BenchmarkSetInventory loads inventories of 100,000 components with 100,000 slivers, and reports
// the longest wait of a decision that binds a node meanwhile, in milliseconds.
func BenchmarkSetInventory(b *testing.B) {
	const components = 100_000
	text := "provider: rack\nhardware_types: [small]\nsliver_types: [{name: raw-pc}]\ncomponents:\n  - {names: pc1..pc%d, exclusive: true, hardware_types: [small]}\n  - {name: free%d, exclusive: true}\n"
	parse := func(n int) *inventory.Inventory {
		v, err := inventory.Parse(fmt.Appendf(nil, text, components, n), "inventory.yaml", "example.org")
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
	v := parse(0)
	st, err := store.Open(filepath.Join(b.TempDir(), "store"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	for from := 0; from < components; from += 10_000 {
		err := st.Commit(b.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			for i, c := range v.Components[from : from+10_000] {
				cs.PutSliver(am.Sliver{
					URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(from + i)}, Slice: urn.URN{Authority: "example.org", Type: urn.Slice, Name: fmt.Sprint(i % 1000)},
					Component: c.URN, ComponentName: c.Name, Provider: c.Provider, HardwareType: "small", SliverType: "raw-pc", Amount: am.Amount{Slots: 1},
					Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}, Expires: time.Now().Add(time.Hour),
				})
			}
			return cs, nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	s := New(Config{Store: st, Inventory: inForce(v)})
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan time.Duration)
	go func() {
		var most time.Duration
		request := &binder.Request{Request: &rspec.Request{Nodes: []rspec.Node{{ClientID: "a"}}}, Slice: urn.URN{Authority: "example.org", Type: urn.Slice, Name: "mine"}}
		for ctx.Err() == nil {
			begun := time.Now()
			err := st.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
				_, err = binder.Bind(request, v.Now(), time.Time{}, &binder.View{Inventory: s.Inventory(), Calendar: v.Calendar, Now: v.Now()})
				return cs, err
			})
			if most = max(most, time.Since(begun)); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
		longest <- most
	}()
	sites := []*inventory.Inventory{parse(1), parse(2)}
	n := 0
	for b.Loop() {
		if err := s.SetInventory(context.Background(), sites[n%2], func() {}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	cancel()
	b.ReportMetric(float64(<-longest)/1e6, "longest-wait-ms")
}

// BenchmarkMeet measures what a new inventory of 100,000 components means for as many slivers.
// Every tenth sliver is on a component that no longer exists.
func BenchmarkMeet(b *testing.B) {
	text := "provider: rack\nsliver_types: [{name: raw-pc}]\ncomponents:\n  - {names: pc1..pc%d, exclusive: true}\n"
	parse := func(n int) *inventory.Inventory {
		v, err := inventory.Parse(fmt.Appendf(nil, text, n), "inventory.yaml", "example.org")
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
	was, now := parse(100_000), parse(90_000)
	slivers := make([]am.Sliver, len(was.Components))
	for i, c := range was.Components {
		slivers[i] = am.Sliver{
			Slice: urn.URN{Authority: "example.org", Type: urn.Slice, Name: fmt.Sprint(i % 1000)}, Component: c.URN, ComponentName: c.Name, Provider: c.Provider,
			SliverType: "raw-pc", Exclusive: true, Amount: am.Amount{Slots: 1},
		}
	}
	for b.Loop() {
		if changes := inventory.Compare(was, now); len(changes) != 1 {
			b.Fatal(changes)
		}
		if all := inventory.Consequences(now, slivers); len(all) != 10_000 {
			b.Fatal(len(all))
		}
	}
}
