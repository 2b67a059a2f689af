package binder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec"
)

// model binds by the rules of doc.go over a plain map of slivers. It examines every component every
// time.
type model struct{ *lives }

func (m *model) on(c *inventory.Component) (all []am.Sliver) {
	for _, s := range m.x.slivers {
		if s.Component == c.URN {
			all = append(all, s)
		}
	}
	return all
}

func (m *model) free(c *inventory.Component) int {
	used := am.Amount{}
	all := m.on(c)
	for _, s := range all {
		used = used.Add(s.Amount)
		if s.Exclusive {
			return 0
		}
	}
	switch {
	case !m.serves(c), c.Exclusive && len(all) > 0:
		return 0
	case c.Exclusive:
		return 1
	}
	return int(am.Fits(c.Capacity, used, c.SliverTypes[0].Needs, 1000))
}

// room reports whether a group of equal nodes fits beside the slivers of the model and the
// request's earlier nodes, taken.
func (m *model) room(c *inventory.Component, of string, alone bool, need am.Amount, nodes int, taken []am.Sliver) bool {
	if !m.serves(c) {
		return false
	}
	used, here := need, nodes
	for _, s := range m.on(c) {
		used = used.Add(s.Amount)
		here++
		if other := s.Slice != slice(of); other && (alone || s.Exclusive) {
			return false
		}
	}
	for _, s := range taken {
		if s.Component == c.URN {
			used = used.Add(s.Amount)
			here++
		}
	}
	if c.Exclusive {
		return here == 1
	}
	return fitsInto(c.Capacity, used)
}

func fitsInto(capacity, used am.Amount) bool {
	for _, f := range [][2]int64{{capacity.Slots, used.Slots}, {capacity.Cores, used.Cores}, {capacity.Memory, used.Memory}, {capacity.Disk, used.Disk}} {
		if f[0] > 0 && f[1] > f[0] {
			return false
		}
	}
	return true
}

// rank orders components for a node; less is better, negative is never.
func (m *model) rank(c *inventory.Component, of string, alone bool) int {
	all := m.on(c)
	others := slices.ContainsFunc(all, func(s am.Sliver) bool { return s.Slice != slice(of) })
	switch {
	case c.Exclusive && alone:
		return 0
	case c.Exclusive:
		return 9
	case len(all) > 0 && !others:
		return 1
	case len(all) == 0:
		return 3
	case alone:
		return -1
	}
	return 2
}

// bind gives the names of the components of all nodes, or false.
func (m *model) bind(r *rspec.Request, of string) ([]string, bool) {
	names := make([]string, len(r.Nodes))
	var taken []am.Sliver
	give := func(i int, c *inventory.Component) {
		names[i] = c.Name
		t := m.typeOn(&r.Nodes[i], c)
		taken = append(taken, am.Sliver{Component: c.URN, Amount: t.Needs})
	}
	alone := func(i int) bool { return r.Nodes[i].Exclusive != nil && *r.Nodes[i].Exclusive }
	suits := func(i int, c *inventory.Component) bool {
		n := &r.Nodes[i]
		t := m.typeOn(n, c)
		return t != nil && (n.HardwareType == "" || slices.Contains(c.HardwareTypes, n.HardwareType))
	}
	for i := range r.Nodes {
		if r.Nodes[i].ComponentID == "" {
			continue
		}
		k := slices.IndexFunc(m.v.Components, func(c *inventory.Component) bool { return c.URN.String() == r.Nodes[i].ComponentID })
		c := m.v.Components[k]
		if !suits(i, c) || !m.room(c, of, alone(i), m.typeOn(&r.Nodes[i], c).Needs, 1, taken) {
			return nil, false
		}
		give(i, c)
	}
	choose := func(group []int) bool {
		var best *inventory.Component
		bestRank := 100
		for _, c := range m.v.Components {
			need, any := am.Amount{}, false
			ok := true
			for _, i := range group {
				if ok = ok && suits(i, c); ok {
					need = need.Add(m.typeOn(&r.Nodes[i], c).Needs)
					any = any || alone(i)
				}
			}
			if !ok || !m.room(c, of, any, need, len(group), taken) {
				continue
			}
			if rank := m.rank(c, of, any); rank >= 0 && rank < bestRank {
				best, bestRank = c, rank
			}
		}
		if best == nil {
			return false
		}
		for _, i := range group {
			give(i, best)
		}
		return true
	}
	for _, g := range []string{"g", "h"} {
		var group []int
		for i, n := range r.Nodes {
			if n.Colocate == g {
				group = append(group, i)
			}
		}
		if len(group) > 1 && !choose(group) {
			return nil, false
		}
	}
	for rank := range 3 {
		for i, n := range r.Nodes {
			mine := 2
			if n.HardwareType != "" {
				mine = 0
			} else if alone(i) {
				mine = 1
			}
			if names[i] == "" && mine == rank && !choose([]int{i}) {
				return nil, false
			}
		}
	}
	return names, true
}

// typeOn is the sliver type a node gets on c, nil if c does not offer it.
func (m *model) typeOn(n *rspec.Node, c *inventory.Component) *inventory.SliverType {
	t, _ := m.v.SliverType(n.SliverType)
	if !c.Offers(t) {
		return nil
	}
	return t
}

