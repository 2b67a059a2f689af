package service

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// reservation is what Allocate and CreateSliver have in common.
type reservation struct {
	event   string
	grant   credentials.Grant
	slice   urn.URN
	request *rspec.Request
	options AllocateOptions
	// admit refuses a slice that may not have more; nil admits all.
	admit func(v *store.View) error
	// follow takes a sliver further once it is reserved; until is the end of the
	// credential. Nil for nothing.
	follow func(v *store.View, cs *store.ChangeSet, until time.Time, x *am.Sliver) error
}

// reserve commits the reservation and what follows it, all or nothing.
func (s *Service) reserve(ctx context.Context, r reservation) (Outcome, error) {
	doc := am.Document{ID: newUUID(), Slice: r.slice, Text: r.request.Text()}
	var out Outcome
	var binding binder.Binding
	err := s.commit(ctx, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		until, err := over(v, r.grant, r.slice)
		if err != nil {
			return cs, err
		}
		if r.admit != nil {
			if err := r.admit(v); err != nil {
				return cs, err
			}
		}
		var slivers []am.Sliver
		if slivers, binding, err = s.bind(v, r, doc.ID, until); err != nil {
			return cs, err
		}
		out = Outcome{Slice: r.slice}
		for i := range slivers {
			x := &slivers[i]
			if r.follow != nil {
				if err := r.follow(v, &cs, until, x); err != nil {
					return cs, err
				}
			}
			cs.PutSliver(*x)
			out.Slivers = append(out.Slivers, Report{Sliver: *x})
		}
		doc.Received = v.Now().UTC()
		cs.PutDocument(doc)
		if err := touch(&cs, v, r.slice); err != nil {
			return cs, err
		}
		journal(&cs, v, r.grant, r.options.Call, r.event, r.slice, slivers)
		return cs, nil
	})
	if err != nil {
		return Outcome{}, err
	}
	out.Notices = append(rspec.Lines(r.request.Notices), Remarks(s.cfg.Inventory, r.request, binding)...)
	s.requests.add(doc.ID, r.request)
	return s.withManifest(out)
}

// bind chooses who serves the request's nodes, and makes a sliver of each.
func (s *Service) bind(v *store.View, r reservation, document string, until time.Time) ([]am.Sliver, binder.Binding, error) {
	now, wish := v.Now().UTC(), r.options.EndTime
	var none binder.Binding
	switch {
	case len(r.request.Nodes) == 0:
		return nil, none, am.Errorf(am.SearchFailed, "the request has no node for this aggregate (%s); it is asked for by that component_manager_id, or by none", s.cfg.Inventory.Manager)
	case !wish.IsZero() && !wish.After(now):
		return nil, none, am.Errorf(am.BadArgs, "geni_end_time %s is in the past", wish.Format(time.RFC3339)).With(am.OutOfRange)
	}
	held, err := s.heldNames(v, r.slice)
	if err != nil {
		return nil, none, err
	}
	if err := held.admit(r.request); err != nil {
		return nil, none, err
	}
	binding, err := binder.Bind(r.request, s.cfg.Index, r.slice, held.addresses...)
	if err != nil {
		return nil, none, err
	}
	status, err := am.Next(am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}, am.EventAllocate)
	if err != nil {
		return nil, none, err
	}
	slivers := make([]am.Sliver, len(binding.Nodes))
	for i, b := range binding.Nodes {
		slivers[i] = am.Sliver{
			URN:   urn.URN{Authority: s.cfg.Inventory.Manager.Authority, Type: urn.Sliver, Name: newUUID()},
			Slice: r.slice, ClientID: b.Node.ClientID, Ordinal: i, Document: document,
			Hostname:  held.hostnames.For(b.Node.ClientID),
			Component: b.Component.URN, SliverType: b.SliverType.Name, Image: b.Image,
			Exclusive: b.Exclusive, Amount: b.Amount,
			Interfaces: b.Interfaces, PublicAddress: b.PublicAddress,
			Status: status, Created: now, Creator: r.grant.Caller(),
			Expires:    s.reservationEnd(now, until, wish),
			Wish:       wish,
			Generation: 1,
		}
	}
	return slivers, binding, nil
}
