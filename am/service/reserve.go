package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/lease"
	"patchbay/am/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/hostname"
)

// Allocate binds the request's nodes for this aggregate to components and reserves these
// components, all or none (AM API v3, Allocate). The manifest contains only the slivers of this
// call. The lease is short; Provision and Renew prolong it.
//
// Before Allocate confirms the reservation, it runs a dry run at the providers that want one (see
// Prober).
//
// An empty request (see rspec.Request.IsEmpty) reserves nothing, and a notice says so.
//
// Allocate compiles the templates of the request (see Config.Compile), and continues with the
// result. If they deploy nothing, the request is stored for later ones of the slice.
//
// Errors: Forbidden, Unavailable while the site is locked down, Refused by the site's
// policy, SearchFailed for any other request without a node for this aggregate, Exists for a
// client_id that the slice uses already, those of binder.Bind, and providers' refusals.
func (s *Service) Allocate(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return s.reserve(ctx, reservation{event: "Allocate", grant: g, slice: slice, request: req, options: o})
}

// CreateSliver does Allocate, Provision and geni_start in one step, all or nothing (AM
// API v2, CreateSliver). It does not wait until the slivers are created.
//
// Errors: those of Allocate; Exists for a slice that has slivers; TooBig for
// too many keys.
func (s *Service) CreateSliver(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return s.reserve(ctx, reservation{event: "CreateSliver", grant: g, slice: slice, request: req, options: o, create: true})
}

// reservation is a call of Allocate or CreateSliver.
type reservation struct {
	event   string
	grant   credentials.Grant
	slice   urn.URN
	request *rspec.Request
	options ProvisionOptions
	// create is set by CreateSliver. The slice must have no slivers. The new slivers are
	// provisioned at once, with accounts for the users.
	create bool
	// avoid lists the components that a dry run refused.
	avoid     []urn.URN
	clientIDs clientIDs
	// without has the keys of options.Without.
	without map[string]bool
	// bindable is the request in the form for the binder.
	bindable *binder.Request
	// basis is the revision of the slice with which templates were compiled; nil if none were.
	// The notices are warnings about them.
	basis   *store.Rev
	notices []string
	// release contains functions that free the memory of templates and documents.
	release []func()
}

// hold takes the results of Memory.Hold. freeMemory releases what it holds.
func (r *reservation) hold(release func(), err error) error {
	if err == nil {
		r.release = append(r.release, release)
	}
	return err
}

func (r *reservation) freeMemory() {
	for _, release := range r.release {
		release()
	}
}

type conditions struct {
	until    time.Time      // the end of the credential
	permit   *policy.Permit // the policy's limits for the caller
	accounts []am.Account   // with logins
}

type reserved struct {
	document  string
	unsaved   *am.Document         // the document, if it is saved only after the dry run
	inventory *inventory.Inventory // of the binding
	binding   binder.Binding
	slivers   []am.Sliver
	// kept are the slivers that a change keeps, as they were, by client_id.
	kept map[string]*am.Sliver
	// others are the live slivers of the slice beside these.
	others []am.Sliver
	// definedUntil is the time until which a request is remembered that only defines; zero for
	// other requests.
	definedUntil time.Time
	cut          shortenedLeases
	// mustProbe means that a dry run must follow. Until its end, the slivers have a very short
	// lease.
	mustProbe bool
}

// reserve compiles the templates of the request again if another call changes the slice.
func (s *Service) reserve(ctx context.Context, r reservation) (out Outcome, err error) {
	r.without = make(map[string]bool, len(r.options.Without))
	for _, u := range r.options.Without {
		r.without[u.Key()] = true
	}
	for range maxExpansions {
		if out, err = s.reserveOnce(ctx, r); !errors.Is(err, errChanged) {
			break
		}
	}
	return out, err
}

