package service

import (
	"cmp"
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/store"
)

// SetPlan makes p the site's plan of lockdown and planned maintenance. When it
// has returned, what was decided without it is done, and nothing else will be.
//
// Errors: those of store.Commit; p counts all the same.
func (s *Service) SetPlan(ctx context.Context, p *maintenance.Plan) error {
	s.plan.Store(p)
	s.cfg.Index.SetPlan(p, s.cfg.Store.Now())
	// Decisions come one after the other: when this one is answered, those are over
	// that may have looked before.
	return s.cfg.Store.Commit(ctx, func(*store.View) (store.ChangeSet, error) { return store.ChangeSet{}, nil })
}

// Lockdown is what the operators say when they take no new work; "" if they do.
func (s *Service) Lockdown() string {
	if p := s.plan.Load(); p != nil && p.Lockdown != nil {
		return p.Lockdown.Text
	}
	return ""
}

// checkLockdown refuses new work while the site is locked down. It belongs into the
// decision that begins the work.
func (s *Service) checkLockdown() error { return CheckLockdown(s.plan.Load()) }

// CheckLockdown refuses new work while a plan locks the site down. The error is an *am.Error
// with code Unavailable.
func CheckLockdown(p *maintenance.Plan) error {
	if p != nil && p.Lockdown != nil {
		return am.Errorf(am.Unavailable, "this aggregate takes no new work for now, and what runs goes on: %s", p.Lockdown.Text)
	}
	return nil
}

// name is what the inventory calls a sliver's component, or has called it.
func (s *Service) name(x *am.Sliver) string {
	if c, ok := s.Inventory().Home(x); ok {
		return c.Name
	}
	return cmp.Or(x.ComponentName, x.Component.Name)
}

// checkMaintenance refuses a sliver on a component that is under maintenance.
func (s *Service) checkMaintenance(now time.Time, x *am.Sliver) error {
	name := s.name(x)
	if w := s.plan.Load().On(name, now); w != nil {
		return am.Errorf(am.Unavailable, "sliver %s is on %s, which is under maintenance until %s: %s", x.URN, name, w.Until.Format(time.RFC3339), w.Text).About(x.URN)
	}
	return nil
}

// nextMaintenance is the maintenance that begins before a sliver's lease would end; nil
// for none.
func (s *Service) nextMaintenance(now, end time.Time, x *am.Sliver) *maintenance.Window {
	if w := s.plan.Load().Next(s.name(x), now); w != nil && w.From.Before(end) {
		return w
	}
	return nil
}

// beforeMaintenance is the end of a lease, or the beginning of the maintenance
// that comes before it.
func (s *Service) beforeMaintenance(now, end time.Time, x *am.Sliver) time.Time {
	if w := s.nextMaintenance(now, end, x); w != nil {
		return w.From
	}
	return end
}

// renewable is how far maintenance lets a sliver be renewed, at most until, and
// by which; nil for none. What reaches into it already was promised before it was
// planned, so that stays.
func (s *Service) renewable(now, until time.Time, x *am.Sliver) (time.Time, *maintenance.Window) {
	w := s.nextMaintenance(now, until, x)
	switch {
	case w == nil:
		return until, nil
	case x.Expires.After(w.From):
		return earliest(until, x.Expires), w
	}
	return w.From, w
}

// cutLeases collects what to say of leases that maintenance cuts.
type cutLeases struct{ remarks }

func (c *cutLeases) note(x *am.Sliver, w *maintenance.Window) {
	if w != nil {
		c.add("node", x.ClientID, "", "its lease ends by %s, for maintenance begins then: %s", w.From.Format(time.RFC3339), w.Text)
	}
}
