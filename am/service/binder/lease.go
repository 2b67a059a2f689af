package binder

import (
	"cmp"
	"slices"
	"time"

	"patchbay/am"
)

// Lease is a time in which no other slice can use some components. It does not say which slice holds them.
type Lease struct {
	From, Until time.Time
	Components  []int // numbers of the inventory, ascending
}

// Leases returns what is held exclusively at any time from the time from up to until, cut to these times, in the order of
// the times. It fails with the error of the calendar.
func (v *View) Leases(from, until time.Time) (leases []Lease, err error) {
	x := &occupancy{inv: v.Inventory}
	number := map[[2]int64]int{}
	err = v.Calendar(func(h *am.Hold) bool {
		c := x.componentOf(h)
		if c == nil || !c.Exclusive && !h.Exclusive || !h.Overlaps(from, until, v.Now) {
			return true
		}
		l := Lease{From: from, Until: until}
		if h.From.After(from) {
			l.From = h.From
		}
		if end := h.End(v.Now); !end.IsZero() && end.Before(until) {
			l.Until = end
		}
		key := [2]int64{l.From.Unix(), l.Until.Unix()}
		n, ok := number[key]
		if !ok {
			n, number[key] = len(leases), len(leases)
			leases = append(leases, l)
		}
		leases[n].Components = append(leases[n].Components, c.Index)
		return true
	})
	for _, l := range leases {
		slices.Sort(l.Components)
	}
	slices.SortFunc(leases, func(a, b Lease) int {
		return cmp.Or(a.From.Compare(b.From), a.Until.Compare(b.Until))
	})
	return leases, err
}
