package binder

import (
	"strings"
	"testing"
)

// TestDrainByPlan checks that a component drained by the plan behaves like one drained by the
// inventory, and like any other component afterwards.
func TestDrainByPlan(t *testing.T) {
	const drained = "drained: [{components: [pc1..pc2, h1], text: fan}]\n"
	inInventory := strings.NewReplacer("{names: pc1..pc2, ", "{names: pc1..pc2, drained: true, ",
		"{names: h1..h3, exclusive: false,", "{name: h1, drained: true, exclusive: false, sliver_types: [vm, big-vm], hardware_types: [large], capacity: {slots: 4, cores: 4, memory: 8G}}\n  - {names: h2..h3, exclusive: false,").Replace(testbed)
	for _, asked := range []string{"", "on=pc1", "hw=small", "type=vm", "type=vm on=h1", "type=vm group=g,type=vm group=g", ",,,", "on=pc3,on=pc2", "hw=large type=vm"} {
		for _, held := range []string{"", "s pc3 raw-pc", "s pc1 raw-pc", "s h1 vm", "s pc1 raw-pc~"} {
			var some []string
			if held != "" {
				some = []string{held}
			}
			x, like, before := holding(site(t, testbed), some...), holding(site(t, inInventory), some...), holding(site(t, testbed), some...)
			x.plan, x.now = planned(t, drained), hour(0)
			bind := func(x *holdings) string {
				got, err := bind(request(strings.Split(asked, ",")...), x, slice("mine"))
				if err != nil {
					return err.(*UnsatisfiedError).Reasons[0].Code.String() + " " + err.Error()
				}
				return result(got, err)
			}
			if got, want := bind(x), bind(like); got != want {
				t.Errorf("%q beside %q: %s, in the inventory %s", asked, held, got, want)
			}
			for i := range x.inv.Components {
				if x.free(i) != like.free(i) {
					t.Errorf("beside %q: %d fit on %s, %d if the inventory drains it", held, x.free(i), x.inv.Components[i].Name, like.free(i))
				}
			}
			x.inv = site(t, testbed) // keeps it
			if got, want := bind(x), bind(like); got != want {
				t.Errorf("%q beside %q with a new inventory: %s, want %s", asked, held, got, want)
			}
			x.plan, x.now = planned(t, ""), hour(1)
			if got, want := bind(x), bind(before); got != want {
				t.Errorf("%q beside %q after the drain ended: %s, want %s", asked, held, got, want)
			}
		}
	}
}

func TestDrainShows(t *testing.T) {
	x := newHoldings(site(t, testbed))
	x.plan, x.now = planned(t, "drained: [{components: [pc1]}]\n"), hour(0)
	if x.free(0) != 0 || x.free(1) != 1 {
		t.Errorf("drained: %d and %d fit", x.free(0), x.free(1))
	}
	x.now = hour(9) // no time ends it
	if x.free(0) != 0 {
		t.Error("it has ended by itself")
	}
	x.plan, x.now = nil, hour(9)
	if x.free(0) != 1 {
		t.Error("the component is still drained")
	}
}
