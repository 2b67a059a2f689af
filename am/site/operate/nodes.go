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
	// maxHolders limits the listed slices on one node.
	maxHolders = 100
	// maxDrainedNames limits the listed drained names that no component has.
	maxDrainedNames = 1000
)

type componentLoad struct {
	urn       urn.URN
	name      string // the component's last known name
	provider  string
	used      am.Amount
	slivers   int
	removing  int
	waiting   int  // slivers that have not begun; they are not in the other counts
	exclusive bool // a sliver uses the component exclusively
	matched   bool // a sliver on it matches the filter
	holders   map[string]*Holder
}

func (l *componentLoad) addSliver(x *am.Sliver, now time.Time) {
	if x.Waits() {
		l.waiting++
	} else {
		l.used = l.used.Add(x.Amount)
		l.slivers++
		l.exclusive = l.exclusive || x.Exclusive
		if !x.Live(now) {
			l.removing++
		}
	}
	h := l.holders[x.Slice.Key()]
	if h == nil {
		h = &Holder{Slice: x.Slice}
		l.holders[x.Slice.Key()] = h
	}
	h.Slivers++
	h.Frozen = h.Frozen || x.Frozen
	h.Users = addUser(h.Users, x.Creator)
	if x.Waits() && (h.Begins.IsZero() || x.Begins.Before(h.Begins)) {
		h.Begins = x.Begins
	}
	if end := x.ReleaseTime(); end.After(h.Expires) {
		h.Expires = end
	}
}

// Nodes lists the components in the order of the inventory, then missing components that have
// slivers, then drained names that no component has. Such a name may be the former name of a
// component that is no longer drained. Conditions on slices and users select nodes with a
// matching sliver. Nodes fails like Slices.
func (d *Operations) Nodes(f Filter, row func(Node) error) error {
	var orphans map[[2]string]int
	if d.cfg.Orphans != nil {
		orphans = d.cfg.Orphans()
	}
	return queryRows(d, f, row, func(w *parsedFilter, v *store.View, p *page[Node]) error {
		loads, err := w.loads(v)
		if err != nil {
			return err
		}
		cond := w.sliverFilter()
		hasCondition := cond.selectsSlivers() || !cond.slice.matchAll()
		for _, r := range w.nodes(loads, v.Now()) {
			l := loads[r.Component.Key()]
			if hasCondition && (l == nil || !l.matched) || !w.wantsNode(&r) {
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

// sliverFilter returns the part of a filter for nodes that applies to the slivers of a node.
func (w *parsedFilter) sliverFilter() *parsedFilter {
	f := *w
	f.state, f.Since, f.Until = nil, time.Time{}, time.Time{}
	f.component, f.provider = nil, nil
	return &f
}

// loads returns the loads by the keys of the components' URNs.
func (w *parsedFilter) loads(v *store.View) (map[string]*componentLoad, error) {
	loads, cond := map[string]*componentLoad{}, w.sliverFilter()
	err := v.Slivers(func(x am.Sliver) bool {
		on := x.Component
		if c, ok := w.inv.ComponentOf(&x); ok {
			on = c.URN // the component may have got a new URN
		}
		l := loads[on.Key()]
		if l == nil {
			l = &componentLoad{urn: on, name: cmp.Or(x.ComponentName, x.Component.Name), provider: x.Provider, holders: map[string]*Holder{}}
			loads[on.Key()] = l
		}
		l.addSliver(&x, v.Now())
		l.matched = l.matched || cond.matchesSliver(&x, v.Now())
		return true
	})
	return loads, err
}

// nodes returns a row for each component and drained name, in the order that Nodes describes.
func (w *parsedFilter) nodes(loads map[string]*componentLoad, now time.Time) (all []Node) {
	known, names := map[string]bool{}, map[string]bool{} // the URNs and names of the rows
	add := func(r Node, c *inventory.Component, l *componentLoad) {
		known[r.Component.Key()], names[r.Name] = true, true
		r.setLoad(l)
		if d := w.plan.Drain(r.Name); d != nil {
			r.Drained, r.DrainedText, r.DrainedBy, r.DrainedSince = "command", d.Text, d.By, d.Since
			if d.Orphaned {
				r.Drained = "orphans"
			}
		}
		if m := w.plan.WindowAt(r.Name, now); m != nil {
			r.MaintenanceUntil, r.MaintenanceText = m.Until, m.Text
		}
		r.State = "missing"
		if c != nil {
			if c.Drained {
				r.Drained = "inventory"
			}
			r.State = nodeState(&r, c, l)
		}
		all = append(all, r)
	}
	for _, c := range w.inv.Components {
		add(Node{Component: c.URN, Name: c.Name, Provider: c.Provider, Exclusive: c.Exclusive, Capacity: Amount(c.Capacity)}, c, loads[c.URN.Key()])
	}
	gone := slices.SortedFunc(maps.Values(loads), func(a, b *componentLoad) int { return cmp.Compare(a.urn.String(), b.urn.String()) })
	for _, l := range gone {
		if !known[l.urn.Key()] {
			add(Node{Component: l.urn, Name: l.name, Provider: l.provider}, nil, l)
		}
	}
	have := func(name string) bool { _, ok := w.inv.ComponentNamed(name); return ok || names[name] }
	for _, name := range w.plan.DrainedWithout(have, maxDrainedNames) {
		add(Node{Name: name}, nil, nil)
	}
	return all
}

func (w *parsedFilter) wantsNode(r *Node) bool {
	return (w.state.matchAll() || w.state.matchName(r.State)) &&
		(w.component.matchAll() || w.component.matchURN(r.Component) || w.component.matchName(r.Name)) &&
		(w.provider.matchAll() || w.provider.matchName(r.Provider))
}

func (n *Node) setLoad(l *componentLoad) {
	if l == nil {
		return
	}
	n.Used, n.Slivers, n.Removing, n.Waiting = Amount(l.used), l.slivers, l.removing, l.waiting
	for _, h := range l.holders {
		n.Holders = append(n.Holders, *h)
	}
	slices.SortFunc(n.Holders, func(a, b Holder) int { return cmp.Compare(a.Slice.String(), b.Slice.String()) })
	if n.More = max(0, len(n.Holders)-maxHolders); n.More > 0 {
		n.Holders = n.Holders[:maxHolders]
	}
}

// NodeStates are the states of a node.
var NodeStates = []string{"missing", "drained", "maintenance", "cleaning", "held", "full", "used", "free"}

// nodeState returns the state of a node that is a component of the inventory: the first of
// NodeStates that applies, other than missing.
func nodeState(r *Node, c *inventory.Component, l *componentLoad) string {
	switch {
	case r.Drained != "":
		return "drained"
	case !r.MaintenanceUntil.IsZero():
		return "maintenance"
	case l == nil || l.slivers == 0:
		return "free"
	case l.removing == l.slivers:
		return "cleaning"
	case c.Exclusive || l.exclusive:
		return "held"
	}
	for _, t := range c.SliverTypes {
		if am.Fits(c.Capacity, l.used, t.Needs, 1) > 0 {
			return "used"
		}
	}
	return "full"
}
