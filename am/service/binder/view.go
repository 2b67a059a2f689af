package binder

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"

	"patchbay/inventory"
)

// View is what Bind reads: an inventory, the operators' plan, and what slivers hold.
type View struct {
	Inventory *inventory.Inventory
	Plan      *maintenance.Plan // nil for none
	// Calendar calls f with what each sliver holds, until f returns false; nil if nothing is held.
	Calendar func(f func(*am.Hold) bool) error
	Now      time.Time
}

// occupancy has the resources that slivers hold at any time in an interval.
type occupancy struct {
	inv     *inventory.Inventory
	usage   []usage // of each component
	network network
	windows []*maintenance.Window // the maintenance at the start of the interval, by component; nil if there is none
	drains  []bool                // whether the plan drains a component, by component; nil if windows is nil
	// released has the end of what is held now of each exclusive component and ends before the interval, in Unix seconds; 0 if it is free.
	// It is nil if the interval begins now.
	released []int64
	// lastKey and last are those of the previous hold, since the calendar is ordered by component; nil at first.
	lastKey []byte
	last    *inventory.Component
}

// usage is the most that slivers hold of a component at one time. The fields beginning with
// others count only slivers of other slices.
type usage struct {
	used, cleaningUsed                       am.Amount
	slivers, cleaning                        int32
	exclusive, cleaningExclusive             int32 // slivers that close the component to other slices
	others, othersCleaning                   int32
	othersExclusive, othersCleaningExclusive int32
}

// add counts a hold; mine means that it belongs to the slice of the request. With the sign -1, it no longer counts
// the hold.
func (u *usage) add(h *am.Hold, mine bool, sign int64) {
	add := am.Amount.Add
	if sign < 0 {
		add = am.Amount.Sub
	}
	u.used = add(u.used, h.Amount)
	if h.Cleaning {
		u.cleaningUsed = add(u.cleaningUsed, h.Amount)
	}
	for _, c := range [...]struct {
		n       *int32
		applies bool
	}{
		{&u.slivers, true}, {&u.cleaning, h.Cleaning}, {&u.exclusive, h.Exclusive}, {&u.cleaningExclusive, h.Exclusive && h.Cleaning},
		{&u.others, !mine}, {&u.othersCleaning, !mine && h.Cleaning},
		{&u.othersExclusive, !mine && h.Exclusive}, {&u.othersCleaningExclusive, !mine && h.Exclusive && h.Cleaning},
	} {
		if c.applies {
			*c.n += int32(sign)
		}
	}
}

type network struct {
	ports  []port // of each interface of the inventory
	tags   pool[int]
	public pool[netip.Addr]
	// alone has the tags of links without a shared VLAN. It may have tags that are no longer in
	// the inventory.
	alone map[int]bool
	// others has the tags that other slices hold.
	others map[int]bool
}

// port is the capacity that is taken of a physical interface.
type port struct {
	out, in int64 // kbit/s
	users   int32 // interfaces of slivers that use it
}

// add counts an interface of a sliver; with the sign -1, it no longer counts it.
func (p *port) add(i *am.InterfaceHold, sign int64) {
	p.out, p.in, p.users = p.out+sign*i.Out, p.in+sign*i.In, p.users+int32(sign)
}

// pool is a list of names, such as tags or addresses, each held or free.
type pool[K comparable] struct {
	names  []K
	held   map[K]bool
	next   int  // this request has taken the free names before it
	vacant *int // the result of free
}

// take returns the first free name that this request has not taken. It returns false if there is
// none.
func (p *pool[K]) take() (name K, ok bool) {
	for p.next < len(p.names) && !ok {
		name = p.names[p.next]
		ok = !p.held[name]
		p.next++
	}
	return name, ok
}

// free counts the free names, with those that this request has taken.
func (p *pool[K]) free() int {
	if p.vacant == nil {
		n := 0
		for _, name := range p.names {
			if !p.held[name] {
				n++
			}
		}
		p.vacant = &n
	}
	return *p.vacant
}

func (p *pool[K]) shortageText(what string, asked int) string {
	total := len(p.names)
	if free := p.free(); free > 0 {
		return fmt.Sprintf("the request asks for %d %s; this aggregate has %d, of which %d free", asked, what, total, free)
	}
	return fmt.Sprintf("none of the %d %s of this aggregate is free", total, what)
}

// retryHint returns "" if waiting cannot help.
func (p *pool[K]) retryHint(asked int) string {
	if asked > len(p.names) {
		return ""
	}
	return ", or try again later"
}

// occupy reads what slivers hold at any time from the time from up to until; a zero until means
// no end. mine is the slice of the request, or a zero Hash for none.
func (v *View) occupy(from, until time.Time, mine am.Hash) (*occupancy, error) {
	inv := v.Inventory
	x := &occupancy{
		inv: inv, usage: make([]usage, len(inv.Components)),
		network: network{
			ports: make([]port, len(inv.Interfaces)), alone: map[int]bool{}, others: map[int]bool{},
			tags: pool[int]{names: inv.VLANs, held: map[int]bool{}}, public: pool[netip.Addr]{names: inv.PublicAddresses, held: map[netip.Addr]bool{}},
		},
	}
	x.applyPlan(v.Plan, from)
	if v.Calendar == nil {
		return x, nil
	}
	if from.After(v.Now) {
		x.released = make([]int64, len(inv.Components))
	}
	later := newPeaks(from)
	err := v.Calendar(func(h *am.Hold) bool {
		if !h.Overlaps(from, until, v.Now) {
			if x.released != nil && h.Overlaps(v.Now, v.Now.Add(1), v.Now) {
				if c := x.componentOf(h); c != nil && c.Exclusive {
					x.released[c.Index] = h.End(v.Now).Unix()
				}
			}
			return true
		}
		c := x.componentOf(h)
		if c != nil {
			x.usage[c.Index].add(h, h.Slice == mine, 1)
			later.noteComponent(c, h)
		}
		for i := range h.Interfaces {
			n := &h.Interfaces[i]
			if p := x.interfaceOf(n, c); p != nil {
				x.network.ports[p.Index].add(n, 1)
				later.notePort(p, h)
			}
			if n.VLAN != 0 {
				x.network.tags.held[n.VLAN] = true
				x.network.alone[n.VLAN] = x.network.alone[n.VLAN] || !n.Shared
				x.network.others[n.VLAN] = x.network.others[n.VLAN] || h.Slice != mine
			}
		}
		if h.PublicAddress.IsValid() {
			x.network.public.held[h.PublicAddress] = true
		}
		return true
	})
	if err == nil && !later.isEmpty() {
		err = x.lowerToPeaks(later, v, until, mine)
	}
	return x, err
}

