package binder

import (
	"cmp"
	"slices"

	"patchbay/inventory"
)

// The first choice may put the nodes of a link on components that no physical link joins,
// or whose interfaces have too little capacity. Then the nodes that name no component are
// tried on other physical links. If links of the request connect such nodes, each try places
// these nodes on one physical link.
const (
	maxTries      = 16
	maxTriedNodes = 20_000 // nodes in all tries together; two tries are always allowed
)

// maxScans limits how often a request checks whether a physical link is worth a try.
const maxScans = 100_000

// retry searches for another choice of components after the first choice, the embedded binding,
// has failed.
type retry struct {
	*binding
	scanned int
	booked  map[classKey]int // the number of components of each class that the clusters have booked
	widest  []int64          // by the index of the link; see widest
	// fitting are the physical links that suit a cluster, by its shape.
	fitting map[shape][]*inventory.Link
}

// shape describes a cluster: the same physical links suit all clusters of one shape.
type shape struct {
	class classKey
	nodes int
	most  int64 // the most kbit/s that one end takes in one direction
}

// cluster is a set of unbound nodes that links connect.
type cluster struct {
	nodes []int
	wires []*wire           // the wires that end at one of the nodes
	needs map[classKey]int  // the number of nodes that need each class
	links []*inventory.Link // links to try, the likeliest first; nil before likelyLinks
	tried int               // the number of links that were tried
	on    *inventory.Link   // the link that is being tried, or nil
}

// onlyLinks reports whether all reasons are about links, so that another choice of
// components may help.
func (b *binding) onlyLinks() bool {
	for _, r := range b.reasons {
		if r.Kind != "link" {
			return false
		}
	}
	return !b.flawed
}

// tryOtherLinks binds again, each time with the clusters of the failed links on other physical links. It
// returns the first binding without reasons, else b with its reasons.
func (b *binding) tryOtherLinks() *binding {
	clusters := b.clusters()
	requiredLinks := map[int]*inventory.Link{}
	r := retry{binding: b, booked: map[classKey]int{}, fitting: map[shape][]*inventory.Link{}}
	last := b
	for range min(maxTries, max(2, maxTriedNodes/len(b.nodes))) {
		moved := map[*cluster]bool{}
		for _, i := range last.failures(b) {
			c := clusters[i]
			if c == nil {
				return b // the request binds the node, so no other choice exists
			}
			if moved[c] {
				continue
			}
			moved[c] = true
			if !r.move(c) {
				return b.refuseTries()
			}
			for _, n := range c.nodes {
				requiredLinks[n] = c.on
			}
		}
		last = newBinding(b.Request, b.x)
		last.linkSlots = b.linkSlots
		last.choose(requiredLinks)
		if len(last.reasons) == 0 {
			return last
		}
		if b.work.isOver() {
			break
		}
	}
	return b.refuseTries()
}

// refuseTries returns b. If the tries were too much work, that is the reason for all failed links.
func (b *binding) refuseTries() *binding {
	if b.work.isOver() {
		b.reasons = nil
		for i := range b.wires {
			if w := &b.wires[i]; w.failed {
				b.refuseWork(w)
			}
		}
	}
	return b
}

// move assigns c to the next of its links that has enough components, not counting the
// components that other clusters have booked. It returns false if there is no such link.
func (r *retry) move(c *cluster) bool {
	if c.links == nil {
		c.links = r.likelyLinks(c)
	}
	book := func(sign int) {
		for k, n := range c.needs {
			k.link = c.on
			r.booked[k] += sign * n
		}
	}
	if c.on != nil {
		book(-1)
	}
	for ; c.tried < len(c.links) && r.scanned < maxScans && r.work.add(len(c.needs)); c.tried++ {
		r.scanned++
		if l := c.links[c.tried]; r.hasRoom(c, l, r.booked) {
			c.on = l
			book(1)
			c.tried++
			return true
		}
	}
	return false
}

// hasRoom reports whether l has enough components for c that are not booked.
func (r *retry) hasRoom(c *cluster, l *inventory.Link, booked map[classKey]int) bool {
	for k, n := range c.needs {
		k.link = l
		if r.slotsOnLinks(k)[l.Index]-booked[k] < n {
			return false
		}
	}
	return true
}

