package binder

import (
	"cmp"
	"slices"

	"patchbay/inventory"
)

// Where the ordinary choice puts the nodes of a link where nothing joins them,
// or where there is too little room, the nodes that may go anywhere are tried
// together on one physical link after the other: at most tries times, whatever
// the request.
const tries = 8

// scans bounds how many physical links are looked at, in a request, to find
// those worth a try.
const scans = 100_000

// cluster is a set of nodes that may go anywhere and that links hold together.
type cluster struct {
	nodes []int
	wires []*wire           // those that end at one of them
	links []*inventory.Link // to be tried, the likeliest first; nil: not looked for yet
	tried int
}

// onlyLinks tells whether all reasons are about links, and another choice of
// components may help.
func (b *binding) onlyLinks() bool {
	for _, r := range b.reasons {
		if r.Kind != "link" {
			return false
		}
	}
	return !b.flawed
}

// together tries other choices, and gives the first that works, or b with its
// reasons.
func (b *binding) together() *binding {
	clusters := b.clusters()
	within := map[int]*inventory.Link{}
	scanned := 0
	at := b
	for range tries {
		moved := map[*cluster]bool{}
		for _, i := range at.failures(b) {
			c := clusters[i]
			switch {
			case c == nil:
				return b // nothing about it can change
			case moved[c]:
				continue
			case c.links == nil:
				c.links = b.likely(c, &scanned)
			}
			if c.tried == len(c.links) {
				return b
			}
			moved[c] = true
			for _, n := range c.nodes {
				within[n] = c.links[c.tried]
			}
			c.tried++
		}
		at = newBinding(b.request, b.x, b.slice)
		at.choose(within)
		if len(at.reasons) == 0 {
			return at
		}
	}
	return b
}

// failures are the nodes that were refused, and one of each link that was: one
// that the request left to us, as first found, if there is any.
func (b *binding) failures(first *binding) (nodes []int) {
	for i := range b.wires {
		if w := &b.wires[i]; w.failed {
			nodes = append(nodes, append(w.free(first), w.ends[0].node)[0])
		}
	}
	for i := range b.nodes {
		if b.nodes[i].refused {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// free are the wire's nodes that the request left to us, as b found.
func (w *wire) free(b *binding) (nodes []int) {
	for _, e := range w.ends {
		if !b.nodes[e.node].bound {
			nodes = append(nodes, e.node)
		}
	}
	return nodes
}

// clusters are the cluster of each node; nil for nodes that are bound.
func (b *binding) clusters() []*cluster {
	root := make([]int, len(b.nodes))
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for i := range b.wires {
		if w := &b.wires[i]; !w.tunnel && w.shared == nil {
			free := w.free(b)
			for _, n := range free {
				root[find(n)] = find(free[0])
			}
		}
	}
	hosts := map[string]int{}
	for i := range b.nodes {
		g := b.nodes[i].Node.Colocate
		if g == "" || b.nodes[i].bound {
			continue
		}
		if first, ok := hosts[g]; ok {
			root[find(i)] = find(first)
		} else {
			hosts[g] = i
		}
	}
	all := make([]*cluster, len(b.nodes))
	for i := range b.nodes {
		if b.nodes[i].bound {
			continue
		}
		r := find(i)
		if all[r] == nil {
			all[r] = &cluster{}
		}
		all[i] = all[r]
		all[i].nodes = append(all[i].nodes, i)
	}
	for i := range b.wires {
		if w := &b.wires[i]; !w.tunnel && w.shared == nil {
			if free := w.free(b); len(free) > 0 {
				all[free[0]].wires = append(all[free[0]].wires, w)
			}
		}
	}
	return all
}

// likely are the physical links on which there are components for all nodes of
// c: first those that most of the bound nodes can use to which c is linked,
// else in the order of the inventory.
func (b *binding) likely(c *cluster, scanned *int) []*inventory.Link {
	needs := map[classKey]int{}
	for _, i := range c.nodes {
		needs[classKey{sliverType: b.nodes[i].SliverType, hardware: b.nodes[i].hardware}]++
	}
	bound := map[*inventory.Link]int{}
	for _, w := range c.wires {
		for _, e := range w.ends {
			n := &b.nodes[e.node]
			if !n.bound {
				continue
			}
			for i, p := range n.Component.Interfaces {
				if p.Carries() && !onLink(n.Component.Interfaces[:i], p.Link) {
					bound[p.Link]++
				}
			}
		}
	}
	links := []*inventory.Link{}
	for _, l := range b.x.inv.Links {
		if *scanned += len(needs); *scanned > scans {
			break
		}
		fit := true
		for k, n := range needs {
			k.link = l
			class := b.x.classes[k]
			fit = fit && class != nil && class.slots >= n
		}
		if fit {
			links = append(links, l)
		}
	}
	slices.SortStableFunc(links, func(x, y *inventory.Link) int { return cmp.Compare(bound[y], bound[x]) })
	return links[:min(len(links), tries)]
}

// traffic is what a node takes of the physical link that it has to use: all its
// ends together, and the most that one of them takes in each direction.
type traffic struct{ total, most amount }

func (t traffic) add(o traffic) traffic {
	return traffic{t.total.add(o.total), amount{max(t.most.out, o.most.out), max(t.most.in, o.most.in)}}
}

// restrict tells nodes which physical link they have to use, and what they
// take of it at most.
func (b *binding) restrict(within map[int]*inventory.Link) {
	if len(within) == 0 {
		return
	}
	for i := range b.nodes {
		b.nodes[i].within = within[i]
	}
	for i := range b.wires {
		w := &b.wires[i]
		if w.tunnel {
			continue
		}
		ends := make([]amount, len(w.ends))
		for _, f := range w.flows {
			if w.ends[f.from].node != w.ends[f.to].node {
				ends[f.from].out = sum(ends[f.from].out, f.capacity)
				ends[f.to].in = sum(ends[f.to].in, f.capacity)
			}
		}
		for j, e := range w.ends {
			if n := &b.nodes[e.node]; n.within != nil {
				n.traffic = n.traffic.add(traffic{ends[j], ends[j]})
			}
		}
	}
}

// carries tells whether the interfaces of c have room for w beside what other
// nodes that use the same physical link take at most.
func (b *binding) carries(c *inventory.Component, w want) bool {
	var left amount
	var out, in bool
	for _, p := range c.Interfaces {
		if p.Carries() && p.Link == w.within {
			l := b.left(p)
			left = left.add(amount{max(l.out, 0), max(l.in, 0)})
			out, in = out || w.most.out <= l.out, in || w.most.in <= l.in
		}
	}
	return out && in && b.claims[int32(c.Index)].traffic.add(w.total).within(left)
}
