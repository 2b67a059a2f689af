package binder

import (
	"errors"
	"fmt"
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

// BenchmarkHostileRequests measures the part of Bind inside the decision, for which other calls wait.
func BenchmarkHostileRequests(t *testing.B) {
	const many = 2000
	named := func(n int, set func(n *rspec.Node, i int)) *rspec.Request {
		r := request(slices.Repeat([]string{""}, n)...)
		for i := range r.Nodes {
			r.Nodes[i].ClientID = fmt.Sprint("n", i)
			set(&r.Nodes[i], i)
		}
		return r
	}
	big := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		rule    string
		site    *inventory.Inventory
		request *rspec.Request
	}{
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
			begin := time.Now()
			r.Prepare(tt.site)
			b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-in-Prepare")
			for b.Loop() {
				Bind(r, time.Time{}, time.Time{}, view) // bound or refused
			}
		})
	}
}