// failures returns the refused nodes, and one node of each refused link. It prefers a node
// whose component the request does not determine, as recorded in firstChoice. A link fails
// here only for lack of a physical interface, so each refused link has ends.
func (b *binding) failures(firstChoice *binding) (nodes []int) {
	for i := range b.wires {
		w := &b.wires[i]
		if !w.failed {
			continue
		}
		node := w.ends[0].node
		if movable := w.movableNodes(firstChoice); len(movable) > 0 {
			node = movable[0]
		}
		nodes = append(nodes, node)
	}
	for i := range b.nodes {
		if b.nodes[i].refused {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// movableNodes returns the nodes of the wire whose component the request does not determine. b is
// the first choice, which has recorded these nodes.
func (w *wire) movableNodes(b *binding) (nodes []int) {
	for _, e := range w.ends {
		if !b.nodes[e.node].Asked {
			nodes = append(nodes, e.node)
		}
	}
	return nodes
}

// clusters returns the cluster of each node, by the number of the node: nodes that links or a colocate
// connect have the same one. A node whose component the request determines has none.
func (b *binding) clusters() []*cluster {
	root := make([]int, len(b.nodes)) // a union-find forest: nodes with one root are in one cluster
	for i := range root {
		root[i] = i
	}
	rootOf := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for i := range b.wires {
		if w := &b.wires[i]; !w.tunnel && w.shared == nil {
			movable := w.movableNodes(b)
			for _, n := range movable {
				root[rootOf(n)] = rootOf(movable[0])
			}
		}
	}
	hosts := map[string]int{}
	for i := range b.nodes {
		g := b.nodes[i].Node.Colocate
		if g == "" || b.nodes[i].Asked {
			continue
		}
		if first, ok := hosts[g]; ok {
			root[rootOf(i)] = rootOf(first)
		} else {
			hosts[g] = i
		}
	}
	all := make([]*cluster, len(b.nodes))
	for i := range b.nodes {
		if b.nodes[i].Asked {
			continue
		}
		r := rootOf(i)
		if all[r] == nil {
			all[r] = &cluster{}
		}
		all[i] = all[r]
		all[i].nodes = append(all[i].nodes, i)
	}
	for i := range b.wires {
		if w := &b.wires[i]; !w.tunnel && w.shared == nil {
			if movable := w.movableNodes(b); len(movable) > 0 {
				all[movable[0]].wires = append(all[movable[0]].wires, w)
			}
		}
	}
	return all
}

// likelyLinks sets c.needs and returns the physical links with enough components for c.
// First are the links that most bound nodes on the wires of c can use. Equally good links
// are in the order of the inventory.
func (r *retry) likelyLinks(c *cluster) []*inventory.Link {
	c.needs = map[classKey]int{}
	s := shape{}
	for _, i := range c.nodes {
		s.class = classKey{sliverType: r.nodes[i].SliverType, hardware: r.nodes[i].hardware, matching: r.nodes[i].matching, disks: r.nodes[i].disks}
		c.needs[s.class]++
	}
	s.nodes = len(c.nodes)
	boundNodes := map[*inventory.Link]int{} // the number of bound nodes that can use the link
	for _, w := range c.wires {
		for _, a := range w.maxAmounts() {
			s.most = max(s.most, a.out, a.in)
		}
		for _, e := range w.ends {
			n := &r.nodes[e.node]
			if !n.Asked {
				continue
			}
			r.work.add(len(n.Component.Interfaces))
			for i, p := range n.Component.Interfaces {
				if p.CarriesLinks() && !onLink(n.Component.Interfaces[:i], p.Link) {
					boundNodes[p.Link]++
				}
			}
		}
	}
	dependsOnShape := len(c.needs) == 1 && !c.isRestricted() // else other clusters of the shape may have other links
	links, known := r.fitting[s]
	if !known || !dependsOnShape {
		links = []*inventory.Link{}
		for _, l := range r.x.inv.Links {
			if r.scanned++; r.scanned > maxScans || !r.work.add(len(c.needs)+c.allowsWork()) {
				break
			}
			if s.most <= r.widestOf(l) && c.allows(l) && r.hasRoom(c, l, nil) {
				links = append(links, l)
			}
		}
		if dependsOnShape {
			r.fitting[s] = links
		}
	}
	if len(boundNodes) > 0 && r.scanned < maxScans {
		r.scanned += len(links)
		links = slices.Clone(links)
		slices.SortStableFunc(links, func(x, y *inventory.Link) int { return cmp.Compare(boundNodes[y], boundNodes[x]) })
	}
	return links
}

// isRestricted reports whether a wire of c allows only some physical links.
func (c *cluster) isRestricted() bool {
	return slices.ContainsFunc(c.wires, func(w *wire) bool { return w.only != nil })
}

func (c *cluster) allows(l *inventory.Link) bool {
	return !slices.ContainsFunc(c.wires, func(w *wire) bool { return !w.allows(l) })
}

// allowsWork is the work of allows.
func (c *cluster) allowsWork() (links int) {
	for _, w := range c.wires {
		links += len(w.only)
	}
	return links
}

// widestOf returns the largest capacity of an interface on l in kbit/s.
func (r *retry) widestOf(l *inventory.Link) int64 {
	if r.widest == nil {
		r.widest = make([]int64, len(r.x.inv.Links))
		for _, l := range r.x.inv.Links {
			for _, p := range l.Interfaces {
				if p.CarriesLinks() {
					r.widest[l.Index] = max(r.widest[l.Index], capacity(p))
				}
			}
		}
	}
	return r.widest[l.Index]
}

// traffic is the capacity that a node takes of the physical link that it must use: the total
// of its ends, and the most that one end takes in each direction.
type traffic struct{ total, most amount }

func (t traffic) add(o traffic) traffic {
	return traffic{t.total.add(o.total), amount{max(t.most.out, o.most.out), max(t.most.in, o.most.in)}}
}

// restrict sets the physical link that each node must use, and the largest capacity that the
// node can take of it.
func (b *binding) restrict(requiredLinks map[int]*inventory.Link) {
	if len(requiredLinks) == 0 {
		return
	}
	for i := range b.nodes {
		b.nodes[i].within = requiredLinks[i]
	}
	for i := range b.wires {
		w := &b.wires[i]
		if w.tunnel {
			continue
		}
		for j, a := range w.maxAmounts() {
			if n := &b.nodes[w.ends[j].node]; n.within != nil {
				n.traffic = n.traffic.add(traffic{a, a})
			}
		}
	}
}

// maxAmounts returns the capacity that each end takes if no two nodes share a component.
func (w *wire) maxAmounts() []amount {
	return w.amounts(func(x, y end) bool { return x.node != y.node })
}

// carries reports whether the interfaces of c on the physical link w.within have enough
// capacity for w in addition to the other nodes of the request on c.
func (b *binding) carries(c *inventory.Component, w want) bool {
	var left amount
	var out, in bool
	for _, p := range c.Interfaces {
		if p.CarriesLinks() && p.Link == w.within {
			l := b.remainingCapacity(p)
			left = left.add(l)
			out, in = out || w.most.out <= l.out, in || w.most.in <= l.in
		}
	}
	return out && in && b.claims[int32(c.Index)].traffic.add(w.total).within(left)
}
