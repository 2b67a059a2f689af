package binder

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory"
)

// Counter counts the slivers of each kind that fit at each time, to find the times at which a request may have room. It
// knows neither links nor addresses, and not all constraints: at a time that it excludes there is no room, at others there may be some.
type Counter struct {
	x      *occupancy
	now    time.Time
	slice  am.Hash
	holds  []am.Hold
	groups []demandGroup
	of     []uint8 // by component, a bit for each group
	// needsNames means that the request takes tags or addresses, so that all holds matter.
	needsNames bool
	plan       []am.Hold // the maintenance of components, as holds without a sliver
}

// demandGroup is a kind of nodes of the request.
type demandGroup struct {
	class  classKey
	on     *inventory.Component // if they name a component
	needed int
	slots  int // that fit at the present time of a sweep
}

// maxGroups limits the kinds of nodes that are counted. A request with more of them is still bound in full.
const maxGroups = 8

// NewCounter returns a Counter for the request r beside holds, in the order of the calendar.
func (v *View) NewCounter(r *Request, holds []am.Hold) *Counter {
	x := &occupancy{inv: v.Inventory, usage: make([]usage, len(v.Inventory.Components))}
	k := &Counter{x: x, now: v.Now, slice: am.HashOf(r.Slice), holds: holds, of: make([]uint8, len(x.usage)), needsNames: len(r.Links) > 0}
	r.work = work{limit: maxWork}
	b := newBinding(r, x)
	b.resolveAll()
	for i := range b.nodes {
		n := &b.nodes[i]
		k.needsNames = k.needsNames || n.Node.RoutableIP
		if n.refused || r.Kept[n.Node.ClientID] != nil || len(n.options) > 1 {
			continue
		}
		n.matching = b.requiredOnly(n)
		g := demandGroup{class: n.class(), on: n.Component}
		at := slices.IndexFunc(k.groups, func(o demandGroup) bool { return o.class == g.class && o.on == g.on })
		if at < 0 && len(k.groups) < maxGroups {
			at, k.groups = len(k.groups), append(k.groups, g)
		}
		if at >= 0 {
			k.groups[at].needed++
		}
	}
	for i, c := range x.inv.Components {
		if c.Drained || v.Plan.Drain(c.Name) != nil || slices.Contains(r.Avoid, c) || !r.Permit.allowsComponent(int32(i)) {
			continue
		}
		for g := range k.groups {
			if k.groups[g].on == c || k.groups[g].on == nil && k.groups[g].class.has(c) {
				k.of[i] |= 1 << g
			}
		}
		if v.Plan != nil && k.of[i] != 0 {
			for _, w := range v.Plan.Windows(c.Name) {
				k.plan = append(k.plan, am.Hold{Component: []byte(c.URN.Key()), From: w.From, Until: w.Until, Exclusive: true})
			}
		}
	}
	return k
}

// reset counts what fits while nothing is held.
func (k *Counter) reset() {
	clear(k.x.usage)
	for g := range k.groups {
		k.groups[g].slots = 0
	}
	for i := range k.of {
		k.addSlots(k.x.inv.Components[i], 1)
	}
}

func (k *Counter) addSlots(c *inventory.Component, sign int) {
	for g, mask := 0, k.of[c.Index]; mask != 0; g, mask = g+1, mask>>1 {
		if mask&1 != 0 {
			k.groups[g].slots += sign * room(c, &k.x.usage[c.Index], k.groups[g].class.needs(c))
		}
	}
}

func (k *Counter) count(h *am.Hold, sign int64) {
	c := k.x.componentOf(h)
	if c == nil || k.of[c.Index] == 0 {
		return
	}
	k.addSlots(c, -1)
	one := am.Hold{Amount: h.Amount, Exclusive: h.Exclusive && (h.Slice != k.slice || len(h.Sliver) == 0)}
	k.x.usage[c.Index].add(&one, false, sign)
	k.addSlots(c, 1)
}

func (k *Counter) mayFit() bool {
	return !slices.ContainsFunc(k.groups, func(g demandGroup) bool { return g.slots < g.needed })
}

// list returns the holds that matter and that are not over at the time from. It moves the starts of those on exclusive
// components to an earlier time, by lead.
func (k *Counter) list(from time.Time, lead time.Duration, all ...[]am.Hold) (list []am.Hold) {
	for _, part := range all {
		for i := range part {
			h := &part[i]
			c := k.x.componentOf(h)
			if (c == nil || k.of[c.Index] == 0) && !k.needsNames || !h.Overlaps(from, time.Time{}, k.now) {
				continue
			}
			list = append(list, *h)
			if c != nil && c.Exclusive && !h.From.IsZero() && len(h.Sliver) > 0 {
				list[len(list)-1].From = h.From.Add(1 - lead) // what ends when the hold begins is not in its way
			}
		}
	}
	return list
}

// Starts returns the first times after the given one from which on the request may have room for the given time, at most limit of
// them. Each is the end of a hold, or of maintenance.
func (k *Counter) Starts(after time.Time, length time.Duration, limit int) (starts []time.Time) {
	k.reset()
	isFreed := false
	leave := func(h *am.Hold) { k.count(h, -1); isFreed = true }
	am.Sweep(k.list(after, length, k.holds, k.plan), after, k.now, func(h *am.Hold) { k.count(h, 1) }, leave, func(at time.Time) bool {
		if isFreed && at.After(after) && k.mayFit() {
			starts = append(starts, at)
		}
		isFreed = false
		return len(starts) < limit
	})
	return starts
}

// LatestEnd returns until, or the earliest time at which the request has no room any more if it begins at the time from.
func (k *Counter) LatestEnd(from, until time.Time) time.Time {
	k.reset()
	for i := range k.holds {
		if h := &k.holds[i]; h.Overlaps(from, from.Add(1), k.now) {
			k.count(h, 1)
		}
	}
	if !k.mayFit() { // the usual case, in which nothing is sorted
		return from
	}
	k.reset()
	leave := func(h *am.Hold) {
		if c := k.x.componentOf(h); c != nil && !c.Exclusive { // others can be used from the start on, or not at all
			k.count(h, -1)
		}
	}
	am.Sweep(k.list(from, 0, k.holds), from, k.now, func(h *am.Hold) { k.count(h, 1) }, leave, func(at time.Time) bool {
		if at.Before(until) && !k.mayFit() {
			until = at
		}
		return at.Before(until)
	})
	return until
}
