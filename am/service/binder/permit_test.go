package binder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"patchbay/inventory"
)

// permit is one of names: components, or sliver types with a colon in front.
func permit(t testing.TB, v *inventory.Inventory, names string) Permit {
	t.Helper()
	p := Permit{NoComponent: "by the rule", NoSliverType: "by the rule"}
	for name := range strings.FieldsSeq(names) {
		if kind, ok := strings.CutPrefix(name, ":"); ok {
			p.SliverTypes = append(p.SliverTypes, kind)
			continue
		}
		c, ok := v.Component(component(name))
		if !ok {
			t.Fatal(name)
		}
		p.Components = append(p.Components, int32(c.Index))
	}
	slices.Sort(p.Components)
	return p
}

func TestOnlyWhatIsPermittedIsTaken(t *testing.T) {
	for _, tt := range []struct {
		rule      string
		permitted string
		held      string // components, by another slice
		nodes     []string
		want      string
	}{
		{"the first that is permitted", "pc3 pc2", "", []string{"type=raw-pc"}, "a=pc2/raw-pc/ubuntu!"},
		{"and the next", "pc1 pc3", "", []string{"type=raw-pc", "type=raw-pc"}, "a=pc1/raw-pc/ubuntu! b=pc3/raw-pc/ubuntu!"},
		{"bound to one that is not", "pc2", "", []string{"on=pc1"}, "a:1 7/0"},
		{"bound to one that is not, and held", "pc2", "pc1", []string{"on=pc1"}, "a:1 7/0"},
		{"bound to one that is, but held", "pc1", "pc1", []string{"on=pc1"}, "a:1 6/26"},
		{"free ones are forbidden", "pc1", "pc1", []string{"type=raw-pc"}, "a:1 7/0"},
		{"nothing is free at all", "pc1", "pc1 pc2 pc3", []string{"type=raw-pc"}, "a:1 6/26"},
		{"more than are permitted", "pc1", "", []string{"type=raw-pc", "type=raw-pc"}, "b:2 7/0"},
		{"none offers the type", "h1", "pc1 pc2 pc3", []string{"type=raw-pc"}, "a:1 7/0"},
		{"of the hardware type none", "pc1", "", []string{"type=raw-pc hw=large"}, "a:1 7/0"},
		{"a host for several", "h2", "", []string{"type=vm group=g", "type=vm group=g"}, "a=h2/vm/debian b=h2/vm/debian"},
		{"no host for several", "pc1", "", []string{"type=vm group=g", "type=vm group=g"}, "a:1 7/0 b:2 7/0"},
		{"a sliver type", ":vm", "", []string{"type=vm"}, "a=h1/vm/debian"},
		{"another sliver type", ":vm", "", []string{"type=raw-pc"}, "a:1 7/0"},
		{"another sliver type, and all are held", ":vm", "pc1 pc2 pc3", []string{"type=raw-pc"}, "a:1 7/0"},
		{"another one on a component", ":vm", "", []string{"on=pc1 type=raw-pc"}, "a:1 7/0"},
		{"no sliver type named", ":vm", "", []string{""}, "a=h1/vm/debian"},
		{"none named on a component", ":vm", "", []string{"on=h2"}, "a=h2/vm/debian"},
		{"none named where there is no other", ":vm", "", []string{"on=pc1"}, "a:1 7/0"},
		{"both", ":raw-pc pc3", "", []string{""}, "a=pc3/raw-pc/ubuntu!"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			v := site(t, testbed)
			x := newHoldings(v)
			for name := range strings.FieldsSeq(tt.held) {
				x.put(sliver(v, name, "other", name, "raw-pc"))
			}
			b, err := bindFor(&Request{Request: request(tt.nodes...), Slice: slice("mine"), Permit: permit(t, v, tt.permitted)}, x)
			if got := result(b, err); got != tt.want {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
			if strings.Contains(tt.want, " 7/") && !strings.HasSuffix(err.Error(), "by the rule") {
				t.Errorf("it is refused in other words: %v", err)
			}
		})
	}
}