// reserveOnce commits all or nothing: in one decision, or in two with a dry run between them.
func (s *Service) reserveOnce(ctx context.Context, r reservation) (Outcome, error) {
	defer func() { r.freeMemory() }()
	if err := s.expand(ctx, &r, s.knownNames); err != nil {
		return Outcome{}, err
	}
	r.clientIDs = clientIDsOf(r.request)
	r.bindable = &binder.Request{Request: r.request, Slice: r.slice, Permit: binderPermit(s.cfg.Policy.For(r.grant.Caller(), r.slice))}
	r.bindable.Prepare(s.Inventory()) // outside of the decision, for which others wait
	t, err := s.bindSlivers(ctx, r)
	r.basis = nil // this call has changed the slice
	if err == nil && t.mustProbe {
		t, err = s.probeProviders(ctx, r, t, s.reserving(ctx, r))
	}
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Slice: r.slice}
	if !r.options.Preview {
		out.Slivers = reportsOf(t.slivers)
	}
	names := hostname.Name(append(namesOf(t.others), namesOf(t.slivers)...))[len(t.others):]
	out.Notices = slices.Concat(r.notices, rspec.Lines(r.request.NoticesFor(names)), Notices(remarksOf(t.inventory, r.request, t.binding, t.slivers)))
	switch {
	case r.options.Preview:
		out.Notices = append(out.Notices, "nothing is reserved: this was a preview")
	case !t.definedUntil.IsZero():
		out.Notices = append(out.Notices, "nothing is reserved, because the templates deploy nothing; later requests of the slice may refer to what they define, until "+t.definedUntil.Format(time.RFC3339))
	case len(t.slivers) == 0:
		out.Notices = append(out.Notices, "nothing is reserved: "+r.request.NoNodesReason(t.inventory.Manager))
	}
	out.Notices = append(out.Notices, t.cut.texts()...)
	out.Manifest, err = s.writeManifest(out.Slivers, []am.Document{{ID: t.document}}, map[string]*rspec.Request{t.document: r.request})
	return out, err
}

// bindSlivers binds the nodes and commits the reservation. If components in use may be the reason
// for a refusal, it releases the slivers whose lease has ended, and tries once more.
func (s *Service) bindSlivers(ctx context.Context, r reservation) (reserved, error) {
	t, err := s.bindOnce(ctx, r)
	if err != nil && mayBeInUse(err) && s.endLeases(ctx) {
		t, err = s.bindOnce(ctx, r)
	}
	return t, err
}

func mayBeInUse(err error) bool {
	_, unsatisfied := errors.AsType[*binder.UnsatisfiedError](err)
	return unsatisfied || am.CodeOf(err) == am.Refused
}

// endLeases reports whether it has released any sliver.
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

// checkReservation checks everything that does not depend on free components. Each decision about
// the reservation calls it. isBinding is true in the decision that binds the slivers. Only then
// must the slice of a CreateSliver have no slivers.
func (s *Service) checkReservation(v *store.View, r *reservation, isBinding bool) (t conditions, err error) {
	if t.until, err = checkRight(v, r.grant, r.slice); err != nil {
		return t, err
	}
	if err := s.checkLockdown(); err != nil {
		return t, err
	}
	t.permit = s.cfg.Policy.For(r.grant.Caller(), r.slice)
	if err := t.permit.Begin(); err != nil || !r.create {
		return t, err
	}
	if isBinding {
		live, err := liveSlivers(v, r.slice)
		if err != nil {
			return t, err
		}
		if len(live) > 0 {
			return t, am.Errorf(am.Exists, "slice %s has %d slivers here already; version 2 creates a slice only once: DeleteSliver first, or add to it by Allocate of version 3", r.slice, len(live)).About(r.slice)
		}
	}
	if t.accounts, _, err = nameAccounts(v, r.slice, r.options.Users); err != nil {
		return t, err
	}
	return t, limitAccounts(t.accounts, len(r.request.Nodes))
}

