package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/rspec"
)

// Preview is what Allocate would reserve if the site had no slivers.
type Preview struct {
	// Request is the request with the results of its templates, and Notices are the warnings about
	// the templates.
	Request *rspec.Request
	Notices []string
	Binding binder.Binding
	Remarks []Remark
	// Refused are the refusals of the dry runs. The code of a provider that did not answer is
	// ServerError or TimedOut.
	Refused []binder.Reason
}

// Preview does what Allocate does up to the reservation, as if the site had no slivers. It reads and
// writes no store, and knows no limits of users.
//
// Errors: those of Allocate that depend on the request, the inventory or the plan of maintenance.
func (s *Service) Preview(ctx context.Context, req *rspec.Request, slice urn.URN) (p Preview, err error) {
	r := reservation{slice: slice, request: req}
	defer func() { r.freeMemory() }()
	p.Request = req
	if err := s.checkLockdown(); err != nil {
		return p, err
	}
	err = s.expand(ctx, &r, func(context.Context, *reservation) (Known, error) { return s.requestNames(&r), nil })
	p.Request, p.Notices = r.request, r.notices
	if err != nil {
		return p, err
	}
	if len(r.request.Nodes) == 0 {
		if r.request.IsEmpty() {
			return p, nil
		}
		return p, am.Errorf(am.SearchFailed, "%s", r.request.NoNodesReason(s.Inventory().Manager))
	}
	r.clientIDs = clientIDsOf(r.request)
	r.bindable = &binder.Request{Request: r.request, Slice: slice}
	bind := func(r reservation) (t reserved, err error) {
		nothing := func(func(*am.Hold) bool) error { return nil }
		t.slivers, t.binding, err = s.choose(&r, "", nil, &sliceContent{}, time.Now().UTC(), nothing)
		t.mustProbe = err == nil && s.mustProbe(t.slivers)
		return t, err
	}
	t, err := bind(r)
	p.Binding = t.binding
	if err != nil {
		return p, err
	}
	p.Remarks = remarksOf(s.Inventory(), r.request, t.binding, t.slivers)
	if !t.mustProbe {
		return p, nil
	}
	_, err = s.probeProviders(ctx, r, t, previewing(bind, func() ([]am.Sliver, error) { return nil, nil }))
	if refused, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
		p.Refused, err = refused.Reasons, nil
	}
	return p, err
}

// previewOnce decides about a call of Allocate with the option Preview. It reads the store only.
func (s *Service) previewOnce(r reservation, doc am.Document) (t reserved, err error) {
	err = s.cfg.Store.Read(func(v *store.View) error {
		by, err := s.checkReservation(v, &r, true)
		if err != nil {
			return err
		}
		t, err = s.bind(v, r, by, doc)
		_, probed := t.probed()
		t.mustProbe = err == nil && s.mustProbe(probed)
		return err
	})
	return t, err
}

// checkWithout fails for a sliver in Without that is not among the live ones of the slice.
func (r *reservation) checkWithout(v *store.View) error {
	if len(r.without) == 0 {
		return nil
	}
	live, err := liveSlivers(v, r.slice)
	if err != nil {
		return err
	}
	has := make(map[string]bool, len(live))
	for i := range live {
		has[live[i].URN.Key()] = true
	}
	for _, u := range r.options.Without {
		if !has[u.Key()] {
			return am.Errorf(am.SearchFailed, "option patchbay_preview: there is no sliver %s in this slice; it may be deleted or expired", u).About(u)
		}
	}
	return nil
}

// remaining returns the live slivers of the slice that a preview does not leave out.
func (r *reservation) remaining(v *store.View) ([]am.Sliver, error) {
	live, err := liveSlivers(v, r.slice)
	return slices.DeleteFunc(live, func(x am.Sliver) bool { return r.without[x.URN.Key()] }), err
}

// calendar leaves out what the slivers in Without hold.
func (r *reservation) calendar(v *store.View) policy.Calendar {
	if len(r.without) == 0 {
		return v.Calendar
	}
	return func(f func(*am.Hold) bool) error {
		return v.Calendar(func(h *am.Hold) bool { return r.without[string(h.Sliver)] || f(h) })
	}
}
