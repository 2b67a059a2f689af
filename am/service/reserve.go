package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Allocate binds the request's own nodes to components and reserves them, all
// or nothing (AM API v3, Allocate). The manifest covers the slivers of this
// call only. The lease is short: Provision or Renew prolong it.
//
// Providers that want to be asked are asked before anything is promised (see
// Prober), which may take as long as they do.
//
// Errors: Forbidden, Unavailable while the site is locked down, Refused by the
// site's policy, SearchFailed for a request without a node for us, Exists
// for a client_id the slice has already, those of binder.Bind, and what
// providers say in words of theirs.
func (s *Service) Allocate(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return s.reserve(ctx, reservation{event: "Allocate", grant: g, slice: slice, request: req, options: o})
}

// CreateSliver is Allocate, Provision and geni_start in one, all or nothing (AM
// API v2, CreateSliver). The work goes on after the answer.
//
// Errors: those of Allocate; Exists for a slice that has slivers; TooBig for
// too many keys.
func (s *Service) CreateSliver(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return s.reserve(ctx, reservation{event: "CreateSliver", grant: g, slice: slice, request: req, options: o, create: true})
}

// reservation is what Allocate and CreateSliver have in common.
type reservation struct {
	event   string
	grant   credentials.Grant
	slice   urn.URN
	request *rspec.Request
	options ProvisionOptions
	// create has the slivers made at once, with accounts for the users, in a slice that has
	// none yet, as CreateSliver does.
	create bool
	// avoid are components that have refused a node.
	avoid []urn.URN
	// claims are the names of the request.
	claims claims
}

// conditions are what a decision about a reservation goes by.
type conditions struct {
	until    time.Time      // the end of the credential
	permit   *policy.Permit // what the caller may have
	accounts []am.Account   // of the users, with their logins
}

// reserved is what a reservation has reserved.
type reserved struct {
	document  string
	inventory *inventory.Inventory // by which it was bound
	binding   binder.Binding
	slivers   []am.Sliver
	cut       cutLeases
	// asking says that their providers want to be asked before more is promised:
	// the lease ends soon.
	asking bool
}

// reserve commits the reservation and what follows it, all or nothing. That is
// one decision, unless providers want to be asked in between.
func (s *Service) reserve(ctx context.Context, r reservation) (Outcome, error) {
	r.claims = claimsOf(r.request)
	t, err := s.bindSlivers(ctx, r)
	if err == nil && t.asking {
		t, err = s.askProviders(ctx, r, t)
	}
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Slice: r.slice, Slivers: reports(t.slivers)}
	out.Notices = append(rspec.Lines(r.request.Notices), Notices(Remarks(t.inventory, r.request, t.binding))...)
	out.Notices = append(out.Notices, t.cut.texts()...)
	out.Manifest, err = s.writeManifest(out.Slivers, map[string]*rspec.Request{t.document: r.request})
	return out, err
}

