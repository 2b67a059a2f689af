package binder

import (
	"cmp"
	"iter"
	"slices"

	"patchbay/am"
	"patchbay/inventory"
)

// demand is equal for nodes that can use the same components in the same order.
type demand struct {
	sliverType *inventory.SliverType
	hardware   string
	matching   *matching
	alone      bool
	within     *inventory.Link
	traffic    traffic
}

func (n *node) demand() demand {
	return demand{n.SliverType, n.hardware, n.matching, n.alone, n.within, n.traffic}
}

func (d demand) class() classKey { return classKey{d.sliverType, d.hardware, d.matching, d.within} }

func (n *node) class() classKey { return n.demand().class() }

// candidates are the components on which a node with one demand fits before the nodes take them, best
// first. Components of a run are equally good and in the order of the inventory.
type candidates struct {
	runs [][]int32
	// run and next are the first place that may still be free. The components before it have no
	// room for the demand left.
	run, next int
}

// first returns the first candidate for which suits returns true, and remembers its place.
func (c *candidates) first(suits func(int32) bool) (i int32, ok bool) {
	for ; c.run < len(c.runs); c.run, c.next = c.run+1, 0 {
		for list := c.runs[c.run]; c.next < len(list); c.next++ {
			if suits(list[c.next]) {
				return list[c.next], true
			}
		}
	}
	return 0, false
}

