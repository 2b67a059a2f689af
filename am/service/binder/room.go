package binder

import (
	"patchbay/am"
	"patchbay/inventory"
)

// verdict says whether a need fits on a component, or why it does not fit.
type verdict int

const (
	fits       verdict = iota
	drained            // out of service
	maintained         // under planned maintenance
	held               // exclusive, and another sliver holds it
	cleaning           // will fit when released slivers are removed
	taken              // exclusive, and another node of this request has it
	closed             // shared, and another slice holds it exclusively
	occupied           // requested exclusively, and another slice uses it
	refused            // requested exclusively, and the site does not grant that
	full               // shared, and too little capacity is left
	narrow             // its physical interfaces have too little capacity left
)

// check returns whether w fits on component i beside what is held there and what this request has
// taken there.
func (b *binding) check(i int32, w want) verdict {
	c, u, claim := b.x.inv.Components[i], &b.x.usage[i], b.claims[i]
	if b.x.drained(i) {
		return drained
	}
	if b.x.maintenanceOf(i) != nil {
		return maintained
	}
	if w.within != nil && !b.carries(c, w) {
		return narrow
	}
	if c.Exclusive {
		switch {
		case u.slivers > 0 && u.slivers == u.cleaning:
			return cleaning
		case u.slivers > 0:
			return held
		case claim.slivers > 0 || w.nodes > 1:
			return taken
		}
		return fits
	}
	alone := w.alone && !b.sharesAll()
	switch {
	case u.othersExclusive > 0 && u.othersExclusive == u.othersCleaningExclusive:
		return cleaning
	case u.othersExclusive > 0:
		return closed
	case alone && !b.grantsAlone():
		return refused
	case alone && u.others > 0 && u.others == u.othersCleaning:
		return cleaning
	case alone && u.others > 0:
		return occupied
	}
	used := u.used.Add(claim.amount)
	switch {
	case am.Fits(c.Capacity, used, w.amount, 1) == 1:
		return fits
	case am.Fits(c.Capacity, used.Sub(u.cleaningUsed), w.amount, 1) == 1:
		return cleaning
	}
	return full
}

// grantsAlone reports whether a slice may have a shared component alone.
func (b *binding) grantsAlone() bool { return b.x.inv.ExclusiveOnShared == inventory.Grant }

// sharesAll reports whether a node that requests exclusive use of a shared component shares it
// instead.
func (b *binding) sharesAll() bool { return b.x.inv.ExclusiveOnShared == inventory.Share }
