package service

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/inventory"
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
	// prepare finds out, once for all slivers, what follow needs; nil for nothing.
	prepare func(v *store.View) error
	// follow takes a sliver further once it is reserved; until is the end of the
	// credential. Nil for nothing.
	follow func(v *store.View, cs *store.ChangeSet, until time.Time, x *am.Sliver) error
	// avoid are components that have refused a node.
	avoid []*inventory.Component
}

// taken is what a reservation has taken.
type taken struct {
	document string
	binding  binder.Binding
	slivers  []am.Sliver
	// trial says that their providers want to be asked before more is promised:
	// the lease ends soon.
	trial bool
}

// reserve commits the reservation and what follows it, all or nothing. That is
// one decision, unless providers want to be asked in between.
func (s *Service) reserve(ctx context.Context, r reservation) (Outcome, error) {
	t, err := s.take(ctx, r)
	if err == nil && t.trial {
		t, err = s.try(ctx, r, t)
	}
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Slice: r.slice, Slivers: reports(t.slivers)}
	out.Notices = append(rspec.Lines(r.request.Notices), Remarks(s.cfg.Inventory, r.request, t.binding)...)
	s.requests.add(t.document, r.request)
	return s.withManifest(out)
}

// take decides and commits who serves the nodes.
func (s *Service) take(ctx context.Context, r reservation) (taken, error) {
	doc := am.Document{ID: newUUID(), Slice: r.slice, Text: r.request.Text()}
	var t taken
	err := s.commit(ctx, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		until, err := over(v, r.grant, r.slice)
		if err != nil {
			return cs, err
		}
		for _, ask := range []func(*store.View) error{r.admit, r.prepare} {
			if ask == nil {
				continue
			}
			if err := ask(v); err != nil {
				return cs, err
			}
		}
		t = taken{document: doc.ID}
		if t.slivers, t.binding, err = s.bind(v, r, doc.ID, until); err != nil {
			return cs, err
		}
		doc.Received = v.Now().UTC()
		cs.PutDocument(doc)
		if t.trial = s.wantsTrial(t.slivers); t.trial {
			end := s.trialEnd(v.Now().UTC(), until)
			for i := range t.slivers {
				t.slivers[i].Expires, t.slivers[i].AskedUntil = end, end
				cs.PutSliver(t.slivers[i])
			}
			return cs, touch(&cs, v, r.slice)
		}
		return cs, s.promiseTaken(v, &cs, r, until, t.slivers)
	})
	return t, err
}

// promiseTaken takes reserved slivers as far as they shall go, and puts them.
func (s *Service) promiseTaken(v *store.View, cs *store.ChangeSet, r reservation, until time.Time, slivers []am.Sliver) error {
	for i := range slivers {
		x := &slivers[i]
		if r.follow != nil {
			if err := r.follow(v, cs, until, x); err != nil {
				return err
			}
		}
		cs.PutSliver(*x)
	}
	if err := touch(cs, v, r.slice); err != nil {
		return err
	}
	journal(cs, v, r.grant, r.options.Call, r.event, r.slice, slivers)
	return nil
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
	if err := boundSetup(r.request); err != nil {
		return nil, none, err
	}
	held, err := s.heldNames(v, r.slice)
	if err != nil {
		return nil, none, err
	}
	if err := held.admit(r.request); err != nil {
		return nil, none, err
	}
	binding, err := binder.BindAvoiding(r.avoid, r.request, s.cfg.Index, r.slice, held.addresses...)
	if err != nil {
		return nil, none, err
	}
	status, err := am.Next(am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}, am.EventAllocate)
	if err != nil {
		return nil, none, err
	}
	slivers := make([]am.Sliver, len(binding.Nodes))
	for i, b := range binding.Nodes {
		x := bound(s.cfg.Inventory, r.slice, &b, &held.hostnames)
		x.Ordinal, x.Document = i, document
		x.Status, x.Created, x.Creator = status, now, r.grant.Caller()
		x.Expires, x.Wish = s.reservationEnd(now, until, wish), wish
		slivers[i] = x
	}
	return slivers, binding, nil
}

// bound is a new sliver for a node of a slice, with what it was bound to.
func bound(inv *inventory.Inventory, slice urn.URN, b *binder.Bound, names *am.Hostnames) am.Sliver {
	return am.Sliver{
		URN:   urn.URN{Authority: inv.Manager.Authority, Type: urn.Sliver, Name: newUUID()},
		Slice: slice, ClientID: b.Node.ClientID,
		Hostname:  names.For(b.Node.ClientID),
		Component: b.Component.URN, SliverType: b.SliverType.Name, Image: b.Image,
		Exclusive: b.Exclusive, Amount: b.Amount,
		Interfaces: b.Interfaces, Setup: setup(b.Node), PublicAddress: b.PublicAddress,
		Generation: 1,
	}
}