func (c *candidates) all() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, run := range c.runs {
			for _, i := range run {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// base has the components on which a node with one demand fits, apart from its constraints.
type base struct {
	exclusive []kindMembers
	shared    []int32 // those that may have room
}

// baseKey is a demand without its constraints.
type baseKey struct {
	demand
	constrained bool
}

// kindMembers are exclusive components of one kind, in the order of the inventory. For nodes without
// constraints all are of kind 0.
type kindMembers struct {
	kind    int32
	members []int32
}

// The kinds of components, in the order of preference.
const (
	ownHosts   = iota // shared, and used by no other slice
	openHosts         // shared, in use, not closed
	emptyHosts        // shared, not in use
	loneNodes         // exclusive
)

// preference returns the place of the kind of component i in the order of preference of w. It is
// negative if the kind does not suit.
func (b *binding) preference(i int32, w want) int {
	u, kind := &b.x.usage[i], emptyHosts
	switch {
	case b.x.inv.Components[i].Exclusive:
		kind = loneNodes
	case u.slivers > 0 && u.others == 0:
		kind = ownHosts
	case u.slivers > 0:
		kind = openHosts
	}
	order := anyOrder
	switch {
	case w.alone && w.nodes > 1 && !b.sharesAll():
		order = aloneTogether
	case w.nodes > 1:
		order = groupOrder
	case w.alone && b.sharesAll():
		order = aloneOrShared
	case w.alone:
		order = aloneOrder
	}
	return slices.Index(order, kind)
}

var (
	// The kinds in the order of preference, by need: a node alone on its component, an
	// exclusive="true" node that may share, any other node, a group, and a group alone on
	// its component.
	aloneOrder    = []int{loneNodes, ownHosts, emptyHosts}
	aloneOrShared = []int{loneNodes, ownHosts, openHosts, emptyHosts}
	anyOrder      = []int{ownHosts, openHosts, emptyHosts, loneNodes}
	groupOrder    = []int{ownHosts, openHosts, emptyHosts}
	aloneTogether = []int{ownHosts, emptyHosts}
)

// baseOf returns the base of d without its constraints.
func (b *binding) baseOf(d demand) *base {
	m := d.matching
	d.matching = nil
	key := baseKey{d, m != nil}
	if x := b.bases[key]; x != nil {
		return x
	}
	members := make([][]int32, 1)
	if m != nil {
		members = make([][]int32, len(m.grades))
	}
	x := &base{}
	k, w := d.class(), want{d.sliverType.Needs, 1, d.alone, d.within, d.traffic}
	components := b.x.inv.Components
	if d.within != nil {
		components = componentsOn(d.within)
	}
	for _, c := range components {
		i := int32(c.Index)
		if !k.has(c) || slices.Contains(b.Avoid, c) || !b.Permit.component(i) {
			continue
		}
		switch {
		case !c.Exclusive:
			if v := b.check(i, w); v == fits || v == full && m != nil { // the constraints may allow a smaller sliver
				x.shared = append(x.shared, i)
			}
		case b.check(i, w) != fits:
		case m == nil:
			members[0] = append(members[0], i)
		default:
			members[m.kinds[i]] = append(members[m.kinds[i]], i)
		}
	}
	for kind, list := range members {
		if len(list) > 0 {
			x.exclusive = append(x.exclusive, kindMembers{int32(kind), list})
		}
	}
	b.bases[key] = x
	return x
}

// componentsOn returns the components with an interface on l, in the order of the inventory.
func componentsOn(l *inventory.Link) (all []*inventory.Component) {
	for _, p := range l.Interfaces {
		if len(all) == 0 || all[len(all)-1] != p.Component {
			all = append(all, p.Component)
		}
	}
	return all
}

// candidatesOf returns the candidates for n: those with the highest score first, then by the kind
// of use, then those of which least is left over, then by the order of the inventory.
func (b *binding) candidatesOf(n *node) *candidates {
	d := n.demand()
	if c := b.candidates[d]; c != nil {
		return c
	}
	base := b.baseOf(d)
	var all []run
	for _, k := range base.exclusive {
		r := run{members: k.members, use: b.preference(k.members[0], n.want(b.x.inv.Components[k.members[0]]))}
		if n.matching != nil {
			r.grade(n.matching.grades[k.kind])
		}
		all = append(all, r)
	}
	type alike struct {
		kind int32
		use  int
	}
	var last alike
	var w want
	shared := map[alike]int{} // the place in all
	at, wanted := -1, int32(-1)
	for _, i := range base.shared {
		k := alike{use: -1}
		if n.matching != nil {
			k.kind = n.matching.kinds[i]
		}
		if c := b.x.inv.Components[i]; k.kind != wanted {
			if !n.matching.admits(c) {
				continue
			}
			w, wanted = n.want(c), k.kind // equal for all components of the kind
		}
		if b.check(i, w) != fits {
			continue
		}
		if k.use = b.preference(i, w); at < 0 || k != last {
			known := false
			if at, known = shared[k]; !known {
				at = len(all)
				shared[k] = at
				r := run{use: k.use}
				if n.matching != nil {
					r.grade(n.matching.grades[k.kind])
				}
				all = append(all, r)
			}
			last = k
		}
		all[at].members = append(all[at].members, i)
	}
	c := &candidates{runs: sortRuns(all)}
	b.candidates[d] = c
	return c
}

// run is a list of components that are equally good. A negative use excludes them.
type run struct {
	score, use, rank int
	excluded         bool
	members          []int32
}

func (r *run) grade(g *grade) { r.score, r.rank, r.excluded = g.grant.Score, g.rank, !g.ok }

// sortRuns returns the members of the runs, best first. Equally good runs become one.
func sortRuns(all []run) (lists [][]int32) {
	all = slices.DeleteFunc(all, func(r run) bool { return r.excluded || r.use < 0 })
	slices.SortStableFunc(all, func(x, y run) int { return cmp.Or(y.score-x.score, x.use-y.use, x.rank-y.rank) })
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].score == all[i].score && all[j].use == all[i].use && all[j].rank == all[i].rank {
			j++
		}
		list := all[i].members
		if j > i+1 {
			list = nil
			for _, r := range all[i:j] {
				list = append(list, r.members...)
			}
			slices.Sort(list)
		}
		lists = append(lists, list)
		i = j
	}
	return lists
}

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
	wanted := map[*node]*matching{}
	if len(failed) > 0 && p.relax(all, wanted) {
		moved = true
		failed, _ = p.place(all)
	}
	for _, n := range failed {
		if !b.forbidden(n) {
			b.refuseUnbound(n)
		}
	}
	if moved && len(failed) == 0 {
		p.improve(all, wanted)
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
		if moved = true; !p.move(n, map[int32]bool{}) {
			failed = append(failed, n)
		}
	}
	return failed, moved
}

// relax removes all nodes from their components, and leaves out the preferences of those that may
// use shared components. wanted receives the matchings with the preferences. If there are none,
// relax changes nothing and returns false.
func (p *placement) relax(all []*node, wanted map[*node]*matching) bool {
	for _, n := range all {
		if n.matching != nil && len(n.Node.Prefer) > 0 && len(p.baseOf(n.demand()).shared) > 0 {
			wanted[n] = n.matching
		}
	}
	if len(wanted) == 0 {
		return false
	}
	for _, n := range all {
		if n.Component != nil {
			p.take(n)
		}
		if wanted[n] != nil {
			n.matching = p.requiredOnly(n)
		}
	}
	p.resetCursors()
	return true
}

// resetCursors must be called when components may be free again.
func (p *placement) resetCursors() {
	for _, c := range p.candidates {
		c.run, c.next = 0, 0
	}
}

