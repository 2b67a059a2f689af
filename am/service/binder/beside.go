package binder

import (
	"net/netip"
	"time"

	"patchbay/am"
	"patchbay/inventory"
)

// beside has what is held on the component of a sliver x beside x at one time.
type beside struct {
	occupancy
	x         am.Hold
	component *inventory.Component // nil if the inventory no longer has it
	needs     map[*inventory.Interface]port
	used      am.Amount
	excluded  int // slivers beside which x cannot be, whatever they take
	ports     map[*inventory.Interface]port
}

func (v *View) beside(x *am.Sliver) *beside {
	b := &beside{occupancy: occupancy{inv: v.Inventory}, x: am.HoldOf(x), needs: map[*inventory.Interface]port{}, ports: map[*inventory.Interface]port{}}
	b.component = b.componentOf(&b.x)
	b.addPorts(b.needs, &b.x, 1)
	return b
}

func (b *beside) addPorts(to map[*inventory.Interface]port, h *am.Hold, sign int64) {
	for i := range h.Interfaces {
		if p := b.interfaceOf(&h.Interfaces[i], b.component); p != nil {
			sum := to[p]
			sum.add(&h.Interfaces[i], sign)
			to[p] = sum
		}
	}
}

// add counts a hold; with the sign -1, it no longer counts it.
func (b *beside) add(h *am.Hold, sign int64) {
	switch {
	case b.component != nil && b.component.Exclusive, (b.x.Exclusive || h.Exclusive) && (b.component == nil || h.Slice != b.x.Slice):
		b.excluded += int(sign)
	case sign > 0:
		b.used = b.used.Add(h.Amount)
	default:
		b.used = b.used.Sub(h.Amount)
	}
	b.addPorts(b.ports, h, sign)
}

// hasRoom reports whether x can be beside what was added.
func (b *beside) hasRoom() bool {
	if b.excluded > 0 {
		return false
	}
	if b.component != nil && !b.component.Exclusive && am.Fits(b.component.Capacity, b.used, b.x.Amount, 1) < 1 {
		return false
	}
	for p, need := range b.needs {
		used := b.ports[p]
		if p.Capacity > 0 && (need.out > 0 && used.out+need.out > p.Capacity || need.in > 0 && used.in+need.in > p.Capacity) {
			return false
		}
	}
	return true
}

// FreeUntil returns until, or the start of the first reservation between the end of the sliver x and until beside which x cannot
// stay on its component. The calendar of the view has the entries of the component only.
func (v *View) FreeUntil(x *am.Sliver, until time.Time) (time.Time, error) {
	b := v.beside(x)
	from := b.from(v.Now)
	var list []am.Hold
	err := v.Calendar(func(h *am.Hold) bool {
		if string(h.Sliver) != string(b.x.Sliver) && h.Overlaps(from, until, v.Now) {
			list = append(list, clone(h))
		}
		return true
	})
	begins := false // whether a reservation begins at the present instant of the sweep
	enter := func(h *am.Hold) { b.add(h, 1); begins = begins || !h.From.Before(from) }
	am.Sweep(list, from, v.Now, enter, func(h *am.Hold) { b.add(h, -1) }, func(at time.Time) bool {
		if begins && at.Before(until) && !b.hasRoom() {
			until = at
		}
		begins = false
		return at.Before(until)
	})
	return until, err
}

// from returns the end up to which x has its component in any case.
func (b *beside) from(now time.Time) time.Time {
	if b.x.Until.After(now) {
		return b.x.Until
	}
	return now
}

func clone(h *am.Hold) am.Hold {
	c := *h
	c.Interfaces = append([]am.InterfaceHold(nil), h.Interfaces...)
	return c
}

// CanBegin reports whether the sliver x, whose start has come, can be beside what is still held on its component, and beside
// the reservations there that begin before x. The calendar of the view has the entries of the component only.
func (v *View) CanBegin(x *am.Sliver) (bool, error) {
	b := v.beside(x)
	err := v.Calendar(func(h *am.Hold) bool {
		if h.From.Before(b.x.From) || h.From.Equal(b.x.From) && string(h.Sliver) < string(b.x.Sliver) {
			b.add(h, 1)
		}
		return true
	})
	return err == nil && b.hasRoom(), err
}

// Names has the VLAN tags and public addresses that slivers hold, and who holds them.
type Names struct {
	tags      map[int][]holder
	addresses map[netip.Addr][]holder
}

type holder struct {
	from   time.Time
	sliver string
	slice  am.Hash
	shared bool // a shared VLAN
}

// NewNames reads the names of the holds for which each calls its function. It fails with the error of each.
func NewNames(each func(func(*am.Hold) bool) error) (*Names, error) {
	n := &Names{map[int][]holder{}, map[netip.Addr][]holder{}}
	return n, each(func(h *am.Hold) bool {
		who := holder{from: h.From, slice: h.Slice}
		for i := range h.Interfaces {
			if tag := h.Interfaces[i].VLAN; tag != 0 {
				who.sliver, who.shared = string(h.Sliver), h.Interfaces[i].Shared
				n.tags[tag] = append(n.tags[tag], who)
			}
		}
		if h.PublicAddress.IsValid() {
			who.sliver = string(h.Sliver)
			n.addresses[h.PublicAddress] = append(n.addresses[h.PublicAddress], who)
		}
		return true
	})
}

// HasNames reports whether x holds a VLAN tag or a public address.
func HasNames(x *am.Sliver) bool {
	for i := range x.Interfaces {
		if x.Interfaces[i].VLAN != 0 {
			return true
		}
	}
	return x.PublicAddress.IsValid()
}

// First returns the first start, from the time from up to until, at which another sliver holds a name of x. It returns until if there is
// none. The ends of one link have the same tag; interfaces returns the interfaces of another sliver, by its key.
func (n *Names) First(x *am.Sliver, from, until time.Time, interfaces func(sliver string) ([]am.Interface, error)) (time.Time, error) {
	key, slice := x.URN.Key(), am.HashOf(x.Slice)
	concerns := func(h *holder) bool { return h.sliver != key && !h.from.Before(from) && h.from.Before(until) }
	for _, h := range n.addresses[x.PublicAddress] {
		if concerns(&h) {
			until = h.from
		}
	}
	for i := range x.Interfaces {
		is := &x.Interfaces[i]
		for _, h := range n.tags[is.VLAN] {
			if !concerns(&h) || h.shared && is.SharedVLAN != "" {
				continue
			}
			if h.slice == slice {
				others, err := interfaces(h.sliver)
				if err != nil {
					return until, err
				}
				if !hasOtherLink(others, is) {
					continue
				}
			}
			until = h.from
		}
	}
	return until, nil
}

// hasOtherLink reports whether one of the interfaces has the tag of i on another link.
func hasOtherLink(all []am.Interface, i *am.Interface) bool {
	for k := range all {
		if all[k].VLAN == i.VLAN && all[k].Link != i.Link {
			return true
		}
	}
	return false
}
