package binder

import "patchbay/am"

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

// check has all the rules; the trees only find components that are worth checking.
func (b *binding) check(i int32, w want) verdict {
	c, u, mine, claim := b.x.inv.Components[i], &b.x.usage[i], b.mine[i], b.claims[i]
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
		case u.slivers > 0 && u.slivers == u.cleaning.slivers:
			return cleaning
		case u.slivers > 0:
			return held
		case claim.slivers > 0 || w.nodes > 1:
			return taken
		}
		return fits
	}
	// others counts the slivers of other slices here; closing counts those that close the
	// component. othersCleaning and closingCleaning count those that are only being cleaned.
	others := u.slivers - mine.slivers
	othersCleaning := u.cleaning.slivers - mine.cleaning
	closing := u.exclusive - mine.exclusive
	closingCleaning := u.cleaning.exclusive - mine.cleaningExclusive
	w.alone = w.alone && !b.sharesAll()
	switch {
	case closing > 0 && closing == closingCleaning:
		return cleaning
	case closing > 0:
		return closed
	case w.alone && !b.grantsAlone():
		return refused
	case w.alone && others > 0 && others == othersCleaning:
		return cleaning
	case w.alone && others > 0:
		return occupied
	}
	used := u.used.Add(claim.amount)
	switch {
	case am.Fits(c.Capacity, used, w.amount, 1) == 1:
		return fits
	case am.Fits(c.Capacity, used.Sub(u.cleaning.amount), w.amount, 1) == 1:
		return cleaning
	}
	return full
}
