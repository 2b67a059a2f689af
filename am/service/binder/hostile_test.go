package binder

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec"
)

const head = "provider: rack\ndefault_sliver_type: pc\nsliver_types: [{name: pc}, {name: vm, capabilities: {cpu.count: 1..64}}]\ncomponents:\n"

// rows is a site with the components.
func rows(t testing.TB, components ...string) *inventory.Inventory {
	return site(t, head+strings.Join(components, ""))
}

// kinds are 10,000 exclusive components of 50 kinds.
func kinds(t testing.TB) *inventory.Inventory {
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprintf("  - {names: k%d-1..k%d-200, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: %d, memory.size: %dG, gpu.count: %d}}\n", i, i, 1+i, 8*(1+i%10), i%3))
	}
	return rows(t, all...)
}

// chain is a site in which a node of hardware type ti fits on the components ci and c(i+1).
func chain(t testing.TB, length int) *inventory.Inventory {
	var types strings.Builder
	all := make([]string, length)
	for i := range all {
		fmt.Fprintf(&types, "t%d, ", i)
		all[i] = fmt.Sprintf("  - {name: c%d, exclusive: true, sliver_types: [pc], hardware_types: %s}\n", i, []string{fmt.Sprintf("[t%d]", i), fmt.Sprintf("[t%d, t%d]", i, i-1)}[min(i, 1)])
	}
	return site(t, "hardware_types: ["+types.String()+"]\n"+head+"  - {names: x1..x8000, exclusive: true, sliver_types: [pc]}\n"+strings.Join(all, ""))
}

func repeated(t testing.TB, nodes int, kind, constraints string) *rspec.Request {
	return constrained(t, kind, slices.Repeat([]string{constraints}, nodes)...)
}

// distinct has constraints on 64 features and weights that differ for each node.
func distinct(t testing.TB, nodes int, kind string) *rspec.Request {
	texts := make([]string, nodes)
	for i := range texts {
		var text strings.Builder
		text.WriteString("cpu.count >= 1")
		for j := range 63 {
			fmt.Fprintf(&text, "; %d: %s %s %d", 1+(i+j)%1000, []string{"cpu.count", "gpu.count", "no.such"}[j%3], []string{">=", "<=", "="}[j/3%3], (i/1000+j)%50)
		}
		texts[i] = text.String()
	}
	return constrained(t, kind, texts...)
}

// TestTooManyConstraintsAreRefused proves that the work for constraints has a limit.
func TestTooManyConstraintsAreRefused(t *testing.T) {
	x := newHoldings(kinds(t))
	_, err := bind(distinct(t, 200, "pc"), x, slice("mine"))
	if e, ok := errors.AsType[*UnsatisfiedError](err); !ok || e.Reasons[0].Code != am.TooBig || !strings.Contains(err.Error(), "too many different sets of constraints for 50 kinds") {
		t.Errorf("200 nodes with 64 different constraints: %v", err)
	}
	if _, err := bind(distinct(t, 20, "pc"), x, slice("mine")); err != nil {
		t.Errorf("20 nodes with 64 different constraints: %v", err)
	}
}

func named(n int, set func(n *rspec.Node, i int)) *rspec.Request {
	r := request(slices.Repeat([]string{""}, n)...)
	for i := range r.Nodes {
		r.Nodes[i].ClientID = fmt.Sprint("n", i)
		set(&r.Nodes[i], i)
	}
	return r
}

// pairs are n links of two nodes each, with the capacity of each in kbit/s.
func pairs(n int, capacity func(i int) int64) *rspec.Request {
	r := named(2*n, func(n *rspec.Node, i int) { n.Interfaces = []rspec.Interface{{ClientID: fmt.Sprint("i", i)}} })
	for i := range n {
		from, to := fmt.Sprint("i", 2*i), fmt.Sprint("i", 2*i+1)
		r.Links = append(r.Links, rspec.Link{ClientID: fmt.Sprint("l", i), Interfaces: []string{from, to}, Properties: []rspec.Property{{Source: from, Dest: to, Capacity: capacity(i)}}})
	}
	return r
}

// halves are 10,000 components, of which each second one is on another physical link.
func halves(t testing.TB) *inventory.Inventory {
	var all strings.Builder
	all.WriteString("vlans: [1..4094]\nlinks: [{name: l0}, {name: l1}]\n" + head)
	for i := range 10_000 {
		fmt.Fprintf(&all, "  - {name: c%d, exclusive: true, sliver_types: [pc], interfaces: [{name: e, link: l%d, capacity: 10G}]}\n", i, i%2)
	}
	return site(t, all.String())
}

