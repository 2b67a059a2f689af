package binder

import (
	"time"

	"patchbay/am/maintenance"
)

// stablePeriod is a period in which the plan changes nothing. A zero time means that the period
// is unlimited on that side.
type stablePeriod struct{ from, until time.Time }

func (c *stablePeriod) contains(t time.Time) bool {
	return !t.Before(c.from) && (c.until.IsZero() || t.Before(c.until))
}

// SetPlan sets the plan of components that are out of service, and applies the windows and
// drains that are in force at the time now.
func (x *Index) SetPlan(p *maintenance.Plan, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan = p
	x.applyOutages(now)
	x.version.Add(1) // the advertisement shows the plan itself, too
}

// Advance applies the windows of the plan that have begun or ended by the time now. Call it
// before each read of free capacity; usually it does nothing and is cheap.
func (x *Index) Advance(now time.Time) {
	if x.stable.Load().contains(now) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.applyOutages(now)
}

func (x *Index) applyOutages(now time.Time) {
	x.now = now
	from, until := x.plan.StablePeriod(now)
	x.applyPlan(x.plan, now)
	x.stable.Store(&stablePeriod{from, until})
	if len(x.undo) == 0 { // else Publish or Rollback of the staged changes does this
		x.publishTouched()
	}
}

func (x *layout) applyPlan(p *maintenance.Plan, now time.Time) {
	for i, c := range x.inv.Components {
		w, drained := p.WindowAt(c.Name, now), p.Drain(c.Name) != nil
		if w == x.maintenanceOf(int32(i)) && drained == x.drainedByPlan(int32(i)) {
			continue
		}
		if x.windows == nil {
			x.windows, x.drains = make([]*maintenance.Window, len(x.inv.Components)), make([]bool, len(x.inv.Components))
		}
		x.windows[i], x.drains[i] = w, drained
		x.refresh(int32(i))
	}
}

func (x *layout) maintenanceOf(i int32) *maintenance.Window {
	if x.windows == nil {
		return nil
	}
	return x.windows[i]
}

func (x *layout) drainedByPlan(i int32) bool { return x.drains != nil && x.drains[i] }

func (x *layout) drained(i int32) bool { return x.inv.Components[i].Drained || x.drainedByPlan(i) }

func (x *layout) serves(i int32) bool { return !x.drained(i) && x.maintenanceOf(i) == nil }