// bindSlivers decides and commits who serves the nodes. Leases that are over and still
// hold components are ended first if the request is refused for what others hold.
func (s *Service) bindSlivers(ctx context.Context, r reservation) (reserved, error) {
	t, err := s.bindOnce(ctx, r)
	if err != nil && mayBeHeld(err) && s.endLeases(ctx) {
		t, err = s.bindOnce(ctx, r)
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

// begin checks what a reservation needs whatever is free, and gives its conditions. It is
// called in each decision about it: first in the one that binds its slivers.
func (s *Service) begin(v *store.View, r *reservation, first bool) (t conditions, err error) {
	if t.until, err = rightOver(v, r.grant, r.slice); err != nil {
		return t, err
	}
	if err := s.checkLockdown(); err != nil {
		return t, err
	}
	t.permit = s.cfg.Policy.For(r.grant.Caller(), r.slice)
	if err := t.permit.Begin(); err != nil || !r.create {
		return t, err
	}
	if first {
		live, err := liveSlivers(v, r.slice)
		if err != nil {
			return t, err
		}
		if len(live) > 0 {
			return t, am.Errorf(am.Exists, "slice %s has %d slivers here already; in version 2 a slice is made once: DeleteSliver first, or add to it by Allocate of version 3", r.slice, len(live)).About(r.slice)
		}
	}
	if t.accounts, _, err = nameAccounts(v, r.slice, r.options.Users); err != nil {
		return t, err
	}
	return t, boundAccounts(t.accounts, len(r.request.Nodes))
}

// bindOnce is bindSlivers without another try.
func (s *Service) bindOnce(ctx context.Context, r reservation) (reserved, error) {
	doc := am.Document{
		ID: uuid.NewString(), Slice: r.slice, Text: r.request.Text(), Managers: r.request.Managers,
		Bytes: r.request.UnionBytes(), Elements: r.request.Elements(),
	}
	var t reserved
	err := s.commit(ctx, r.grant, Targets{Slice: r.slice}, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		by, err := s.begin(v, &r, true)
		if err != nil {
			return cs, err
		}
		t = reserved{document: doc.ID, inventory: s.Inventory()}
		if t.slivers, t.binding, err = s.bind(v, r, by, doc); err != nil {
			return cs, err
		}
		for i := range t.slivers {
			// As far as Provision would go, for it is told before.
			t.cut.note(&t.slivers[i], s.nextMaintenance(v.Now(), s.leaseEnd(v.Now().UTC(), by.until, r.options.EndTime), &t.slivers[i]))
		}
		doc.Received = v.Now().UTC()
		cs.PutDocument(doc)
		if t.asking = s.mustAsk(t.slivers); t.asking {
			end := earliest(v.Now().UTC().Add(s.cfg.Prober.Longest()+askMargin), by.until)
			for i := range t.slivers {
				t.slivers[i].Expires, t.slivers[i].AskedUntil = end, end
				cs.PutSliver(t.slivers[i])
			}
			return cs, touch(&cs, v, r.slice)
		}
		return cs, s.finish(v, &cs, r, by, t.slivers)
	})
	return t, err
}

// finish puts reserved slivers, with the task to make them if that is asked for, and
// the entry of the journal.
func (s *Service) finish(v *store.View, cs *store.ChangeSet, r reservation, by conditions, slivers []am.Sliver) error {
	for i := range slivers {
		x := &slivers[i]
		if r.create {
			if err := s.promiseToMake(v, cs, x, provisioning{permit: by.permit, until: by.until, accounts: by.accounts, on: true, call: r.options.Call}); err != nil {
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
func (s *Service) bind(v *store.View, r reservation, by conditions, doc am.Document) ([]am.Sliver, binder.Binding, error) {
	now, wish := v.Now().UTC(), r.options.EndTime
	var none binder.Binding
	if len(r.request.Nodes) == 0 {
		return nil, none, am.Errorf(am.SearchFailed, "%s", r.request.Nothing(s.Inventory().Manager))
	}
	if err := cmp.Or(notPast(now, wish), boundSetup(r.request)); err != nil {
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
	if err := by.permit.Within(policy.Amount{Nodes: int64(len(r.request.Nodes))}); err != nil {
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
	binding, err := permitted(by.permit).Bind(avoid, r.request, s.cfg.Index, r.slice, held.addresses...)
	if err != nil {
		return nil, none, err
	}
	var all am.Amount
	for _, b := range binding.Nodes {
		all = all.Add(b.Amount)
	}
	if err := by.permit.Within(policy.Amount{Cores: all.Cores, Disk: all.Disk}); err != nil {
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
		x.Status, x.Created, x.Wish = status, now, wish
		x.Creator, x.Speaker, x.Request = r.grant.Caller(), r.grant.Speaker(), r.options.Request
		if err := s.lend(now, by, wish, &x); err != nil {
			return nil, none, err
		}
		slivers[i] = x
	}
	copiedLinks(r.claims, slivers)
	return slivers, binding, nil
}

// lend gives a new sliver the lease of a reservation, unless maintenance of what it is
// on has begun just now.
func (s *Service) lend(now time.Time, by conditions, wish time.Time, x *am.Sliver) error {
	if err := s.checkMaintenance(now, x); err != nil {
		return err
	}
	end := earliest(by.permit.First(now, x.Created, s.reservationEnd(now, by.until, wish)))
	x.Expires = s.beforeMaintenance(now, end, x)
	return nil
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
		URN:   urn.URN{Authority: inv.Manager.Authority, Type: urn.Sliver, Name: uuid.NewString()},
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