// swapGroups renames groups so that g comes first: the model serves g before h.
func swapGroups(r *rspec.Request) {
	for _, n := range r.Nodes {
		switch n.Colocate {
		case "g":
			return
		case "h":
			for i := range r.Nodes {
				r.Nodes[i].Colocate = map[string]string{"g": "h", "h": "g", "": ""}[r.Nodes[i].Colocate]
			}
			return
		}
	}
}

const modelled = `
provider: rack
unknown_image: refuse
hardware_types: [small, large]
sliver_types:
  - {name: raw-pc}
  - {name: vm, needs: {memory: 1G}}
  - {name: big-vm, needs: {memory: 3G, slots: 2}}
components:
  - {names: pc1..pc2, exclusive: true, sliver_types: [raw-pc], hardware_types: [small]}
  - {name: pc3, exclusive: true, sliver_types: [raw-pc, vm], hardware_types: [large, small]}
  - {name: pc4, exclusive: true, sliver_types: [raw-pc], drained: true, hardware_types: [large]}
  - {names: h1..h2, exclusive: false, sliver_types: [vm], hardware_types: [large], capacity: {slots: 3}}
  - {names: h3..h4, exclusive: false, sliver_types: [big-vm, vm], hardware_types: [small, large], capacity: {memory: 5G}}
`

func drawRequest(t *rapid.T, v *inventory.Inventory) *rspec.Request {
	r := &rspec.Request{}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := rspec.Node{ClientID: fmt.Sprint("n", i), Line: i}
		n.SliverType = rapid.SampledFrom([]string{"raw-pc", "vm", "vm", "big-vm"}).Draw(t, "type")
		if rapid.IntRange(0, 3).Draw(t, "hardware") == 0 {
			n.HardwareType = rapid.SampledFrom([]string{"small", "large"}).Draw(t, "hardware type")
		}
		switch rapid.IntRange(0, 5).Draw(t, "exclusive") {
		case 0:
			yes := true
			n.Exclusive = &yes
		case 1:
			no := false
			n.Exclusive = &no
		}
		switch rapid.IntRange(0, 5).Draw(t, "place") {
		case 0:
			n.ComponentID = rapid.SampledFrom(v.Components).Draw(t, "component").URN.String()
		case 1:
			n.Colocate = rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
		}
		r.Nodes = append(r.Nodes, n)
	}
	swapGroups(r)
	return r
}

// TestModel runs random histories of slivers, compares every choice with the model's, and checks
// that nothing is over-booked.
func TestModel(t *testing.T) {
	sites := []*inventory.Inventory{
		site(t, modelled),
		site(t, modelled+"exclusive_on_shared: grant\n"),
		site(t, strings.Replace(modelled, "sliver_types: [raw-pc], drained: true", "sliver_types: [raw-pc]", 1)),
	}
	bound := 0
	rapid.Check(t, func(t *rapid.T) {
		m := &model{newLives(sites[0])}
		x := m.x
		serial := 0
		t.Repeat(m.steps(sites, map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				of := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "slice")
				r := drawRequest(t, m.v)
				got, err := bind(r, x, slice(of))
				again, err2 := bind(r, x, slice(of))
				if fmt.Sprint(got, err) != fmt.Sprint(again, err2) {
					t.Fatalf("two answers: %v, %v; %v, %v", got, err, again, err2)
				}
				want, ok := m.bind(r, of)
				if ok && err != nil {
					t.Fatalf("not bound, %v; the model %v", err, want)
				}
				if err != nil {
					if e, ok := errors.AsType[*UnsatisfiedError](err); !ok || len(e.Reasons) == 0 {
						t.Fatalf("no reasons: %v", err)
					}
					return
				}
				bound++
				for i, b := range got.Nodes {
					if ok && b.Component.Name != want[i] {
						t.Fatalf("node %d is on %s, by the model on %s", i, b.Component.Name, want[i])
					}
					serial++
					s := sliver(m.v, fmt.Sprint(serial), of, b.Component.Name, b.SliverType.Name)
					s.Exclusive, s.Amount = b.Exclusive, b.Amount
					x.put(s)
				}
			},
			"": func(t *rapid.T) {
				for _, c := range m.v.Components {
					if got, want := x.free(c.Index), m.free(c); got != want {
						t.Fatalf("%s: %d free, by the model %d", c.Name, got, want)
					}
					used := am.Amount{}
					all := m.on(c)
					for _, s := range all {
						used = used.Add(s.Amount)
						for _, other := range all {
							if s.Exclusive && other.Slice != s.Slice {
								t.Fatalf("%s: %s and %s though one is alone", c.Name, s.Slice, other.Slice)
							}
						}
					}
					if c.Exclusive && len(all) > 1 || !c.Exclusive && !fitsInto(c.Capacity, used) {
						t.Fatalf("%s is over-booked: %+v", c.Name, all)
					}
				}
			},
		}))
	})
	t.Logf("%d requests bound", bound)
	if bound == 0 {
		t.Error("no request was ever bound: the test tests nothing")
	}
}
