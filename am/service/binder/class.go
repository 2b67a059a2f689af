package binder

import (
	"slices"

	"patchbay/am"
	"patchbay/inventory"
)

// classKey identifies the components that offer a sliver type, have a hardware type (unless it is
// empty), satisfy constraints (unless they are nil) and can use a physical link (unless it is nil).
type classKey struct {
	sliverType *inventory.SliverType
	hardware   string
	matching   *matching
	disks      int64 // MiB that a sliver takes besides the needs of its type
	link       *inventory.Link
}

// has reports whether component c belongs to the class of k.
func (k classKey) has(c *inventory.Component) bool {
	return c.Offers(k.sliverType) && (k.hardware == "" || slices.Contains(c.HardwareTypes, k.hardware)) &&
		(k.link == nil || onLink(c.Interfaces, k.link)) && k.matching.admits(c)
}

// needs returns the amount that a sliver takes on c, a member of the class.
func (k classKey) needs(c *inventory.Component) am.Amount {
	amount := k.sliverType.Needs
	if k.matching != nil {
		amount = k.matching.of(c).amount
	}
	amount.Disk += k.disks
	return amount
}

// class describes the components of one classKey, and the slivers of the type that fit on them
// before the request.
type class struct {
	members   []int32 // indexes of components, ascending
	exclusive int     // the number of members that are exclusive components

	// Counts: members in service, slivers that still fit, members in service whose
	// slivers are all being cleaned, and members under maintenance.
	serving, slots, cleaning, maintained int
}

// class computes the class of k once for each request. Its cost is linear in the inventory.
func (b *binding) class(k classKey) *class {
	if c := b.classes[k]; c != nil {
		return c
	}
	c := &class{}
	b.work.add(len(b.x.inv.Components))
	for i, m := range b.x.inv.Components {
		if !k.has(m) {
			continue
		}
		i := int32(i)
		c.members = append(c.members, i)
		if m.Exclusive {
			c.exclusive++
		}
		c.slots += b.x.slotsFor(i, k.needs(m))
		if b.x.serves(i) {
			c.serving++
			if u := &b.x.usage[i]; u.slivers > 0 && u.slivers == u.cleaning {
				c.cleaning++
			}
		} else if !b.x.drained(i) {
			c.maintained++
		}
	}
	b.classes[k] = c
	return c
}

// exists reports whether the class of k has a member. It is quicker than class. After too much work
// it returns true.
func (b *binding) exists(k classKey) bool {
	if k.hardware != "" && !slices.Contains(b.x.inv.HardwareTypes, k.hardware) {
		return false
	}
	known, ok := b.hasMember[k]
	if !ok {
		i := slices.IndexFunc(b.x.inv.Components, k.has)
		known = i >= 0
		if !known {
			i = len(b.x.inv.Components)
		}
		if !b.work.add(i) {
			return true
		}
		b.hasMember[k] = known
	}
	return known
}

// slotsOnLinks returns how many slivers of the class of k fit on the components of each physical
// link, by the index of the link.
func (b *binding) slotsOnLinks(k classKey) []int {
	k.link = nil
	if all, ok := b.linkSlots[k]; ok {
		return all
	}
	all := make([]int, len(b.x.inv.Links))
	b.work.add(len(b.x.inv.Components) + len(b.x.inv.Interfaces))
	for i, c := range b.x.inv.Components {
		if !k.has(c) {
			continue
		}
		n := b.x.slotsFor(int32(i), k.needs(c))
		for j, p := range c.Interfaces {
			if n > 0 && p.CarriesLinks() && !onLink(c.Interfaces[:j], p.Link) {
				all[p.Link.Index] += n
			}
		}
	}
	b.linkSlots[k] = all
	return all
}
