package operate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

const (
	// maxHolders is how many of the slices on one node are listed.
	maxHolders = 100
	// maxStray is how many names are listed that are drained and no component has.
	maxStray = 1000
)

// load is what slivers take of a component.
type load struct {
	urn      urn.URN
	name     string // as it was called, and who makes its slivers
	provider string
	used     am.Amount
	slivers  int
	removing int
	closed   bool // to other slices, by a sliver that wants to be alone
	meant    bool // a sliver on it is asked for
	holders  map[string]*Holder
}

func (l *load) add(x *am.Sliver, now time.Time) {
	l.used = l.used.Add(x.Amount)
	l.slivers++
	l.closed = l.closed || x.Exclusive
	if !x.Live(now) {
		l.removing++
	}
	h := l.holders[x.Slice.Key()]
	if h == nil {
		h = &Holder{Slice: x.Slice}
		l.holders[x.Slice.Key()] = h
	}
	h.Slivers++
	h.Frozen = h.Frozen || x.Frozen
	h.Users = addUser(h.Users, x.Creator)
	if x.Expires.After(h.Expires) {
		h.Expires = x.Expires
	}
}

// Nodes lists the components in the order of the inventory, then missing components
// that have slivers, then drained names that no component has (it may have been
// renamed, and is in service again). Conditions on slices and users select nodes with a
// matching sliver. Errors: as of Slices.
func (d *Operations) Nodes(f Filter, row func(Node) error) error {
	var orphans map[[2]string]int
	if d.cfg.Orphans != nil {
		orphans = d.cfg.Orphans()
	}
	return list(d, f, row, func(w *where, v *store.View, p *page[Node]) error {
		loads, err := w.loads(v)
		if err != nil {
			return err
		}
		of := w.ofSlivers()
		asks := of.perSliver() || !of.slice.all()
		for _, r := range w.nodes(loads, v.Now()) {
			l := loads[r.Component.Key()]
			if asks && (l == nil || !l.meant) || !w.wantsNode(&r) {
				continue
			}
			r.Orphans = orphans[[2]string{r.Provider, r.Name}]
			if !p.add(r) {
				break
			}
		}
		return nil
	})
}

// ofSlivers returns the part of a filter for nodes that concerns their slivers.
func (w *where) ofSlivers() *where {
	of := *w
	of.state, of.Since, of.Until = nil, time.Time{}, time.Time{}
	of.component, of.provider = nil, nil
	return &of
}

// loads returns what slivers take, by component.
func (w *where) loads(v *store.View) (map[string]*load, error) {
	loads, of := map[string]*load{}, w.ofSlivers()
	err := v.Slivers(func(x am.Sliver) bool {
		on := x.Component
		if c, ok := w.inv.Home(&x); ok {
			on = c.URN // it may have got another since
		}
		l := loads[on.Key()]
		if l == nil {
			l = &load{urn: on, name: cmp.Or(x.ComponentName, x.Component.Name), provider: x.Provider, holders: map[string]*Holder{}}
			loads[on.Key()] = l
		}
		l.add(&x, v.Now())
		l.meant = l.meant || of.matchesSliver(&x, v.Now())
		return true
	})
	return loads, err
}

// nodes returns the components of the inventory, the missing ones with slivers, and the
// drained names that no component has.
func (w *where) nodes(loads map[string]*load, now time.Time) (all []Node) {
	known, names := map[string]bool{}, map[string]bool{}
	add := func(r Node, c *inventory.Component, l *load) {
		known[r.Component.Key()], names[r.Name] = true, true
		r.carry(l)
		if d := w.plan.Drain(r.Name); d != nil {
			r.Drained, r.DrainedText, r.DrainedBy, r.DrainedSince = "command", d.Text, d.By, d.Since
			if d.Orphaned {
				r.Drained = "orphans"
			}
		}
		if m := w.plan.On(r.Name, now); m != nil {
			r.MaintenanceUntil, r.MaintenanceText = m.Until, m.Text
		}
		r.State = "missing"
		if c != nil {
			if c.Drained {
				r.Drained = "inventory"
			}
			r.State = stateOf(&r, c, l)
		}
		all = append(all, r)
	}
	for _, c := range w.inv.Components {
		add(Node{Component: c.URN, Name: c.Name, Provider: c.Provider, Exclusive: c.Exclusive, Capacity: Amount(c.Capacity)}, c, loads[c.URN.Key()])
	}
	gone := slices.SortedFunc(maps.Values(loads), func(a, b *load) int { return cmp.Compare(a.urn.String(), b.urn.String()) })
	for _, l := range gone {
		if !known[l.urn.Key()] {
			add(Node{Component: l.urn, Name: l.name, Provider: l.provider}, nil, l)
		}
	}
	have := func(name string) bool { _, ok := w.inv.ComponentNamed(name); return ok || names[name] }
	for _, name := range w.plan.DrainedWithout(have, maxStray) {
		add(Node{Name: name}, nil, nil)
	}
	return all
}

// wantsNode reports whether a node matches the conditions on nodes.
func (w *where) wantsNode(r *Node) bool {
	return (w.state.all() || w.state.name(r.State)) &&
		(w.component.all() || w.component.urn(r.Component) || w.component.name(r.Name)) &&
		(w.provider.all() || w.provider.name(r.Provider))
}

// carry sets what slivers take of the node.
func (r *Node) carry(l *load) {
	if l == nil {
		return
	}
	r.Used, r.Slivers, r.Removing = Amount(l.used), l.slivers, l.removing
	for _, h := range l.holders {
		r.Holders = append(r.Holders, *h)
	}
	slices.SortFunc(r.Holders, func(a, b Holder) int { return cmp.Compare(a.Slice.String(), b.Slice.String()) })
	if r.More = max(0, len(r.Holders)-maxHolders); r.More > 0 {
		r.Holders = r.Holders[:maxHolders]
	}
}

// NodeStates are the states of a node.
var NodeStates = []string{"missing", "drained", "maintenance", "cleaning", "held", "full", "used", "free"}

func stateOf(r *Node, c *inventory.Component, l *load) string {
	switch {
	case r.Drained != "":
		return "drained"
	case !r.MaintenanceUntil.IsZero():
		return "maintenance"
	case l == nil:
		return "free"
	case l.removing == l.slivers:
		return "cleaning"
	case c.Exclusive || l.closed:
		return "held"
	}
	for _, t := range c.SliverTypes {
		if am.Fits(c.Capacity, l.used, t.Needs, 1) > 0 {
			return "used"
		}
	}
	return "full"
}
