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

// nextFitting returns the first candidate, from the place of the last call on, for which fits returns true.
// It never returns to candidates that it has passed, since what nodes take only grows; if components become
// free again, call resetCursors. cost is the work of fits.
func (c *candidates) nextFitting(w *work, cost int, fits func(int32) bool) (i int32, ok bool) {
	for ; c.run < len(c.runs); c.run, c.next = c.run+1, 0 {
		for list := c.runs[c.run]; c.next < len(list); c.next++ {
			if !w.add(cost) {
				return 0, false
			}
			if fits(list[c.next]) {
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

// The uses of components.
const (
	ownHosts   = iota // shared, and used by no other slice
	openHosts         // shared, in use, not closed
	emptyHosts        // shared, not in use
	loneNodes         // exclusive
)

// preference returns the place of the use of component i in the order of preference of w. It is
// negative if w cannot be on a component with that use.
func (b *binding) preference(i int32, w want) int {
	u, use := &b.x.usage[i], emptyHosts
	switch {
	case b.x.inv.Components[i].Exclusive:
		use = loneNodes
	case u.slivers > 0 && u.others == 0:
		use = ownHosts
	case u.slivers > 0:
		use = openHosts
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
	return slices.Index(order, use)
}

var (
	// The uses in the order of preference, by need: a node alone on its component, an
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
		if !k.has(c) || slices.Contains(b.Avoid, c) || !b.Permit.allowsComponent(i) {
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

// candidatesOf returns the candidates for n: those with the highest score first, then by the use
// of the component, then those that exceed the constraints least, then by the order of the inventory.
func (b *binding) candidatesOf(n *node) *candidates {
	d := n.demand()
	if c := b.candidates[d]; c != nil {
		return c
	}
	c := &candidates{lists: b.listsOf(n, d)}
	b.candidates[d] = c
	return c
}

// listsOf computes the lists for n once for each demand, whatever its traffic. Exclusive components of one
// kind are equally good. Shared ones are checked one by one, because their use differs.
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
		all = append(all, n.newRun(k.kind, b.preference(k.members[0], needs(b.x.inv.Components[k.members[0]])), k.members))
	}
	type kindAndUse struct {
		kind int32
		use  int
	}
	indexes := map[kindAndUse]int{} // of the runs of shared components in all
	var w want                      // of n on components of wKind
	wKind := int32(-1)
	for _, i := range base.shared {
		kind := int32(0)
		if n.matching != nil {
			kind = n.matching.kinds[i]
		}
		if c := b.x.inv.Components[i]; kind != wKind {
			if !n.matching.admits(c) {
				continue
			}
			w, wKind = needs(c), kind
		}
		if b.check(i, w) != fits {
			continue
		}
		k := kindAndUse{kind, b.preference(i, w)}
		at, known := indexes[k]
		if !known {
			at = len(all)
			indexes[k] = at
			all = append(all, n.newRun(k.kind, k.use, nil))
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

// newRun returns a run for n of components of one kind with one use.
func (n *node) newRun(kind int32, use int, members []int32) run {
	r := run{use: use, members: members}
	if n.matching != nil {
		g := n.matching.grades[kind]
		r.score, r.rank, r.excluded = g.grant.Score, g.rank, !g.ok
	}
	return r
}

// sortRuns returns the members of the runs, best first. Equally good runs become one. For an interval that begins later, the
// components of a run come in the order in which those who hold them now end.
func (b *binding) sortRuns(all []run) (lists [][]int32) {
	all = slices.DeleteFunc(all, func(r run) bool { return r.excluded || r.use < 0 })
	compare := func(x, y run) int { return cmp.Or(y.score-x.score, x.use-y.use, x.rank-y.rank) }
	slices.SortStableFunc(all, compare)
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && compare(all[j], all[i]) == 0 {
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
		if at := b.x.released; at != nil && b.work.add(len(list)) {
			list = slices.Clone(list)
			slices.SortStableFunc(list, func(x, y int32) int { return cmp.Compare(at[x], at[y]) })
		}
		lists = append(lists, list)
		i = j
	}
	return lists
}