func (s *Service) bindOnce(ctx context.Context, r reservation) (reserved, error) {
	doc := am.Document{
		ID: uuid.NewString(), Slice: r.slice, Text: r.request.Text(), Managers: r.request.Managers,
		Bytes: r.request.UnionBytes(), Elements: r.request.Elements(),
	}
	for _, x := range r.request.Expanded {
		doc.Sources += len(x.Text)
	}
	if r.options.Preview {
		return s.previewOnce(r, doc)
	}
	var t reserved
	err := s.commit(ctx, r.grant, Targets{Slice: r.slice}, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		by, err := s.checkReservation(v, &r, true)
		if err != nil {
			return cs, err
		}
		if r.basis != nil && *r.basis != v.Rev(store.SliceKey(r.slice)) {
			return cs, &am.Error{Code: am.ServerBusy, URN: r.slice, Msg: "other calls change the slice while its templates are compiled; try again", Err: errChanged}
		}
		if t, err = s.bind(v, r, by, doc); err != nil {
			return cs, err
		}
		if len(t.slivers) == 0 {
			rec, err := s.define(v, &cs, r, by, doc)
			t.definedUntil = rec.DefinedUntil
			return cs, err
		}
		for i := range t.slivers {
			if t.kept[t.slivers[i].ClientID] != nil {
				continue
			}
			// The remark is about the later lease after Provision. So users learn early that it
			// is shortened.
			t.cut.note(&t.slivers[i], s.nextMaintenance(v.Now(), s.leaseEnd(v.Now().UTC(), by.until, r.options.EndTime), &t.slivers[i]))
		}
		doc.Received = v.Now().UTC()
		_, probed := t.probed()
		if t.mustProbe = s.mustProbe(probed); t.mustProbe && len(t.added()) == 0 { // nothing is reserved meanwhile
			t.unsaved = &doc
			return cs, nil
		}
		cs.PutDocument(doc)
		if t.mustProbe {
			end := earliest(v.Now().UTC().Add(s.cfg.Prober.Timeout()+probeMargin), by.until)
			for i := range t.slivers {
				if t.kept[t.slivers[i].ClientID] == nil { // kept ones change afterwards
					t.slivers[i].Expires, t.slivers[i].ProbedUntil = end, end
					cs.PutSliver(t.slivers[i])
				}
			}
			return cs, countChange(&cs, v, r.slice)
		}
		return cs, s.store(v, &cs, r, by, &t)
	})
	return t, err
}

// store also provisions the slivers if r.create is set.
func (s *Service) store(v *store.View, cs *store.ChangeSet, r reservation, by conditions, t *reserved) error {
	var before []am.Sliver
	for i := range t.slivers {
		x := &t.slivers[i]
		if was := t.kept[x.ClientID]; was != nil {
			before = append(before, *was)
			if err := s.changeSliver(v, cs, was, x, r.options.Call); err != nil {
				return err
			}
			continue
		}
		if r.create {
			if err := s.provision(v, cs, x, provisioning{permit: by.permit, until: by.until, accounts: by.accounts, on: true, call: r.options.Call}); err != nil {
				return err
			}
		}
		cs.PutSliver(*x)
	}
	if err := countChange(cs, v, r.slice); err != nil {
		return err
	}
	text := ""
	if len(before) > 0 {
		text = fmt.Sprintf("changed %d of %d slivers", len(before), len(t.slivers))
		if err := lease.DropDocuments(v, cs, r.slice, before); err != nil {
			return err
		}
	}
	journal(cs, v, r.grant, r.options.Call, r.event, text, r.slice, t.slivers)
	return nil
}

