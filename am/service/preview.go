package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/service/policy"
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
// writes no store, and does not apply the limits of users.
//
// Errors: those of Allocate that depend on the request, the inventory or the plan of maintenance.
func (s *Service) Preview(ctx context.Context, req *rspec.Request, slice urn.URN) (p Preview, err error) {
	a := attempt{Service: s, slice: slice, request: req, options: ProvisionOptions{Preview: true}, emptySite: true}
	defer a.freeMemory()
	p.Request = req
	if err := s.checkLockdown(); err != nil {
		return p, err
	}
	err = a.expand(ctx)
	p.Request, p.Notices = a.request, a.notices
	if err != nil {
		return p, err
	}
	if len(a.request.Nodes) == 0 {
		if a.request.IsEmpty() {
			return p, nil
		}
		return p, am.Errorf(am.SearchFailed, "%s", a.request.NoNodesReason(s.Inventory().Manager))
	}
	a.clientIDs = clientIDsOf(a.request)
	a.bindable = &binder.Request{Request: a.request, Slice: slice}
	err = a.bindEmptySite()
	p.Binding = a.binding
	if err != nil {
		return p, err
	}
	p.Remarks = remarksOf(a.inventory, a.request, a.binding, a.slivers)
	if a.mustProbe {
		err = a.probe(ctx)
	}
	if refused, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
		p.Refused, err = refused.Reasons, nil
	}
	return p, err
}

// bindEmptySite binds the request as if no sliver held anything.
func (a *attempt) bindEmptySite() error {
	a.inventory = a.Inventory()
	now := time.Now().UTC()
	a.window = window{from: now} // the lease can be renewed
	return a.bindNodes(&sliceContent{}, now, func(func(*am.Hold) bool) policy.Calendar { return func(func(*am.Hold) bool) error { return nil } })
}

// checkWithout fails if options.Without names a sliver that is not a live one of the slice.
func (a *attempt) checkWithout(v *store.View) error {
	if len(a.without) == 0 {
		return nil
	}
	live, err := liveSlivers(v, a.slice)
	if err != nil {
		return err
	}
	has := make(map[string]bool, len(live))
	for i := range live {
		has[live[i].URN.Key()] = true
	}
	for _, u := range a.options.Without {
		if !has[u.Key()] {
			return am.Errorf(am.SearchFailed, "option patchbay_preview: there is no sliver %s in this slice; it may be deleted or expired", u).About(u)
		}
	}
	return nil
}

// remaining returns the live slivers of the slice that a preview does not leave out.
func (a *attempt) remaining(v *store.View) ([]am.Sliver, error) {
	live, err := liveSlivers(v, a.slice)
	return slices.DeleteFunc(live, func(x am.Sliver) bool { return a.without[x.URN.Key()] }), err
}

// calendar returns the calendar up to the time until, without what the slivers in options.Without hold. The
// decision depends on the entries for which concerns returns true (see View.CalendarOf).
func (a *attempt) calendar(v *store.View, until time.Time, concerns func(*am.Hold) bool) policy.Calendar {
	return func(f func(*am.Hold) bool) error {
		return v.CalendarOf(until, concerns, func(h *am.Hold) bool { return a.without[string(h.Sliver)] || f(h) })
	}
}
