package service

import (
	"context"
	"errors"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/policy"
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
// writes no store. permit has the limits of the user; nil for none.
//
// Errors: those of Allocate that depend on the request, the inventory or the plan of maintenance.
func (s *Service) Preview(ctx context.Context, req *rspec.Request, slice urn.URN, permit *policy.Permit) (p Preview, err error) {
	r := reservation{slice: slice, request: req}
	defer func() { r.freeMemory() }()
	p.Request = req
	if err := s.checkLockdown(); err != nil {
		return p, err
	}
	if err := permit.Begin(); err != nil {
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
		t.slivers, t.binding, err = s.choose(&r, permit, &sliceContent{}, time.Now().UTC(), nothing)
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
	_, err = s.probeProviders(ctx, r, t, probing{
		bind:         bind,
		confirm:      func(reservation, *reserved) error { return nil },
		release:      func(reservation, reserved) {},
		beingRemoved: func() ([]am.Sliver, error) { return nil, nil },
		isChanged:    func(am.Sliver) bool { return false },
	})
	if refused, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
		p.Refused, err = refused.Reasons, nil
	}
	return p, err
}
