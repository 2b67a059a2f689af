package binder

import (
	"slices"

	"patchbay/am"
	"patchbay/inventory"
)

// bindFree binds the nodes that name no component and share no host, in the order of their ranks
// and of the request. Each gets its first candidate with room. If a node finds none, others move
// to further candidates. So all nodes are bound if that is possible on exclusive components. If
// preferences take too much of shared components, they wait until all nodes are bound. Finally
// each node gets the best candidate that leaves a component for all later ones.
func (b *binding) bindFree() {
	var all []*node
	for rank := range 3 {
		for i := range b.nodes {
			if n := &b.nodes[i]; !n.done && n.rank() == rank {
				all = append(all, n)
			}
		}
	}
	p := placement{b, map[int32][]*node{}}
	failed, moved := p.place(all)
	wanted := map[*node]option{}
	if len(failed) > 0 && !b.work.isOver() && p.relax(all, wanted) {
		moved = true
		failed, _ = p.place(all)
	}
	for _, n := range failed {
		if !b.refuseIfForbidden(n) {
			b.refuseUnbound(n)
		}
	}
	if moved && len(failed) == 0 {
		b.work.limit = maxWork / 2 // the rest is for the links
		p.improve(all, wanted)
		b.work.limit = maxWork
	}
}

// rank orders nodes for bindFree: lower ranks have more requirements.
func (n *node) rank() int {
	switch {
	case n.hardware != "" || n.matching != nil:
		return 0
	case n.alone:
		return 1
	}
	return 2
}

// placement moves nodes between components.
type placement struct {
	*binding
	on map[int32][]*node // the nodes that may move, by component
}

// maxSteps limits the number of candidates that all moves of a request consider, and of nodes that
// they displace. It limits the time that hostile requests take. stepNodes nodes on one component are
// searched in the time of one step.
const (
	maxSteps  = 1_000_000
	stepNodes = 32
)

func (p *placement) put(n *node, i int32) {
	p.assign(n, i)
	p.on[i] = append(p.on[i], n)
}

func (p *placement) take(n *node) (i int32) {
	i = int32(n.Component.Index)
	p.unassign(n)
	p.on[i] = slices.DeleteFunc(p.on[i], func(o *node) bool { return o == n })
	return i
}

func (p *placement) fits(n *node, i int32) bool {
	return p.check(i, n.want(p.x.inv.Components[i])) == fits
}

// place puts each node on a candidate. It returns the nodes for which there is none, and whether
// nodes had to move.
func (p *placement) place(all []*node) (failed []*node, moved bool) {
	for _, n := range all {
		p.candidatesOf(n) // before nodes take them
	}
	for _, n := range all {
		if p.placeFree(n) {
			continue
		}
		if moved = true; !p.move(n, map[int32]bool{}) && !p.placeOther(n) {
			failed = append(failed, n)
		}
	}
	return failed, moved
}

// relax removes all nodes from their components, and leaves out the preferences of those that may
// use shared components. wanted receives the options with the preferences. If there are none,
// relax changes nothing and returns false.
func (p *placement) relax(all []*node, wanted map[*node]option) bool {
	for _, n := range all {
		if n.matching != nil && len(n.Node.Prefer) > 0 && len(p.baseOf(n.demand()).shared) > 0 {
			wanted[n] = n.option()
		}
	}
	if len(wanted) == 0 {
		return false
	}
	for _, n := range all {
		if n.Component != nil {
			p.take(n)
		}
		if _, isWanted := wanted[n]; isWanted {
			n.matching = p.requiredOnly(n)
		}
	}
	p.resetCursors()
	return true
}

// resetCursors makes all candidates be considered again. Call it when components may be free again.
func (p *placement) resetCursors() {
	for _, c := range p.candidates {
		c.run, c.next = 0, 0
	}
}

// placeFree puts n on its first candidate with room. It returns false if there is none.
func (p *placement) placeFree(n *node) bool {
	i, ok := p.candidatesOf(n).nextFitting(p.work, n.demand().cost(), func(i int32) bool { return p.fits(n, i) })
	if ok {
		p.put(n, i)
	}
	return ok
}

// move puts n on a candidate from which other nodes can move away. It considers no component in
// visited. If it fails, it changes nothing but visited.
func (p *placement) move(n *node, visited map[int32]bool) bool {
	if p.placeFree(n) {
		return true
	}
	for i := range p.candidatesOf(n).all() {
		if p.steps++; p.steps > maxSteps || p.work.isOver() {
			return false
		}
		if visited[i] {
			continue
		}
		visited[i] = true
		if p.displace(n, i, visited) {
			return true
		}
	}
	return false
}

// displace puts n on component i after another node has moved away from it.
func (p *placement) displace(n *node, i int32, visited map[int32]bool) bool {
	for _, o := range slices.Clone(p.on[i]) {
		if o.fixed {
			continue
		}
		if p.steps += 1 + len(p.on[i])/stepNodes; p.steps > maxSteps || p.work.isOver() {
			return false
		}
		p.take(o)
		if p.fits(n, i) {
			p.put(n, i)
			if p.move(o, visited) {
				return true
			}
			p.take(n)
		}
		p.put(o, i)
	}
	return false
}

// improve gives each node, in order, the best candidate that leaves a component for all others.
// wanted has the options of the nodes whose preferences were left out.
func (p *placement) improve(all []*node, wanted map[*node]option) {
	for _, n := range all {
		if !p.work.add(len(p.candidates)) { // of resetCursors
			return
		}
		at, was := p.take(n), n.option()
		if o, isWanted := wanted[n]; isWanted {
			n.use(o)
		}
		p.resetCursors()
		if n.fixed = true; !p.placeBest(n) {
			n.use(was)
			p.put(n, at)
		}
	}
}

// placeBest puts n on its best candidate that is free or that another node can leave.
func (p *placement) placeBest(n *node) bool {
	for i := range p.candidatesOf(n).all() {
		if p.steps++; p.steps > maxSteps || p.work.isOver() {
			return false
		}
		if p.fits(n, i) {
			p.put(n, i)
			return true
		}
		if p.displace(n, i, map[int32]bool{i: true}) {
			return true
		}
	}
	return false
}

// refuseIfForbidden refuses n and returns true if only the Permit prevents the binding of n.
func (b *binding) refuseIfForbidden(n *node) bool {
	d := n.demand()
	prevents, known := b.forbids[d]
	if !known {
		prevents = b.permitPrevents(n, 1, n.want, func(*inventory.Component) bool { return true })
		b.forbids[d] = prevents
	}
	if prevents {
		b.refuseForbidden(n)
	}
	return prevents
}

// permitPrevents reports whether only the Permit prevents the binding of n or its group, which has
// these needs: no component of its class is permitted, or one that is not permitted has room. suits
// limits the components of the class, and size is the number of nodes.
func (b *binding) permitPrevents(n *node, size int, needs func(*inventory.Component) want, suits func(*inventory.Component) bool) bool {
	if b.Permit.Components == nil || n.within != nil {
		return false
	}
	permitsAny, room := false, false
	for _, i := range b.class(n.class()).members {
		if !b.work.add(3 * size) {
			return false
		}
		c := b.x.inv.Components[i]
		permitsAny = permitsAny || b.Permit.allowsComponent(i)
		if !room && suits(c) && !slices.Contains(b.Avoid, c) {
			room = b.preference(i, needs(c)) >= 0 && b.check(i, needs(c)) == fits
		}
	}
	return !permitsAny || room
}

func (b *binding) refuseForbidden(n *node) {
	b.refuse(n, am.Refused, "no available %s is free: %s", n.SliverType.Name, b.Permit.NoComponent)
}