// TestWorkOfARequestHasALimit proves that the work of every request is counted
// and limited, and that requests of many equal parts are far from the limit.
func TestWorkOfARequestHasALimit(t *testing.T) {
	const refused = "differ too much"
	hosts := "  - {names: h1..h10000, exclusive: false, sliver_types: [vm], capacity: {slots: 9, cores: 64}}\n"
	machines := "  - {names: c1..c10000, exclusive: true, sliver_types: [pc]}\n"
	for _, tt := range []struct {
		rule    string
		site    *inventory.Inventory
		request *rspec.Request
		permit  Permit
		text    string // of the refusal
		most    int    // of work
	}{
		{rule: "links of equal capacities", site: halves(t), request: pairs(2000, func(int) int64 { return 1000 }), most: 200_000},
		{rule: "links of some capacities", site: halves(t), request: pairs(500, func(i int) int64 { return int64(1000 + i) }), most: 2_000_000},
		{rule: "links of 4,000 capacities", site: halves(t), request: pairs(4000, func(i int) int64 { return int64(1000 + i) }), text: refused},
		{rule: "constraints that differ, on shared components", site: rows(t, hosts), request: distinct(t, 2000, "vm"), text: refused},
		{rule: "groups of equal nodes", site: rows(t, hosts), request: named(2000, func(n *rspec.Node, i int) { n.SliverType, n.Colocate = "vm", fmt.Sprint("g", i/2) }), most: 200_000},
		{rule: "groups of nodes that differ", site: rows(t, hosts), text: refused, request: named(2000, func(n *rspec.Node, i int) {
			alone := i%2 == 0
			n.SliverType, n.Colocate, n.Exclusive = "vm", fmt.Sprint("g", i/2), &alone
		})},
		{rule: "a group of 5,000 nodes", site: rows(t, hosts), request: named(5000, func(n *rspec.Node, i int) { n.SliverType, n.Colocate = "vm", "g" }), text: refused},
		{rule: "a group, and components that are not permitted", site: rows(t, hosts), request: named(5000, func(n *rspec.Node, i int) { n.SliverType, n.Colocate = "vm", "g" }), permit: Permit{Components: []int32{}}, text: refused},
		{rule: "nodes whose components are not permitted", site: rows(t, machines), request: named(5000, func(*rspec.Node, int) {}), permit: Permit{Components: []int32{}, NoComponent: "not for you"}, text: "not for you", most: 200_000},
		{rule: "unknown hardware types", site: rows(t, machines), request: named(5000, func(n *rspec.Node, i int) { n.HardwareType = fmt.Sprint("t", i) }), text: "is a \"t0\"", most: 200_000},
		{rule: "constraints that nothing satisfies", site: kinds(t), request: repeated(t, 5000, "pc", "cpu.count >= 51"), text: "no pc satisfies its constraints", most: 200_000},
		{rule: "more nodes than components", site: rows(t, machines), request: named(10_001, func(*rspec.Node, int) {}), text: "10001 pcs requested, 10000 free", most: 200_000},
		{rule: "networks that contain the same addresses", site: rows(t, machines), text: refused, request: func() *rspec.Request {
			r := named(2, func(n *rspec.Node, i int) {})
			next := netip.MustParseAddr("2001:db8::1")
			add := func(node int, id string, addresses ...netip.Prefix) string {
				r.Nodes[node].Interfaces = append(r.Nodes[node].Interfaces, rspec.Interface{ClientID: id, Addresses: addresses})
				return id
			}
			for i := range 1000 {
				var all []netip.Prefix
				for range 60 {
					all = append(all, netip.PrefixFrom(next, 20+i%80))
					next = next.Next()
				}
				r.Links = append(r.Links, rspec.Link{ClientID: fmt.Sprint("l", i), Interfaces: []string{add(0, fmt.Sprint("a", i), all...), add(1, fmt.Sprint("b", i))}})
			}
			return r
		}()},
		{rule: "properties that differ at each interface", site: rows(t, machines), text: "differ at too many", request: func() *rspec.Request {
			r := &rspec.Request{}
			for i := range 60 {
				x := lan(500, "pc", 0)
				l := x.Links[0]
				for j := range x.Nodes {
					id := fmt.Sprint(i, "-", j)
					if i == 0 {
						r.Nodes = append(r.Nodes, rspec.Node{ClientID: x.Nodes[j].ClientID})
					}
					r.Nodes[j].Interfaces = append(r.Nodes[j].Interfaces, rspec.Interface{ClientID: id})
					l.Interfaces[j] = id
					l.Properties = append(l.Properties, rspec.Property{Source: id, Capacity: 1}, rspec.Property{Dest: id, Capacity: int64(10 + j)})
				}
				l.ClientID = fmt.Sprint("l", i)
				r.Links = append(r.Links, l)
			}
			return r
		}()},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			r := &Request{Request: tt.request, Slice: slice("mine"), Permit: tt.permit}
			begin := time.Now()
			_, err := Bind(r, time.Time{}, time.Time{}, frozen(newHoldings(tt.site)))
			if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)) {
				t.Errorf("got %.300v, want %q", err, tt.text)
			}
			if most := cmp.Or(tt.most, maxWork*11/10); r.work.done > most { // a loop that has begun ends
				t.Errorf("%d units of work, want at most %d", r.work.done, most)
			}
			t.Logf("%d units, %v", r.work.done, time.Since(begin))
		})
	}
}

