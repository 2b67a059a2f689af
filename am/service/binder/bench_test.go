package binder

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec"
)

// rack is a site of n components: nine exclusive ones to one shared.
func rack(b *testing.B, n int) *inventory.Inventory {
	return site(b, fmt.Sprintf(`
provider: rack
hardware_types: [small, large]
sliver_types: [{name: raw-pc}, {name: vm, needs: {memory: 1G}}]
components:
  - {names: pc1..pc%d, exclusive: true, sliver_types: [raw-pc], hardware_types: [small]}
  - {names: big1..big%d, exclusive: true, sliver_types: [raw-pc], hardware_types: [large]}
  - {names: h1..h%d, exclusive: false, sliver_types: [vm], capacity: {slots: 10, memory: 64G}}
`, n/2, n*4/10, n/10))
}

// fill reserves the first part of the exclusive and of the shared components.
func fill(v *inventory.Inventory, part float64) *holdings {
	x := newHoldings(v)
	held := map[bool]int{}
	all := map[bool]int{}
	for _, c := range v.Components {
		all[c.Exclusive]++
	}
	for _, c := range v.Components {
		if held[c.Exclusive]++; float64(held[c.Exclusive]) > part*float64(all[c.Exclusive]) {
			continue
		}
		for i := range c.Capacity.Slots {
			x.put(sliver(v, fmt.Sprint(c.Name, "-", i), fmt.Sprint("s", c.Index%1000), c.Name, c.SliverTypes[0].Name))
		}
	}
	return x
}

// frozen is a view of the present x, as fast as the store's.
func frozen(x *holdings) *View {
	var holds []am.Hold
	for _, s := range x.slivers {
		holds = append(holds, am.HoldOf(&s))
	}
	return &View{Inventory: x.inv, Calendar: func(f func(*am.Hold) bool) error {
		for i := range holds {
			f(&holds[i])
		}
		return nil
	}}
}

func mixed(nodes int) []string {
	var words []string
	for i := range nodes {
		words = append(words, []string{"type=raw-pc", "type=vm", "type=raw-pc hw=large", "type=vm exclusive=true"}[i%4])
	}
	return words
}

