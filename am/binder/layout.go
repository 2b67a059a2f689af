package binder

import (
	"math"
	"slices"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/inventory"
)

// layout is an inventory with the resources that slivers hold. Prepare builds a second layout
// for a new inventory.
type layout struct {
	inv     *inventory.Inventory
	classes map[classKey]*class
	places  [][]place // the places of each component in its classes
	usage   []usage   // of each component
	network network
	slices  map[string]map[int32]share // slice → component → the slivers of the slice there
	touched []int32                    // components whose published numbers may change; may have duplicates
	windows []*maintenance.Window      // the maintenance in force, by component; nil if there never was any
	drains  []bool                     // whether the plan drains a component, by component; nil if windows is nil
}

func newLayout(v *inventory.Inventory) *layout {
	x := &layout{inv: v, usage: make([]usage, len(v.Components)), network: newNetwork(v), slices: map[string]map[int32]share{}}
	x.arrange()
	return x
}

func (x *layout) arrange() {
	x.classes = map[classKey]*class{}
	x.places = make([][]place, len(x.inv.Components))
	for i, c := range x.inv.Components {
		places := make([]place, 0, len(c.SliverTypes)*(1+len(c.HardwareTypes)))
		for _, t := range c.SliverTypes {
			places = x.addMembers(places, c, classKey{sliverType: t})
			for j, h := range c.HardwareTypes {
				if !slices.Contains(c.HardwareTypes[:j], h) {
					places = x.addMembers(places, c, classKey{sliverType: t, hardware: h})
				}
			}
		}
		x.places[i] = places
	}
	for _, c := range x.classes {
		c.makeTrees()
	}
}

// addMembers adds a component to the class of k, and to that class on each physical link that
// the component can use. It appends the component's places in these classes to places.
func (x *layout) addMembers(places []place, c *inventory.Component, k classKey) []place {
	places = append(places, x.addMember(c, k))
	for j, i := range c.Interfaces {
		if !i.CarriesLinks() || onLink(c.Interfaces[:j], i.Link) {
			continue
		}
		k.link = i.Link
		places = append(places, x.addMember(c, k))
	}
	return places
}

func (x *layout) addMember(c *inventory.Component, k classKey) place {
	cl := x.classes[k]
	if cl == nil {
		cl = &class{sliverType: k.sliverType}
		x.classes[k] = cl
	}
	cl.members = append(cl.members, int32(c.Index))
	if c.Exclusive {
		cl.exclusive++
	}
	return place{class: cl, at: len(cl.members) - 1}
}

// locate sets the component's index to -1 if this inventory does not have the component.
func (x *layout) locate(h hold) hold {
	h.at = -1
	c, ok := x.inv.ComponentOf(&am.Sliver{Component: h.component, ComponentName: h.name, Provider: h.provider})
	if ok {
		h.at = int32(c.Index)
		h.name, h.provider = shareText(h.name, c.Name), shareText(h.provider, c.Provider)
		if h.component == c.URN {
			h.component = c.URN // share its text
		}
	}
	return h
}

// shareText returns canonical instead of an equal text, so that the memory of text can be
// freed.
func shareText(text, canonical string) string {
	if text == canonical {
		return canonical
	}
	return text
}

// count removes the resources of h if sign is negative.
func (x *layout) count(h hold, sign int32) {
	x.network.count(x.inv, h, sign)
	if h.at < 0 {
		return
	}
	u := &x.usage[h.at]
	mine := x.slices[h.slice]
	if mine == nil {
		mine = map[int32]share{}
		x.slices[h.slice] = mine
	}
	m := mine[h.at]
	amount := h.amount
	if sign < 0 {
		amount = am.Amount{}.Sub(amount)
	}
	exclusive := int32(0)
	if h.exclusive {
		exclusive = sign
	}
	u.used = u.used.Add(amount)
	u.slivers += sign
	u.exclusive += exclusive
	m.slivers += sign
	m.exclusive += exclusive
	if h.cleaning {
		u.cleaning.amount = u.cleaning.amount.Add(amount)
		u.cleaning.slivers += sign
		u.cleaning.exclusive += exclusive
		m.cleaning += sign
		m.cleaningExclusive += exclusive
	}
	if mine[h.at] = m; m.slivers == 0 {
		if delete(mine, h.at); len(mine) == 0 {
			delete(x.slices, h.slice)
		}
	}
}

// refresh must be called after a change of the holds on component i. A negative i is
// ignored.
func (x *layout) refresh(i int32) {
	if i < 0 {
		return
	}
	x.touched = append(x.touched, i)
	c, u := x.inv.Components[i], &x.usage[i]
	for j := range x.places[i] {
		p := &x.places[i][j]
		kind := &p.class.empty
		switch {
		case c.Exclusive:
			kind = &p.class.lone
		case u.slivers > 0:
			kind = &p.class.open
		}
		p.class.set(p.at, kind, x.slotsFor(i, p.class.sliverType))
		tally(&p.class.serving, &p.serving, x.serves(i))
		tally(&p.class.away, &p.away, !x.drained(i) && !p.serving)
		tally(&p.class.cleaning, &p.cleaning, u.slivers > 0 && u.slivers == u.cleaning.slivers && p.serving)
	}
}

// tally updates the count of places that fulfil a condition, after one place has changed.
// fulfilled means that this place fulfils the condition; counted stores whether it is counted.
func tally(count *int, counted *bool, fulfilled bool) {
	if *counted == fulfilled {
		return
	}
	if *counted = fulfilled; fulfilled {
		*count++
	} else {
		*count--
	}
}

// slotsFor returns how many slivers of type t still fit on component i, for a slice that has
// no slivers there.
func (x *layout) slotsFor(i int32, t *inventory.SliverType) int32 {
	c, u := x.inv.Components[i], &x.usage[i]
	switch {
	case !x.serves(i), u.exclusive > 0, c.Exclusive && u.slivers > 0:
		return 0
	case c.Exclusive:
		return 1
	}
	return int32(am.Fits(c.Capacity, u.used, t.Needs, math.MaxInt32))
}
