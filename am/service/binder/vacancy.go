package binder

import (
	"cmp"
	"slices"
	"time"

	"patchbay/am"
)

// Vacancy says how many slivers fit on each component at the time of a view, and when one more will fit. What is reserved from a later
// time on is free until then.
type Vacancy struct {
	view  *View
	x     *occupancy
	holds []holdSpan
	last  []int32 // by component: the number of its last hold in holds, from 1 on; 0 for none
	next  time.Time
}

// freeTime is the time for which something must be free before the next reservation so that NextFree names it.
const freeTime = time.Hour

// holdSpan is the part of a hold that Vacancy keeps. It has no pointers, since there may be many thousands.
type holdSpan struct {
	from      int64 // Unix time in seconds; 0 if it has begun
	until     int64 // Unix time in seconds; negative if the end is unknown
	amount    am.Amount
	exclusive bool
	before    int32 // the number of the component's previous hold, like Vacancy.last
}

// Vacancy reads what slivers hold. It fails with the error of the calendar.
func (v *View) Vacancy() (*Vacancy, error) {
	n := len(v.Inventory.Components)
	a := &Vacancy{view: v, x: &occupancy{inv: v.Inventory, usage: make([]usage, n)}, last: make([]int32, n), holds: make([]holdSpan, 0, n)}
	a.x.applyPlan(v.Plan, v.Now)
	return a, v.Calendar(func(h *am.Hold) bool {
		c := a.x.componentOf(h)
		if c == nil || !h.Overlaps(v.Now, time.Time{}, v.Now) {
			return true
		}
		span := holdSpan{until: h.Until.Unix(), amount: h.Amount, exclusive: h.Exclusive, before: a.last[c.Index]}
		if h.From.After(v.Now) {
			span.from = h.From.Unix()
			if a.next.IsZero() || h.From.Before(a.next) {
				a.next = h.From
			}
		} else {
			a.x.usage[c.Index].add(h, false, 1)
		}
		a.holds = append(a.holds, span)
		a.last[c.Index] = int32(len(a.holds))
		return true
	})
}

// Total returns how many slivers with the given needs fit on component i while nothing is held.
func (a *Vacancy) Total(i int, needs am.Amount) int {
	return room(a.x.inv.Components[i], &usage{}, needs)
}

// Count returns how many slivers with the given needs component i has room for in service, how many of them fit now for any
// slice, and how many more will fit when its cleaning has ended. All are 0 if it is drained or under maintenance.
func (a *Vacancy) Count(i int, needs am.Amount) (inService, free, cleaning int) {
	if !a.x.serves(int32(i)) {
		return 0, 0, 0
	}
	c, u := a.x.inv.Components[i], &a.x.usage[i]
	inService = a.Total(i, needs)
	if free = inService; u.slivers > 0 {
		free = room(c, u, needs)
	}
	if u.cleaning > 0 {
		clean := usage{used: u.used.Sub(u.cleaningUsed), slivers: u.slivers - u.cleaning, exclusive: u.exclusive - u.cleaningExclusive}
		cleaning = room(c, &clean, needs) - free
	}
	return inService, free, cleaning
}

// NextStart returns the first time at which a reservation begins; zero if there is none.
func (a *Vacancy) NextStart() time.Time { return a.next }

// NextFree returns the time at which a sliver with the given needs will fit on component i for freeTime, where none fits now:
// leases end as they do now, cleaning then takes its usual time, and maintenance goes as planned. It returns zero if no such time is
// known, or none before limit; a zero limit is none.
func (a *Vacancy) NextFree(i int, needs am.Amount, limit time.Time) time.Time {
	if a.x.drained(int32(i)) {
		return time.Time{}
	}
	type event struct {
		at   time.Time
		hold *holdSpan // nil at the end of maintenance
		sign int64     // -1 if the hold ends
	}
	c, u, plan := a.x.inv.Components[i], a.x.usage[i], a.view.Plan
	var events []event
	add := func(at time.Time, h *holdSpan, sign int64) {
		if at.After(a.view.Now) && (limit.IsZero() || at.Before(limit)) {
			events = append(events, event{at, h, sign})
		}
	}
	count := func(h *holdSpan, sign int64) {
		u.add(&am.Hold{Amount: h.amount, Exclusive: h.exclusive}, false, sign)
	}
	cleaning := a.x.inv.Cleaning(c)
	for k := a.last[i]; k > 0; k = a.holds[k-1].before {
		h := &a.holds[k-1]
		if h.from != 0 { // what begins then is in the way freeTime before
			if at := time.Unix(h.from, 0).Add(1 - freeTime); at.After(a.view.Now) {
				add(at, h, 1)
			} else {
				count(h, 1)
			}
		}
		add(time.Unix(h.until, 0).Add(cleaning), h, -1)
	}
	for _, w := range plan.Windows(c.Name) {
		add(w.Until, nil, 0)
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.sign, b.sign)) })
	for _, e := range events {
		if e.hold != nil {
			count(e.hold, e.sign)
		}
		if e.sign <= 0 && room(c, &u, needs) > 0 && plan.WindowAt(c.Name, e.at) == nil {
			return e.at.UTC()
		}
	}
	return time.Time{}
}