// bind returns a sliver for each node; none for an empty request. In a change, these are also the
// kept ones.
func (s *Service) bind(v *store.View, r reservation, by conditions, doc am.Document) (t reserved, err error) {
	t.document, t.inventory = doc.ID, s.Inventory()
	now, requested := v.Now().UTC(), r.options.EndTime
	empty := len(r.request.Nodes) == 0 && r.request.IsEmpty()
	if len(r.request.Nodes) == 0 && !empty {
		return t, am.Errorf(am.SearchFailed, "%s", r.request.NoNodesReason(s.Inventory().Manager))
	}
	if err := checkEndTime(now, requested); err != nil || empty {
		return t, err
	}
	if err := r.checkWithout(v); err != nil {
		return t, err
	}
	held, err := readContent(v, &r)
	if err != nil {
		return t, err
	}
	if held.bytes > 0 { // the parser has checked only the new request
		if why := s.cfg.Reading.Limits.SliceTooBig(held.bytes, held.elements, held.bytes+doc.Bytes, held.elements+doc.Elements); why != "" {
			return t, am.Errorf(am.TooBig, "%s", why).About(r.slice)
		}
	}
	slivers, binding, err := s.choose(&r, doc.ID, by.permit, held, now, r.calendar(v))
	if err != nil {
		return t, err
	}
	status, err := am.Next(am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}, am.EventAllocate)
	if err != nil {
		return t, err
	}
	for i := range slivers {
		x := &slivers[i]
		x.Document = doc.ID
		if was := held.kept[x.ClientID]; was != nil {
			if err := s.checkChange(v, was, x); err != nil {
				return t, err
			}
			continue
		}
		x.Status, x.Created, x.RequestedEnd = status, now, requested
		x.Creator, x.Speaker, x.Request = r.grant.Caller(), r.grant.Speaker(), r.options.Request
		if err := s.setReservationLease(now, by, requested, x); err != nil {
			return t, err
		}
	}
	t.slivers, t.binding, t.kept, t.others = slivers, binding, held.kept, held.live
	return t, nil
}

// choose binds the request, which will be the document, beside what the slice holds, and returns a sliver for each node, with its
// setup but without its lease. It is the part of Allocate and Preview that depends on the request.
func (s *Service) choose(r *reservation, document string, permit *policy.Permit, held *sliceContent, now time.Time, calendar policy.Calendar) (slivers []am.Sliver, binding binder.Binding, err error) {
	if err := held.checkClientIDs(r.clientIDs); err != nil {
		return nil, binding, err
	}
	inUse := func(user, slice urn.URN) (policy.Held, error) {
		return calendar.Held(user, slice, now, time.Time{}, now)
	}
	if err := permit.Within(policy.Amount{Nodes: int64(len(r.request.Nodes) - len(held.kept))}, inUse); err != nil {
		return nil, binding, err
	}
	inv := s.Inventory()
	r.bindable.Permit, r.bindable.Addresses, r.bindable.Existing, r.bindable.Avoid = binderPermit(permit), held.addresses, held.joined, nil
	r.bindable.Kept = held.kept
	for _, u := range r.avoid {
		if c, ok := inv.Component(u); ok { // the inventory still has it
			r.bindable.Avoid = append(r.bindable.Avoid, c)
		}
	}
	// The lease can be renewed, so the end of the interval is open.
	binding, err = binder.Bind(r.bindable, now, time.Time{}, &binder.View{Inventory: inv, Plan: s.plan.Load(), Calendar: calendar, Now: now})
	if err != nil {
		return nil, binding, err
	}
	var added am.Amount
	for _, b := range binding.Nodes {
		if held.kept[b.Node.ClientID] == nil {
			added = added.Add(b.Amount)
		}
	}
	if err := permit.Within(policy.Amount{Cores: added.Cores, Disk: added.Disk}, inUse); err != nil {
		return nil, binding, err
	}
	slivers = newSlivers(inv, r.slice, binding.Nodes, held.live, held.kept)
	for i, b := range binding.Nodes {
		x := &slivers[i]
		if held.kept[b.Node.ClientID] != nil {
			x.Interfaces, x.CopiedLinks = nameInterfaces(inv, b.Interfaces), nil
		} else {
			x.Added = len(held.kept) > 0
		}
		x.Ordinal, x.SetupLimit = i, r.request.SetupLimit
		if x.System, x.Number = b.Node.Origin.ID, b.Node.Origin.Ordinal; x.System == "" {
			x.Number = i
		}
	}
	setCopiedLinks(r.clientIDs, slivers)
	return slivers, binding, s.planSetup(r.request, document, binding.Nodes, held.live, slivers, held.kept)
}