// BenchmarkHostileRequests measures Bind when the constraints have been compared.
func BenchmarkHostileRequests(t *testing.B) {
	const many = 2000
	big := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		rule    string
		site    *inventory.Inventory
		request *rspec.Request
	}{
		{"links of different capacities", halves(t), pairs(many, func(i int) int64 { return int64(1000 + i) })},
		{"links of equal capacities", halves(t), pairs(many, func(i int) int64 { return 1000 })},
		{"different constraints on exclusive components", kinds(t), distinct(t, many, "pc")},
		{"… of a few nodes", kinds(t), distinct(t, 10, "pc")},
		{"different constraints on shared components", rows(t, "  - {names: h1..h10000, exclusive: false, sliver_types: [vm], capacity: {slots: 9, cores: 64}}\n"), distinct(t, many, "vm")},
		{"… of a few nodes on shared components", rows(t, "  - {names: h1..h10000, exclusive: false, sliver_types: [vm], capacity: {slots: 9, cores: 64}}\n"), distinct(t, 10, "vm")},
		{"all compete for ten components", rows(t, "  - {names: a1..a10, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: 64}}\n  - {names: b1..b9990, exclusive: true, sliver_types: [pc]}\n"), repeated(t, many, "pc", "cpu.count >= 1")},
		{"all compete for ten components, with different constraints", rows(t, "  - {names: a1..a10, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: 64}}\n  - {names: b1..b9990, exclusive: true, sliver_types: [pc]}\n"), distinct(t, many, "pc")},
		{"all compete for one shared component", rows(t, "  - {name: h, exclusive: false, sliver_types: [vm], capacity: {slots: 1000}}\n  - {names: b1..b9990, exclusive: true, sliver_types: [pc]}\n"), distinct(t, many, "vm")},
		{"all compete for ten shared components", rows(t, "  - {names: h1..h10, exclusive: false, sliver_types: [vm], capacity: {slots: 150}}\n  - {names: b1..b9990, exclusive: true, sliver_types: [pc]}\n"), distinct(t, many, "vm")},
		{"the last node moves all others", chain(t, many), named(many, func(n *rspec.Node, i int) { n.HardwareType = fmt.Sprint("t", i%(many-1)) })},
		{"many nodes try to move all others", chain(t, many/2), named(many, func(n *rspec.Node, i int) { n.HardwareType = fmt.Sprint("t", max(0, i%(many/2)*(1-i/(many/2)))) })},
		{"one node moves, and all improve", kinds(t), func() *rspec.Request {
			texts := make([]string, many)
			for i := range texts {
				texts[i] = fmt.Sprintf("cpu.count >= 1; %d: cpu.count = 50", 1+i%1000)
			}
			for i := range 200 {
				texts[many-1-i] = "cpu.count >= 50"
			}
			return constrained(t, "pc", texts...)
		}()},
		{"one node moves, and all equal nodes improve", kinds(t), func() *rspec.Request {
			texts := slices.Repeat([]string{"cpu.count >= 1; 9: gpu.count >= 1"}, many)
			texts[many-1] = "cpu.count = 2; gpu.count = 1"
			return constrained(t, "pc", texts...)
		}()},
		{"long names of hardware types", kinds(t), named(20, func(n *rspec.Node, i int) { n.HardwareType = big })},
		{"long names of components", kinds(t), named(20, func(n *rspec.Node, i int) { n.ComponentID = "urn:publicid:IDN+example.org+node+" + big })},
		{"long names of sliver types", kinds(t), named(20, func(n *rspec.Node, i int) { n.SliverType = big })},
	} {
		t.Run(tt.rule, func(b *testing.B) {
			view := frozen(newHoldings(tt.site))
			r := &Request{Request: tt.request, Slice: slice("mine")}
			for b.Loop() {
				Bind(r, time.Time{}, time.Time{}, view) // bound or refused
			}
		})
	}
}
