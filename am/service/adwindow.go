package service

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/rspec"
)

// State identifies all that AppendWindowAdvertisement depends on, except for the time. It is comparable.
type State struct {
	revision store.Rev
	settings settings
}

// State returns the present state.
func (s *Service) State() State { return State{s.cfg.Store.Revision(), s.settings()} }

// AppendWindowAdvertisement appends the advertisement of the time from start up to end to b: nodes are available if they are
// so in the whole time, and numbers are the least in it. A zero start is now, and a zero end is that of a lease of
// default length. Otherwise it does what AppendAdvertisement does.
//
// Errors: BadArgs for a time that is over or has no length, or a start later than the site reserves; Unsupported for a later start
// if the site reserves nothing ahead; those of store.Read.
func (s *Service) AppendWindowAdvertisement(b []byte, start, end time.Time, onlyFree bool) ([]byte, error) {
	now := s.cfg.Store.Now().UTC()
	w, err := s.adWindow(now, start, end)
	if err != nil {
		return nil, err
	}
	ads := s.advertiser()
	var free *binder.Availability
	err = s.cfg.Store.Read(func(v *store.View) (err error) {
		view := binder.View{Inventory: ads.inventory, Plan: s.plan.Load(), Calendar: v.CalendarUntil(w.Until), Now: now}
		if free, err = view.AvailabilityIn(w.From, w.Until); err != nil || !slices.Contains(s.cfg.AdExtensions, NITOS) {
			return err
		}
		leases, err := view.Leases(w.From, w.Until)
		for _, l := range leases {
			w.Leases = append(w.Leases, rspec.AdLease{From: l.From, Until: l.Until, Nodes: l.Components})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.append(b, ads, free, onlyFree, w), nil
}

// adWindow returns the window of an advertisement.
func (s *Service) adWindow(now, start, end time.Time) (*rspec.AdWindow, error) {
	if err := checkEndTime(now, end); err != nil {
		return nil, err
	}
	w := &rspec.AdWindow{From: now.Truncate(time.Second), Until: end}
	if start.After(now.Add(startTolerance)) {
		w.From = start
	}
	if end.IsZero() {
		w.Until = w.From.Add(s.cfg.Leases.Provisioned)
	}
	most := s.cfg.Leases.AheadMax
	switch {
	case most == 0 && w.From.After(now):
		return nil, errNothingAhead()
	case w.From.After(now.Add(most)):
		return nil, am.Errorf(am.BadArgs, "geni_start_time %s is too late: this aggregate reserves until %s", start.Format(time.RFC3339), earliest(now.Add(most)).Format(time.RFC3339)).With(am.OutOfRange)
	case !w.Until.After(w.From):
		return nil, am.Errorf(am.BadArgs, "geni_end_time %s is not after geni_start_time %s", end.Format(time.RFC3339), start.Format(time.RFC3339)).With(am.OutOfRange)
	}
	return w, nil
}

func errNothingAhead() error {
	return am.Errorf(am.Unsupported, "option geni_start_time: this aggregate reserves nothing ahead; leave it out")
}