// setReservationLease sets the lease of a sliver that is reserved but not provisioned. It fails
// if the sliver's component is under maintenance.
func (s *Service) setReservationLease(now time.Time, by conditions, requested time.Time, x *am.Sliver) error {
	if err := s.checkMaintenance(now, x); err != nil {
		return err
	}
	end := earliest(by.permit.First(now, x.Created, s.reservationEnd(now, by.until, requested)))
	x.Expires = s.shortenForMaintenance(now, end, x)
	return nil
}

func binderPermit(p *policy.Permit) (b binder.Permit) {
	b.Components, b.NoComponent = p.Components()
	b.SliverTypes, b.NoSliverType = p.SliverTypes()
	return b
}

// newSlivers returns slivers for the bound nodes, in their order. The slice has the slivers in live already,
// and keeps those in kept.
func newSlivers(inv *inventory.Inventory, slice urn.URN, bound []binder.Bound, live []am.Sliver, kept map[string]*am.Sliver) []am.Sliver {
	names := namesOf(live)
	for i := range bound {
		n := hostname.Node{ClientID: bound[i].Node.ClientID, DNSNames: bound[i].Node.DNSNames}
		if was := kept[n.ClientID]; was != nil {
			n.Hostname, n.DNSName = was.Hostname, was.DNSName
		}
		names = append(names, n)
	}
	hostname.Assign(names)
	slivers := make([]am.Sliver, len(bound))
	for i, n := range names[len(live):] {
		if was := kept[n.ClientID]; was != nil {
			slivers[i] = *was
			continue
		}
		slivers[i] = newSliver(inv, slice, &bound[i])
		slivers[i].Hostname, slivers[i].DNSName = n.Hostname, n.DNSName
	}
	return slivers
}

// namesOf returns the nodes of slivers with their names.
func namesOf(slivers []am.Sliver) []hostname.Node {
	nodes := make([]hostname.Node, len(slivers))
	for i := range slivers {
		nodes[i] = hostname.Node{ClientID: slivers[i].ClientID, Hostname: slivers[i].Hostname, DNSName: slivers[i].DNSName}
	}
	return nodes
}

func newSliver(inv *inventory.Inventory, slice urn.URN, b *binder.Bound) am.Sliver {
	x := am.Sliver{
		URN:   urn.URN{Authority: inv.Manager.Authority, Type: urn.Sliver, Name: uuid.NewString()},
		Slice: slice, ClientID: b.Node.ClientID,
		Component: b.Component.URN, ComponentName: b.Component.Name, Provider: b.Component.Provider,
		SliverType: b.SliverType.Name, Image: b.Image,
		Exclusive: b.Exclusive, Amount: b.Amount,
		Interfaces: nameInterfaces(inv, b.Interfaces), PublicAddress: b.PublicAddress,
		Generation: 1,
	}
	for _, g := range b.Granted {
		x.Features = append(x.Features, am.Feature{Feature: g.Feature, Value: g.Value})
	}
	fillIn(inv, &x)
	return x
}

// nameInterfaces returns copies of the bound interfaces, with the names of their physical
// interfaces.
func nameInterfaces(inv *inventory.Inventory, bound []am.Interface) []am.Interface {
	all := slices.Clone(bound)
	for i := range all {
		if x, ok := inv.Interface(all[i].Component); ok {
			all[i].ComponentName = x.Name
		}
	}
	return all
}
