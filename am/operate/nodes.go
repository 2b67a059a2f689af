package operate

import (
	"cmp"
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

// Nodes lists the components in the order of the inventory, and behind them those
// that have slivers and are missing from it, and names that are drained and no component
// has: one was renamed, perhaps, and takes new work again. A filter for slices and users wants
// nodes that have a sliver of theirs. Errors: as of Slices.
func (d *Desk) Nodes(f Filter, row func(Node) error) error {
	w, p := d.where(f), newPage(f.Limit, row)
	plan := w.plan
	var unpromised map[[2]string]int
	if d.cfg.Unpromised != nil {
		unpromised = d.cfg.Unpromised()
	}
	return d.cfg.Store.Read(func(v *store.View) error {
		if err := w.known(v); err != nil {
			return err
		}
		loads, meant := map[string]*load{}, map[string]bool{}
		of := *w
		of.state, of.Since, of.Until = nil, time.Time{}, time.Time{}
		of.component, of.provider = nil, nil // are about the node
		asks := of.perSliver() || !of.slice.all()
		err := v.Slivers(func(x am.Sliver) bool {
			on := x.Component
			if c, ok := w.inv.Home(&x); ok {
				on = c.URN // it may have got another since
			}
			k := on.Key()
			if loads[k] == nil {
				loads[k] = &load{urn: on, name: cmp.Or(x.ComponentName, x.Component.Name), provider: x.Provider, holders: map[string]*Holder{}}
			}
			loads[k].add(&x, v.Now())
			if asks && !meant[k] {
				meant[k] = of.wants(&x, v.Now())
			}
			return true
		})
		if err != nil {
			return err
		}
		show := func(r Node) bool {
			if asks && !meant[r.Component.Key()] || !w.state.all() && !w.state.name(r.State) ||
				!(w.component.all() || w.component.urn(r.Component) || w.component.name(r.Name)) || !(w.provider.all() || w.provider.name(r.Provider)) {
				return true
			}
			r.Unpromised = unpromised[[2]string{r.Provider, r.Name}]
			return p.add(r)
		}
		for _, c := range w.inv.Components {
			k := c.URN.Key()
			r := Node{Component: c.URN, Name: c.Name, Provider: c.Provider, Exclusive: c.Exclusive, Capacity: Amount(c.Capacity)}
			r.carry(loads[k])
			r.outOfService(plan, v.Now())
			if c.Drained {
				r.Drained = "inventory"
			}
			r.State = stateOf(&r, c, loads[k])
			delete(loads, k)
			if !show(r) {
				return p.err
			}
		}
		gone := make([]*load, 0, len(loads))
		for _, l := range loads {
			gone = append(gone, l)
		}
		slices.SortFunc(gone, func(a, b *load) int { return cmp.Compare(a.urn.String(), b.urn.String()) })
		left := map[string]bool{}
		for _, l := range gone {
			r := Node{Component: l.urn, Name: l.name, Provider: l.provider, State: "missing"}
			r.outOfService(plan, v.Now())
			left[l.name] = true
			if r.carry(l); !show(r) {
				return p.err
			}
		}
		if asks {
			return p.err
		}
		have := func(name string) bool { _, ok := w.inv.ComponentNamed(name); return ok || left[name] }
		for _, name := range plan.DrainedWithout(have, maxStray) {
			r := Node{Name: name, State: "missing"}
			if r.outOfService(plan, v.Now()); !show(r) {
				break
			}
		}
		return p.err
	})
}

// carry says what slivers take of the node.
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

// NodeStates are the words for the state of a node.
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