// componentOf returns nil if the inventory no longer has the component. The component of a sliver
// is found by its URN or, if the URN has changed, by its name at its provider.
func (x *occupancy) componentOf(h *am.Hold) *inventory.Component {
	if x.last != nil && bytes.Equal(h.Component, x.lastKey) {
		return x.last
	}
	c, ok := x.inv.ComponentWithKey(h.Component)
	if !ok {
		if c, ok = x.inv.ComponentNamed(string(h.ComponentName)); !ok || c.Provider != string(h.Provider) {
			return nil
		}
		return c
	}
	x.lastKey, x.last = append(x.lastKey[:0], h.Component...), c
	return c
}

// interfaceOf returns nil if i has no physical interface of the inventory. on is the component of
// the sliver, or nil.
func (x *occupancy) interfaceOf(i *am.InterfaceHold, on *inventory.Component) *inventory.Interface {
	if len(i.Component) == 0 {
		return nil
	}
	if p, ok := x.inv.InterfaceWithKey(i.Component); ok {
		return p
	}
	if on == nil || len(i.ComponentName) == 0 {
		return nil
	}
	return on.InterfaceNamed(string(i.ComponentName))
}

// applyPlan records the maintenance at the time at, and the drains.
func (x *occupancy) applyPlan(p *maintenance.Plan, at time.Time) {
	if p == nil || len(p.Planned)+len(p.Drained) == 0 {
		return
	}
	for i, c := range x.inv.Components {
		w, drained := p.WindowAt(c.Name, at), p.Drain(c.Name) != nil
		if w == nil && !drained {
			continue
		}
		if x.windows == nil {
			x.windows, x.drains = make([]*maintenance.Window, len(x.inv.Components)), make([]bool, len(x.inv.Components))
		}
		x.windows[i], x.drains[i] = w, drained
	}
}

func (x *occupancy) maintenanceOf(i int32) *maintenance.Window {
	if x.windows == nil {
		return nil
	}
	return x.windows[i]
}

func (x *occupancy) drained(i int32) bool {
	return x.inv.Components[i].Drained || x.drains != nil && x.drains[i]
}

func (x *occupancy) serves(i int32) bool { return !x.drained(i) && x.maintenanceOf(i) == nil }

// slotsFor returns how many slivers with the given needs still fit on component i, for a slice that
// has no slivers there.
func (x *occupancy) slotsFor(i int32, needs am.Amount) int {
	if !x.serves(i) {
		return 0
	}
	return room(x.inv.Components[i], &x.usage[i], needs)
}

// room returns how many slivers with the given needs fit on c beside u, for a slice that has none there.
func room(c *inventory.Component, u *usage, needs am.Amount) int {
	switch {
	case u.exclusive > 0, c.Exclusive && u.slivers > 0:
		return 0
	case c.Exclusive:
		return 1
	}
	return int(am.Fits(c.Capacity, u.used, needs, atEnd))
}

// atEnd is more than any number of slivers on a component.
const atEnd = 1 << 30

// Availability has the numbers of free slivers and addresses at one time.
type Availability struct {
	free   []int32
	public int
}

// Free returns how many slivers of the first sliver type of component i fit on it, for any slice.
// The result is 0 if the component is held exclusively, being cleaned, drained, or under
// maintenance.
func (a *Availability) Free(i int) int {
	if i < 0 || i >= len(a.free) {
		return 0
	}
	return int(a.free[i])
}

// FreePublicAddresses counts the public addresses that no sliver has.
func (a *Availability) FreePublicAddresses() int { return a.public }

// Equal reports whether a and b have the same numbers.
func (a *Availability) Equal(b *Availability) bool {
	return a.public == b.public && slices.Equal(a.free, b.free)
}

// Availability returns the present numbers. They do not count slivers that begin later. Availability
// fails with the error of the calendar.
func (v *View) Availability() (*Availability, error) { return v.AvailabilityIn(v.Now, v.Now.Add(1)) }

// AvailabilityIn returns the least numbers at any time from the time from up to until. A component with maintenance in
// this time has no room. AvailabilityIn fails with the error of the calendar.
func (v *View) AvailabilityIn(from, until time.Time) (*Availability, error) {
	x, err := v.occupy(from, until, am.Hash{})
	if err != nil {
		return nil, err
	}
	a := &Availability{free: make([]int32, len(v.Inventory.Components)), public: x.network.public.free()}
	for i, c := range v.Inventory.Components {
		if w := v.Plan.NextWindow(c.Name, from); w == nil || !w.From.Before(until) {
			a.free[i] = int32(x.slotsFor(int32(i), c.SliverTypes[0].Needs))
		}
	}
	return a, nil
}
