package binder

import (
	"slices"

	"patchbay/am"
	"patchbay/inventory"
)

// search identifies a pass through the components of a class. Within a request, free
// capacity only shrinks: a component that did not fit will not fit later. So the next pass
// of the same search continues where the last pass ended.
type search struct {
	class *class
	w     want
	kind  int
}

// atEnd is the cursor of a search that has tried everything.
const atEnd = 1 << 30

const (
	ownHosts   = iota // shared, and used by no other slice
	openHosts         // shared, in use, not closed
	emptyHosts        // shared, not in use
	loneNodes         // exclusive
)

var (
	// The kinds in the order of the search, by need: a node alone on its component, an
	// exclusive="true" node that may share, any other node, a group, and a group alone on
	// its component.
	aloneOrder    = []int{loneNodes, ownHosts, emptyHosts}
	aloneOrShared = []int{loneNodes, ownHosts, openHosts, emptyHosts}
	anyOrder      = []int{ownHosts, openHosts, emptyHosts, loneNodes}
	groupOrder    = []int{ownHosts, openHosts, emptyHosts}
	aloneTogether = []int{ownHosts, emptyHosts}
)

func (n *node) class() classKey { return classKey{n.SliverType, n.hardware, n.within} }

// pick returns -1 if it refuses the node.
func (b *binding) pick(n *node) int32 {
	c := b.x.classes[n.class()]
	var suits func(*inventory.Component) bool
	if len(b.avoid) > 0 {
		suits = func(c *inventory.Component) bool { return !slices.Contains(b.avoid, c) }
	}
	if i := b.find(c, n.want(), 1, suits); i >= 0 {
		return i
	}
	if !b.forbidden(n, c, n.want(), 1, suits) {
		b.refuseUnbound(n, c)
	}
	return -1
}

// forbidden refuses n and returns true if only the Permit prevents the binding of n or its
// group. This is so if no component of class c is permitted, or if a component that is not
// permitted has room.
func (b *binding) forbidden(n *node, c *class, w want, minimum int32, suits func(*inventory.Component) bool) bool {
	if b.permit.Components == nil || n.within != nil {
		return false
	}
	s := search{class: c, w: w}
	barred, known := b.barred[s]
	if !known || suits != nil {
		barred = !b.permit.permitsAny(c) || b.findAny(c, w, minimum, suits) >= 0
		if b.barred == nil {
			b.barred = map[search]bool{}
		}
		b.barred[s] = barred
	}
	if barred {
		b.refuse(n, am.Refused, "no available %s is free: %s", n.SliverType.Name, b.permit.NoComponent)
	}
	return barred
}

// findAny is find for all components, permitted or not. It moves no cursor.
func (b *binding) findAny(c *class, w want, minimum int32, suits func(*inventory.Component) bool) int32 {
	if suits == nil {
		suits = func(*inventory.Component) bool { return true }
	}
	permit := b.permit
	defer func() { b.permit = permit }()
	b.permit.Components = nil
	return b.find(c, w, minimum, suits)
}

func (b *binding) bindGroup(name string, members []*node) {
	w := want{within: members[0].within}
	count := map[*inventory.SliverType]int32{}
	for _, n := range members {
		w.amount = w.amount.Add(n.Amount)
		w.nodes++
		w.alone = w.alone || n.alone
		w.traffic = w.traffic.add(n.traffic)
		count[n.SliverType]++
	}
	// Search where the most numerous type has room for all of its nodes.
	first := members[0]
	for _, n := range members {
		if count[n.SliverType] > count[first.SliverType] {
			first = n
		}
	}
	alike := len(b.avoid) == 0
	for _, n := range members {
		alike = alike && n.SliverType == first.SliverType && n.hardware == first.hardware
	}
	suits := func(c *inventory.Component) bool {
		if slices.Contains(b.avoid, c) {
			return false
		}
		for _, n := range members {
			if !c.Offers(n.SliverType) || n.hardware != "" && !slices.Contains(c.HardwareTypes, n.hardware) {
				return false
			}
		}
		return true
	}
	if alike {
		suits = nil
	}
	c := b.x.classes[first.class()]
	i := b.find(c, w, count[first.SliverType], suits)
	for _, n := range members {
		switch {
		case i >= 0:
			b.assign(n, i)
		case !b.forbidden(n, c, w, count[first.SliverType], suits):
			b.refuseGroup(n, name, len(members), c)
		}
	}
}

// find returns the first component of class c that has room for w; -1 if there is none. The
// needs w determine the order of the kinds. find skips components on which fewer than minimum
// slivers of the class's type fit, and components for which suits returns false. A nil suits
// accepts all components.
func (b *binding) find(c *class, w want, minimum int32, suits func(*inventory.Component) bool) int32 {
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
	for _, kind := range order {
		s := search{c, w, kind}
		from := 0
		if suits == nil {
			from = b.cursors[s]
		}
		for {
			at, i := b.nextComponent(c, kind, from, minimum)
			if at >= 0 && !b.permit.component(i) {
				from = b.permit.nextAllowed(c, kind, at, i)
				continue
			}
			if at >= 0 && (b.check(i, w) != fits || suits != nil && !suits(b.x.inv.Components[i])) {
				from = at + 1
				continue
			}
			if at < 0 {
				at = atEnd
			}
			if suits == nil {
				b.cursors[s] = at
			}
			if at != atEnd {
				return i
			}
			break
		}
	}
	return -1
}

// nextComponent returns the first place of a kind, from start on, at which at least minimum
// slivers fit, and the component there. A negative place means none. For the kind ownHosts,
// the minimum is not checked.
func (b *binding) nextComponent(c *class, kind, start int, minimum int32) (int, int32) {
	var t *tree
	switch kind {
	case openHosts:
		t = &c.open
	case emptyHosts:
		t = &c.empty
	case loneNodes:
		t = &c.lone
	default:
		own := b.ownComponents()
		for ; start < len(own); start++ {
			if c.has(own[start]) {
				return start, own[start]
			}
		}
		return -1, -1
	}
	at := t.next(start, minimum)
	if at < 0 {
		return -1, -1
	}
	return at, c.members[at]
}

// ownComponents returns the shared components that only this slice uses, in the order
// of the inventory.
func (b *binding) ownComponents() []int32 {
	if b.own == nil {
		b.own = []int32{}
		for i, m := range b.mine {
			c, u := b.x.inv.Components[i], &b.x.usage[i]
			if !c.Exclusive && m.slivers == u.slivers {
				b.own = append(b.own, i)
			}
		}
		slices.Sort(b.own)
	}
	return b.own
}

// grantsAlone reports whether a slice may have a shared component alone.
func (b *binding) grantsAlone() bool { return b.x.inv.ExclusiveOnShared == inventory.Grant }

// sharesAll reports whether a node that requests exclusive use of a shared component shares it
// instead.
func (b *binding) sharesAll() bool { return b.x.inv.ExclusiveOnShared == inventory.Share }
