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
	// follow takes a sliver further once it is reserved, as far as the permit goes;
	// until is the end of the credential. Nil for nothing.
	follow func(v *store.View, cs *store.ChangeSet, p *policy.Permit, until time.Time, x *am.Sliver) error
	// avoid are components that have refused a node.
	avoid []urn.URN
	// permit is what the caller may have, by the rules of the decision.
	permit *policy.Permit
	// claims are the names of the request.
	claims claims
}

// taken is what a reservation has taken.
type taken struct {
	document  string
	inventory *inventory.Inventory // by which it was bound
	binding   binder.Binding
	slivers   []am.Sliver
	cut       cutLeases
	// trial says that their providers want to be asked before more is promised:
	// the lease ends soon.
	trial bool
}

// reserve commits the reservation and what follows it, all or nothing. That is
// one decision, unless providers want to be asked in between.
func (s *Service) reserve(ctx context.Context, r reservation) (Outcome, error) {
	r.claims = claimsOf(r.request)
	t, err := s.take(ctx, r)
	if err == nil && t.trial {
		t, err = s.try(ctx, r, t)
	}
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Slice: r.slice, Slivers: reports(t.slivers)}
	out.Notices = append(rspec.Lines(r.request.Notices), Remarks(t.inventory, r.request, t.binding)...)
	out.Notices = append(out.Notices, t.cut.texts()...)
	out.Manifest, err = s.writeManifest(out.Slivers, map[string]*rspec.Request{t.document: r.request})
	return out, err
}

// take decides and commits who serves the nodes. What is held by a lease that is over
// is held by nobody: it is ended before it stands in anybody's way.
func (s *Service) take(ctx context.Context, r reservation) (taken, error) {
	t, err := s.takeNow(ctx, r)
	if err != nil && mayBeHeld(err) && s.endLeases(ctx) {
		t, err = s.takeNow(ctx, r)
	}
	return t, err
}

// mayBeHeld tells whether something was refused for what others hold.
func mayBeHeld(err error) bool {
	_, unsatisfied := errors.AsType[*binder.UnsatisfiedError](err)
	return unsatisfied || am.CodeOf(err) == am.Refused
}

// endLeases tells whether leases were over, and are ended now.
func (s *Service) endLeases(ctx context.Context) bool {
	if s.cfg.EndLeases == nil {
		return false
	}
	over := false
	err := s.cfg.Store.Read(func(v *store.View) error {
		due, _, err := v.Due(1)
		over = len(due) > 0
		return err
	})
	return err == nil && over && s.cfg.EndLeases(ctx) == nil
}

