package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
)

// SetPlan sets the site's plan of lockdown and maintenance to p. When it returns, all decisions
// with an older plan have ended, and all later decisions use p.
//
// Errors: those of store.Commit; later decisions use p nevertheless.
func (s *Service) SetPlan(ctx context.Context, p *maintenance.Plan) error {
	if was := s.plan.Swap(p); was != nil && was.Lockdown != nil {
		s.resume()
	}
	// Changes are written one after the other. When this empty decision has run, all changes that rest
	// on the old plan are written, and no later one can (see commit).
	return s.cfg.Store.Commit(ctx, func(*store.View) (store.ChangeSet, error) { return store.ChangeSet{}, nil })
}

// resume notes that the site takes new work from now on.
func (s *Service) resume() {
	if s.cfg.Store != nil {
		now := s.cfg.Store.Now()
		s.resumed.Store(&now)
	}
}

// Lockdown returns the operators' text about a lockdown; "" if the site is not locked down.
func (s *Service) Lockdown() string {
	if p := s.plan.Load(); p != nil && p.Lockdown != nil {
		return p.Lockdown.Text
	}
	return ""
}

// ChangesNodes reports whether all providers change nodes in place. Each GetVersion calls it.
func (s *Service) ChangesNodes() bool {
	return s.cfg.ChangesNodes == nil || !slices.ContainsFunc(s.offer.Load().providers, func(p string) bool { return !s.cfg.ChangesNodes(p) })
}

// checkLockdown returns an Unavailable error while the site is locked down. Call it in each
// decision that begins new work.
func (s *Service) checkLockdown() error {
	if p := s.plan.Load(); p != nil && p.Lockdown != nil {
		return am.Errorf(am.Unavailable, "this aggregate takes no new work for now; running slivers continue: %s", p.Lockdown.Text)
	}
	return nil
}

// componentName returns the name in the inventory, or else that in the sliver's record.
func (s *Service) componentName(x *am.Sliver) string {
	if c, ok := s.Inventory().ComponentOf(x); ok {
		return c.Name
	}
	return cmp.Or(x.ComponentName, x.Component.Name)
}

// checkMaintenance returns an Unavailable error if the sliver's component is under maintenance.
func (s *Service) checkMaintenance(now time.Time, x *am.Sliver) error {
	name := s.componentName(x)
	if w := s.plan.Load().WindowAt(name, now); w != nil {
		return am.Errorf(am.Unavailable, "sliver %s is on %s, which is under maintenance until %s: %s", x.URN, name, w.Until.Format(time.RFC3339), w.Text).About(x.URN)
	}
	return nil
}

// nextMaintenance returns the next maintenance that begins before end; nil if there is none.
func (s *Service) nextMaintenance(now, end time.Time, x *am.Sliver) *maintenance.Window {
	if w := s.plan.Load().NextWindow(s.componentName(x), now); w != nil && w.From.Before(end) {
		return w
	}
	return nil
}

// shortenForMaintenance returns end, or the beginning of the next maintenance if that is earlier.
func (s *Service) shortenForMaintenance(now, end time.Time, x *am.Sliver) time.Time {
	if w := s.nextMaintenance(now, end, x); w != nil {
		return w.From
	}
	return end
}

// maxRenewal returns the requested end of a lease, or the beginning of the next maintenance if
// that is earlier. It also returns that maintenance; nil for none. If the present lease reaches
// into the maintenance, it was granted before the maintenance was planned. Then the limit is the
// present end of the lease.
func (s *Service) maxRenewal(now, requested time.Time, x *am.Sliver) (time.Time, *maintenance.Window) {
	w := s.nextMaintenance(now, requested, x)
	switch {
	case w == nil:
		return requested, nil
	case x.Expires.After(w.From):
		return earliest(requested, x.Expires), w
	}
	return w.From, w
}

type shortenedLeases struct{ remarks }

// note adds a remark that w shortens the sliver's lease. w is nil for no maintenance.
func (c *shortenedLeases) note(x *am.Sliver, w *maintenance.Window) {
	if w != nil {
		c.add("node", x.ClientID, "", "its lease ends by %s, because maintenance begins then: %s", w.From.Format(time.RFC3339), w.Text)
	}
}