// placeFree puts n on its first candidate with room. It returns false if there is none.
func (p *placement) placeFree(n *node) bool {
	i, ok := p.candidatesOf(n).first(func(i int32) bool { return p.fits(n, i) })
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
		if p.steps++; p.steps > maxSteps {
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
		if p.steps += 1 + len(p.on[i])/stepNodes; p.steps > maxSteps {
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
// wanted has the matchings of the nodes whose preferences were left out.
func (p *placement) improve(all []*node, wanted map[*node]*matching) {
	for _, n := range all {
		at, was := p.take(n), n.matching
		if m := wanted[n]; m != nil {
			n.matching = m
		}
		p.resetCursors()
		if n.fixed = true; !p.placeBest(n) {
			n.matching = was
			p.put(n, at)
		}
	}
}

// placeBest puts n on its best candidate that is free or that another node can leave.
func (p *placement) placeBest(n *node) bool {
	for i := range p.candidatesOf(n).all() {
		if p.steps++; p.steps > maxSteps {
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

// forbidden refuses n and returns true if only the Permit prevents the binding of n: no component
// of its class is permitted, or one that is not permitted has room.
func (b *binding) forbidden(n *node) bool {
	w := func(c *inventory.Component) want { return n.want(c) }
	return b.onlyPermitPrevents(n, n.class(), w, func(*inventory.Component) bool { return true })
}

// onlyPermitPrevents does the work of forbidden for n or its group with the needs w. suits limits
// the components of the class k.
func (b *binding) onlyPermitPrevents(n *node, k classKey, w func(*inventory.Component) want, suits func(*inventory.Component) bool) bool {
	if b.Permit.Components == nil || n.within != nil {
		return false
	}
	permitsAny, room := false, false
	for _, i := range b.class(k).members {
		c := b.x.inv.Components[i]
		permitsAny = permitsAny || b.Permit.component(i)
		if !room && suits(c) && !slices.Contains(b.Avoid, c) {
			room = b.preference(i, w(c)) >= 0 && b.check(i, w(c)) == fits
		}
	}
	if !permitsAny || room {
		b.refuse(n, am.Refused, "no available %s is free: %s", n.SliverType.Name, b.Permit.NoComponent)
		return true
	}
	return false
}

// groupKey is equal for groups of equal nodes.
type groupKey struct {
	demand
	size int
}

// colocated are nodes of a request that share one host.
type colocated []*node

// suits reports whether c is of the class of each node.
func (g colocated) suits(c *inventory.Component) bool {
	return !slices.ContainsFunc(g, func(n *node) bool { return !n.class().has(c) })
}

// want returns what the nodes need together on c.
func (g colocated) want(c *inventory.Component) want {
	w := want{within: g[0].within}
	for _, n := range g {
		w.amount = w.amount.Add(n.amountOn(c))
		w.nodes++
		w.alone = w.alone || n.alone
		w.traffic = w.traffic.add(n.traffic)
	}
	return w
}

func (b *binding) bindGroup(name string, g colocated) {
	i, ok := b.hostFor(g)
	if !ok && b.leaveOutPreferences(g) {
		i, ok = b.hostFor(g)
	}
	for _, n := range g {
		switch {
		case ok:
			b.assign(n, i)
		case !b.onlyPermitPrevents(n, g[0].class(), g.want, g.suits):
			b.refuseGroup(n, name, len(g))
		}
	}
}

// leaveOutPreferences returns false if the nodes have none.
func (b *binding) leaveOutPreferences(g colocated) bool {
	if !slices.ContainsFunc(g, func(n *node) bool { return len(n.Node.Prefer) > 0 }) {
		return false
	}
	for _, n := range g {
		n.matching = b.requiredOnly(n)
	}
	return true
}

// hostFor returns the best shared component on which the nodes fit together.
func (b *binding) hostFor(g colocated) (i int32, ok bool) {
	k := groupKey{g[0].demand(), len(g)}
	alike := !slices.ContainsFunc(g, func(n *node) bool { return n.demand() != k.demand })
	hosts := b.groups[k]
	if hosts == nil || !alike {
		hosts = b.hostsOf(g)
		if alike {
			b.groups[k] = hosts
		}
	}
	return hosts.first(func(i int32) bool { return b.check(i, g.want(b.x.inv.Components[i])) == fits })
}

// hostsOf returns the shared components on which the nodes fit together.
func (b *binding) hostsOf(g colocated) *candidates {
	shared := b.baseOf(g[0].demand()).shared
	var all []run
	for j, i := range shared {
		c := b.x.inv.Components[i]
		if !g.suits(c) || b.check(i, g.want(c)) != fits {
			continue
		}
		r := run{members: shared[j : j+1], use: b.preference(i, g.want(c))}
		for _, n := range g {
			if n.matching != nil {
				r.score += n.matching.of(c).grant.Score
			}
		}
		all = append(all, r)
	}
	return &candidates{runs: sortRuns(all)}
}