// TestPermitEqualsTakingOthersOutOfService compares the choice among permitted components with the choice
// when all others are out of service.
func TestPermitEqualsTakingOthersOutOfService(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const n = 12
		var whole, drained strings.Builder
		var names []string
		for i := range n {
			name, kind := fmt.Sprint("c", i), "exclusive: true, sliver_types: [raw-pc]"
			if rapid.Bool().Draw(r, "shared") {
				kind = "exclusive: false, sliver_types: [vm], capacity: {slots: 2}"
			}
			allowed := rapid.Bool().Draw(r, "permitted")
			if allowed {
				names = append(names, name)
			}
			fmt.Fprintf(&whole, "  - {name: %s, %s}\n", name, kind)
			fmt.Fprintf(&drained, "  - {name: %s, %s, drained: %v}\n", name, kind, !allowed)
		}
		const head = "provider: rack\nsliver_types: [{name: raw-pc}, {name: vm}]\ncomponents:\n"
		v, alone := site(t, head+whole.String()), site(t, head+drained.String())
		p := permit(t, v, strings.Join(names, " "))
		if p.Components == nil {
			p.Components = []int32{}
		}
		x := newHoldings(v)
		for i := range rapid.IntRange(0, 8).Draw(r, "held") {
			name := fmt.Sprint("c", rapid.IntRange(0, n-1).Draw(r, "component"))
			c, _ := v.Component(component(name))
			if x.free(c.Index) == 0 {
				continue
			}
			x.put(sliver(v, fmt.Sprint("s", i), rapid.SampledFrom([]string{"mine", "other"}).Draw(r, "slice"), name, c.SliverTypes[0].Name))
		}
		var nodes []string
		for range rapid.IntRange(1, 4).Draw(r, "nodes") {
			nodes = append(nodes, rapid.SampledFrom([]string{"type=raw-pc", "type=vm", "type=vm exclusive=true", "type=vm group=g"}).Draw(r, "node"))
		}
		known := func(kind string) bool { return strings.Contains(whole.String(), "["+kind+"]") }
		for _, node := range nodes {
			if kind := strings.TrimPrefix(strings.Fields(node)[0], "type="); !known(kind) {
				return // nothing offers it
			}
		}
		b1, err1 := bindFor(&Request{Request: request(nodes...), Slice: slice("mine"), Permit: p}, x)
		b2, err2 := bind(request(nodes...), &holdings{inv: alone, slivers: x.slivers}, slice("mine"))
		if (err1 == nil) != (err2 == nil) || err1 == nil && result(b1, nil) != result(b2, nil) {
			r.Fatalf("permitted %v: %s (%v), alone: %s (%v)", names, result(b1, err1), err1, result(b2, err2), err2)
		}
	})
}

// BenchmarkBindPermitted binds ten nodes where a tenth or half of the components are permitted,
// and many of them are in use, so that the search has to skip components.
func BenchmarkBindPermitted(b *testing.B) {
	for _, components := range []int{1_000, 100_000} {
		v := rack(b, components)
		for _, every := range []int{1, 2, 10} {
			b.Run(fmt.Sprintf("each %d. of %d", every, components), func(b *testing.B) {
				x := newHoldings(v)
				p := Permit{Components: []int32{}}
				for _, c := range v.Components {
					if c.Index%every != 0 {
						continue
					}
					p.Components = append(p.Components, int32(c.Index))
					if c.Exclusive && c.HardwareTypes[0] == "small" && c.Index < components/2-20*every {
						x.put(sliver(v, c.Name, "other", c.Name, "raw-pc"))
					}
				}
				r := request(slices.Repeat([]string{"type=raw-pc hw=small"}, 10)...)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := bindFor(&Request{Request: r, Slice: slice("mine"), Permit: p}, x); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