// takeNow is take, once.
func (s *Service) takeNow(ctx context.Context, r reservation) (taken, error) {
	doc := am.Document{
		ID: newUUID(), Slice: r.slice, Text: r.request.Text(), Managers: r.request.Managers,
		Bytes: r.request.UnionBytes(), Elements: r.request.Elements(),
	}
	var t taken
	err := s.commit(ctx, r.grant, Targets{Slice: r.slice}, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		until, err := over(v, r.grant, r.slice)
		if err != nil {
			return cs, err
		}
		if err := s.open(); err != nil {
			return cs, err
		}
		r.permit = s.cfg.Policy.For(r.grant.Caller(), r.slice)
		if err := r.permit.Begin(); err != nil {
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
		t = taken{document: doc.ID, inventory: s.Inventory()}
		if t.slivers, t.binding, err = s.bind(v, r, doc, until); err != nil {
			return cs, err
		}
		for i := range t.slivers {
			// As far as Provision would go, for it is told before.
			t.cut.note(&t.slivers[i], s.next(v.Now(), s.leaseEnd(v.Now().UTC(), until, r.options.EndTime), &t.slivers[i]))
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
			if err := r.follow(v, cs, r.permit, until, x); err != nil {
				return err
			}
		}
		cs.PutSliver(*x)
	}
	if err := touch(cs, v, r.slice); err != nil {
		return err
	}
	journal(cs, v, r.grant, r.options.Call, r.event, "", r.slice, slivers)
	return nil
}

// bind chooses who serves the request's nodes, and makes a sliver of each.
func (s *Service) bind(v *store.View, r reservation, doc am.Document, until time.Time) ([]am.Sliver, binder.Binding, error) {
	now, wish := v.Now().UTC(), r.options.EndTime
	var none binder.Binding
	switch {
	case len(r.request.Nodes) == 0:
		return nil, none, am.Errorf(am.SearchFailed, "the request has no node for this aggregate (%s); it is asked for by that component_manager_id, or by none", s.Inventory().Manager)
	case !wish.IsZero() && !wish.After(now):
		return nil, none, am.Errorf(am.BadArgs, "geni_end_time %s is in the past", wish.Format(time.RFC3339)).With(am.OutOfRange)
	}
	if err := boundSetup(r.request); err != nil {
		return nil, none, err
	}
	held, err := heldBy(v, r.slice, r.claims)
	if err != nil {
		return nil, none, err
	}
	if err := held.admit(r.claims); err != nil {
		return nil, none, err
	}
	if held.bytes > 0 { // a request that stands alone has been judged
		if why := s.cfg.Reading.Limits.SliceTooBig(held.bytes, held.elements, held.bytes+doc.Bytes, held.elements+doc.Elements); why != "" {
			return nil, none, am.Errorf(am.TooBig, "%s", why).About(r.slice)
		}
	}
	if err := r.permit.Nodes(len(r.request.Nodes)); err != nil {
		return nil, none, err
	}
	s.cfg.Index.Advance(now)
	inv := s.Inventory()
	var avoid []*inventory.Component // by now
	for _, u := range r.avoid {
		if c, ok := inv.Component(u); ok {
			avoid = append(avoid, c)
		}
	}
	binding, err := permitted(r.permit).Bind(avoid, r.request, s.cfg.Index, r.slice, held.addresses...)
	if err != nil {
		return nil, none, err
	}
	var all am.Amount
	for _, b := range binding.Nodes {
		all = all.Add(b.Amount)
	}
	if err := r.permit.Cores(all.Cores); err != nil {
		return nil, none, err
	}
	if err := r.permit.Disk(all.Disk); err != nil {
		return nil, none, err
	}
	status, err := am.Next(am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}, am.EventAllocate)
	if err != nil {
		return nil, none, err
	}
	slivers := make([]am.Sliver, len(binding.Nodes))
	for i, b := range binding.Nodes {
		x := bound(inv, r.slice, &b, &held.hostnames)
		x.Ordinal, x.Document = i, doc.ID
		x.Status, x.Created = status, now
		x.Creator, x.Speaker, x.Request = r.grant.Caller(), r.grant.Speaker(), r.options.Request
		if err := s.serving(now, &x); err != nil { // it has begun just now
			return nil, none, err
		}
		end := earliest(r.permit.First(now, now, s.reservationEnd(now, until, wish)))
		x.Expires, x.Wish = s.beforeMaintenance(now, end, &x), wish
		slivers[i] = x
	}
	copiedLinks(r.claims, slivers)
	return slivers, binding, nil
}

// permitted is what the binder may choose from.
func permitted(p *policy.Permit) (b binder.Permit) {
	b.Components, b.NoComponent = p.Components()
	b.SliverTypes, b.NoSliverType = p.SliverTypes()
	return b
}

// bound is a new sliver for a node of a slice, with what it was bound to.
func bound(inv *inventory.Inventory, slice urn.URN, b *binder.Bound, names *am.Hostnames) am.Sliver {
	x := am.Sliver{
		URN:   urn.URN{Authority: inv.Manager.Authority, Type: urn.Sliver, Name: newUUID()},
		Slice: slice, ClientID: b.Node.ClientID,
		Hostname:  names.For(b.Node.ClientID),
		Component: b.Component.URN, ComponentName: b.Component.Name, Provider: b.Component.Provider,
		SliverType: b.SliverType.Name, Image: b.Image,
		Exclusive: b.Exclusive, Amount: b.Amount,
		Interfaces: named(inv, b.Interfaces), Setup: setup(b.Node), PublicAddress: b.PublicAddress,
		Generation: 1,
	}
	remember(inv, &x)
	return x
}

// named are interfaces with the names of the physical ones on their components.
func named(inv *inventory.Inventory, bound []am.Interface) []am.Interface {
	all := slices.Clone(bound)
	for i := range all {
		if x, ok := inv.Interface(all[i].Component); ok {
			all[i].ComponentName = x.Name
		}
	}
	return all
}
