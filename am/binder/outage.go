package binder

import (
	"time"

	"patchbay/am/maintenance"
)

// calm is a time in which the plan changes nothing; zero is without end.
type calm struct{ from, until time.Time }

func (c *calm) holds(t time.Time) bool {
	return !t.Before(c.from) && (c.until.IsZero() || t.Before(c.until))
}

// SetPlan makes p the plan by which components are out of service; now is what is
// in force of it.
func (x *Index) SetPlan(p *maintenance.Plan, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan = p
	x.outages(now)
	x.version.Add(1) // a plan says more than what is free
}

// Advance takes over what of the plan has begun or ended until now. It is meant
// to be called before each look at what is free: almost always there is nothing
// to do, and that costs nothing.
func (x *Index) Advance(now time.Time) {
	if x.steady.Load().holds(now) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outages(now)
}

// outages brings what is out of service up to date.
func (x *Index) outages(now time.Time) {
	x.now = now
	from, until := x.plan.Steady(now)
	x.withdraw(x.plan, now)
	x.steady.Store(&calm{from, until})
	if len(x.undo) == 0 { // else what is staged is shown with it, or undone before
		x.settle()
	}
}

// withdraw notes which windows of a plan are in force.
func (x *layout) withdraw(p *maintenance.Plan, now time.Time) {
	for i, c := range x.inv.Components {
		w, drained := p.On(c.Name, now), p.Drain(c.Name) != nil
		if w == x.away(int32(i)) && drained == x.emptied(int32(i)) {
			continue
		}
		if x.windows == nil {
			x.windows, x.drains = make([]*maintenance.Window, len(x.inv.Components)), make([]bool, len(x.inv.Components))
		}
		x.windows[i], x.drains[i] = w, drained
		x.refresh(int32(i))
	}
}

// away is the planned maintenance in force on component i; nil for none.
func (x *layout) away(i int32) *maintenance.Window {
	if x.windows == nil {
		return nil
	}
	return x.windows[i]
}

// emptied tells whether the plan drains component i.
func (x *layout) emptied(i int32) bool { return x.drains != nil && x.drains[i] }

// drained tells whether component i takes nothing new until an operator says so,
// in the inventory or in the plan.
func (x *layout) drained(i int32) bool { return x.inv.Components[i].Drained || x.emptied(i) }

// serves tells whether component i takes new slivers at all.
func (x *layout) serves(i int32) bool { return !x.drained(i) && x.away(i) == nil }
