package binder

import (
	"cmp"
	"iter"
	"slices"

	"patchbay/inventory"
)

// demand is equal for nodes that can use the same components in the same order.
type demand struct {
	sliverType *inventory.SliverType
	hardware   string
	matching   *matching
	disks      int64
	alone      bool
	within     *inventory.Link
	traffic    traffic
}

func (n *node) demand() demand {
	return demand{n.SliverType, n.hardware, n.matching, n.disks, n.alone, n.within, n.traffic}
}

// cost is the work of one check of a component.
func (d demand) cost() int {
	if d.within != nil {
		return 3 // with the component's interfaces
	}
	return 1
}

func (d demand) class() classKey {
	return classKey{d.sliverType, d.hardware, d.matching, d.disks, d.within}
}

func (n *node) class() classKey { return n.demand().class() }

// lists are the components on which a node with one demand fits before the nodes take them, best
// first. Components of a run are equally good and in the order of the inventory.
type lists struct{ runs [][]int32 }

// candidates are the lists of a demand. Traffic is not considered in them, so that demands that
// differ only in their traffic share the lists.
type candidates struct {
	*lists
	// run and next are the first place that may still be free. The components before it have no
	// room for the demand left.
	run, next int
}

// first returns the first candidate for which suits returns true, and remembers its place. cost is
// the work of suits.
func (c *candidates) first(w *work, cost int, suits func(int32) bool) (i int32, ok bool) {
	for ; c.run < len(c.runs); c.run, c.next = c.run+1, 0 {
		for list := c.runs[c.run]; c.next < len(list); c.next++ {
			if !w.add(cost) {
				return 0, false
			}
			if suits(list[c.next]) {
				return list[c.next], true
			}
		}
	}
	return 0, false
}

func (c *lists) all() iter.Seq[int32] {
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

// baseKey is a demand without its constraints and traffic.
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

// baseOf returns the base of d without its constraints and traffic.
func (b *binding) baseOf(d demand) *base {
	m := d.matching
	d.matching, d.traffic = nil, traffic{}
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
	if !b.work.add(len(components) * d.cost()) {
		return x
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
	c := &candidates{lists: b.listsOf(n, d)}
	b.candidates[d] = c
	return c
}

func (b *binding) listsOf(n *node, d demand) *lists {
	d.traffic = traffic{}
	if l := b.lists[d]; l != nil {
		return l
	}
	base := b.baseOf(d)
	if !b.work.add(len(base.shared) * 2 * d.cost()) {
		return &lists{}
	}
	needs := func(c *inventory.Component) want {
		w := n.want(c)
		w.traffic = traffic{}
		return w
	}
	var all []run
	for _, k := range base.exclusive {
		r := run{members: k.members, use: b.preference(k.members[0], needs(b.x.inv.Components[k.members[0]]))}
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
			w, wanted = needs(c), k.kind // equal for all components of the kind
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
	l := &lists{b.sortRuns(all)}
	b.lists[d] = l
	return l
}

// run is a list of components that are equally good. A negative use excludes them.
type run struct {
	score, use, rank int
	excluded         bool
	members          []int32
}

func (r *run) grade(g *grade) { r.score, r.rank, r.excluded = g.grant.Score, g.rank, !g.ok }

// sortRuns returns the members of the runs, best first. Equally good runs become one.
func (b *binding) sortRuns(all []run) (lists [][]int32) {
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
			b.work.add(len(list))
			slices.Sort(list)
		}
		lists = append(lists, list)
		i = j
	}
	return lists
}