func BenchmarkBind(b *testing.B) {
	for _, nodes := range []int{10, 1000} {
		for _, components := range []int{1_000, 10_000} {
			for _, part := range []float64{0, 0.3} {
				if nodes > components/4 {
					continue
				}
				b.Run(fmt.Sprintf("%d nodes on %d, %.0f%% held", nodes, components, part*100), func(b *testing.B) {
					view := frozen(fill(rack(b, components), part))
					r := request(mixed(nodes)...)
					b.ReportAllocs()
					for b.Loop() {
						if _, err := Bind(&Request{Request: r, Slice: slice("mine")}, time.Time{}, time.Time{}, view); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
	b.Run("1000 groups of 2 on 10000", func(b *testing.B) {
		x := newHoldings(rack(b, 10_000))
		r := request(strings.Split(strings.Repeat("type=vm,", 1999)+"type=vm", ",")...)
		for i := range r.Nodes {
			r.Nodes[i].Colocate = fmt.Sprint("g", i/2)
		}
		for b.Loop() {
			if _, err := bind(r, x, slice("mine")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("2000 nodes refused of 10000", func(b *testing.B) {
		x := fill(rack(b, 10_000), 1)
		r := request(mixed(2_000)...)
		for b.Loop() {
			if _, err := bind(r, x, slice("mine")); err == nil {
				b.Fatal("bound on a full site")
			}
		}
	})
}

// BenchmarkBindLinks binds n nodes joined by n-1 links, over switches of 50 components each. In
// one case the first choice fits. In the other it does not, because each link needs more
// capacity than the first half of the site has.
func BenchmarkBindLinks(b *testing.B) {
	for _, components := range []int{1_000, 10_000} {
		var text strings.Builder
		text.WriteString("provider: rack\nvlans: [1..4000]\nsliver_types: [{name: raw-pc}]\nlinks:\n")
		for i := range components / 50 {
			fmt.Fprintf(&text, "  - {name: s%d, capacity: %dG}\n", i, 1+9*(2*i/(components/50)))
		}
		text.WriteString("components:\n")
		for i := range components / 50 {
			fmt.Fprintf(&text, "  - {names: pc%d-1..pc%d-50, exclusive: true, interfaces: [{name: eth1, link: s%d}, {name: eth2, link: s%d}]}\n", i, i, i, i)
		}
		v := site(b, text.String())
		for _, nodes := range []int{10, 1000} {
			for name, capacity := range map[string]int64{"first choice": 1000, "other choice": 5_000_000, "no choice": 50_000_000} {
				if nodes > components/4 {
					continue
				}
				b.Run(fmt.Sprintf("%d nodes on %d, %s", nodes, components, name), func(b *testing.B) {
					x := newHoldings(v)
					r := request(strings.Split(strings.Repeat(",", nodes-1), ",")...)
					for i := range r.Nodes {
						r.Nodes[i].ClientID = fmt.Sprint("n", i)
						r.Nodes[i].Interfaces = []rspec.Interface{{ClientID: fmt.Sprint("in", i)}, {ClientID: fmt.Sprint("out", i)}}
					}
					for i := range nodes - 1 {
						if i%10 == 9 { // lines of ten
							continue
						}
						from, to := fmt.Sprint("out", i), fmt.Sprint("in", i+1)
						r.Links = append(r.Links, rspec.Link{ClientID: fmt.Sprint("l", i), Interfaces: []string{from, to}, Properties: []rspec.Property{{Source: from, Dest: to, Capacity: capacity}}})
					}
					b.ReportAllocs()
					for b.Loop() {
						if _, err := bind(r, x, slice("mine")); (err == nil) != (name != "no choice") {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkBindLAN binds a LAN of n nodes with n(n-1) properties, one for each ordered pair.
func BenchmarkBindLAN(b *testing.B) {
	v := site(b, "provider: rack\nvlans: [1..9]\nsliver_types: [{name: raw-pc}]\nlinks: [{name: core}]\ncomponents: [{names: pc1..pc1000, exclusive: true, interfaces: [{name: eth1, link: core}]}]\n")
	for _, nodes := range []int{50, 100, 200, 400} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			x := newHoldings(v)
			r := lan(nodes, "raw-pc", 1000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bind(r, x, slice("mine")); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes*(nodes-1)), "ns/property")
		})
	}
}

// BenchmarkBindAddresses binds n links of which each asks for ten addresses of
// one network and leaves an interface open.
func BenchmarkBindAddresses(b *testing.B) {
	v := site(b, "provider: rack\nsliver_types: [{name: raw-pc}]\ncomponents: [{names: pc1..pc2, exclusive: true}]\n")
	for _, links := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(links), func(b *testing.B) {
			x := newHoldings(v)
			r := request("", "")
			next := netip.MustParseAddr("10.0.0.1")
			for i := range links {
				full, open := rspec.Interface{ClientID: fmt.Sprint("full", i)}, rspec.Interface{ClientID: fmt.Sprint("open", i)}
				for range 10 {
					full.Addresses = append(full.Addresses, netip.PrefixFrom(next, 8))
					next = next.Next()
				}
				r.Nodes[0].Interfaces = append(r.Nodes[0].Interfaces, full)
				r.Nodes[1].Interfaces = append(r.Nodes[1].Interfaces, open)
				r.Links = append(r.Links, rspec.Link{ClientID: fmt.Sprint("l", i), Interfaces: []string{full.ClientID, open.ClientID}})
			}
			for b.Loop() {
				if _, err := bind(r, x, slice("mine")); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(links), "ns/link")
		})
	}
}

// BenchmarkBindConstrained binds nodes with three constraints each on 10,000 components of 50
// kinds, half of which are held. "distinct" nodes have different constraints. "prepared" is the
// part inside the decision, for which other calls wait.
func BenchmarkBindConstrained(b *testing.B) {
	var text strings.Builder
	text.WriteString("provider: rack\nsliver_types: [{name: raw-pc}]\ncomponents:\n")
	for i := range 50 {
		fmt.Fprintf(&text, "  - {names: k%d-1..k%d-200, exclusive: true, capabilities: {cpu.count: %d, memory.size: %dG, gpu.count: %d}}\n", i, i, 1+i, 8*(1+i%10), i%3)
	}
	v := site(b, text.String())
	x := fill(v, 0)
	for i, c := range v.Components {
		if i%2 == 0 {
			x.put(sliver(v, c.Name, fmt.Sprint("s", i%1000), c.Name, "raw-pc"))
		}
	}
	view := frozen(x)
	for _, nodes := range []int{10, 2000} {
		for _, distinct := range []bool{false, true} {
			var constraints []string
			for i := range nodes {
				weight := 1
				if distinct {
					weight += i
				}
				constraints = append(constraints, fmt.Sprintf("cpu.count >= %d; memory.size >= 8G; %d: gpu.count >= 1", 1+i%20, weight))
			}
			r := constrained(b, "raw-pc", constraints...)
			b.Run(fmt.Sprintf("%d nodes, distinct %v", nodes, distinct), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Bind(&Request{Request: r}, time.Time{}, time.Time{}, view); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
