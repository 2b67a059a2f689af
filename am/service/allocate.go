package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/service/lease"
	"patchbay/am/service/policy"
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
// result. If they deploy nothing, the request is stored for later ones of the slice. The preview of a
// change with templates only compiles them: the answer is the request with the results, from which a
// client finds out what it has to replace.
//
// Errors: Forbidden, Unavailable while the site is locked down, Refused by the site's
// policy, SearchFailed for any other request without a node for this aggregate, Exists for a
// client_id that the slice uses already, those of binder.Bind, and providers' refusals.
func (s *Service) Allocate(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return attempt{Service: s, event: "Allocate", grant: g, slice: slice, request: req, options: o}.run(ctx)
}

// CreateSliver does Allocate, Provision and geni_start in one step, all or nothing (AM
// API v2, CreateSliver). It does not wait until the slivers are created.
//
// Errors: those of Allocate; Exists for a slice that has slivers; TooBig for
// too many keys.
func (s *Service) CreateSliver(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return attempt{Service: s, event: "CreateSliver", grant: g, slice: slice, request: req, options: o, create: true}.run(ctx)
}

// attempt is one try of Allocate or CreateSliver to reserve what a call requests, or the same without
// the reservation for a preview. Its steps fill in the fields in their order.
type attempt struct {
	*Service
	event   string
	grant   credentials.Grant
	slice   urn.URN
	request *rspec.Request
	options ProvisionOptions
	// create is set by CreateSliver. The slice must have no slivers. The new slivers are
	// provisioned at once, with accounts for the users.
	create bool
	// emptySite is set by Service.Preview: the site counts as empty, and the store is not read.
	emptySite bool

	// without has the keys of options.Without.
	without map[string]bool
	// basis is the revision of the slice with which templates were compiled; nil if none were.
	// The notices are warnings about them.
	basis   *store.Rev
	notices []string
	// free contains functions that free the memory of templates and documents.
	free      []func()
	clientIDs clientIDs
	// bindable is the request in the form for the binder.
	bindable *binder.Request
	// avoid lists the components that a dry run refused.
	avoid []urn.URN

	until    time.Time      // the end of the credential
	cutEnd   time.Time      // the latest end of a request for now without an end, see findRoom; zero for none
	window   window         // of the request, from the first start to the last end
	windows  []window       // of each node, in the order of the request; nil if all have that of the request
	permit   *policy.Permit // the policy's limits for the caller
	accounts []am.Account   // with logins

	document  am.Document
	unsaved   bool                 // the document is saved only after the dry run
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

// hold takes the results of Memory.Hold and returns its error. freeMemory frees the memory.
func (a *attempt) hold(free func(), err error) error {
	if err == nil {
		a.free = append(a.free, free)
	}
	return err
}

func (a *attempt) freeMemory() {
	for _, free := range a.free {
		free()
	}
}

// run makes the reservation. It tries again, from the start, if another call changes the slice while templates are
// compiled.
func (a attempt) run(ctx context.Context) (out Outcome, err error) {
	a.without = make(map[string]bool, len(a.options.Without))
	for _, u := range a.options.Without {
		a.without[u.Key()] = true
	}
	for range maxExpansions {
		next := a
		if out, err = next.runOnce(ctx); !errors.Is(err, errChanged) {
			break
		}
	}
	return out, err
}

// runOnce commits all or nothing: in one decision, or in two with a dry run between them.
func (a *attempt) runOnce(ctx context.Context) (Outcome, error) {
	defer a.freeMemory()
	isSource := len(a.request.Templates) > 0
	if err := a.expand(ctx); err != nil {
		return Outcome{}, err
	}
	if isSource && a.options.Change {
		return Outcome{Slice: a.slice, Notices: a.notices, Manifest: a.request.Text()}, nil
	}
	a.clientIDs = clientIDsOf(a.request)
	a.bindable = &binder.Request{Request: a.request, Slice: a.slice, Permit: binderPermit(a.cfg.Policy.For(a.grant.Caller(), a.slice))}
	err := a.reserve(ctx)
	a.basis = nil // this call has changed the slice
	if err == nil && a.mustProbe {
		err = a.probe(ctx)
	}
	if err != nil {
		return Outcome{}, err
	}
	return a.outcome()
}

// outcome returns the result of the call after the last decision, with the manifest of its slivers and all notices.
func (a *attempt) outcome() (out Outcome, err error) {
	out.Slice = a.slice
	if !a.options.Preview {
		out.Slivers = reportsOf(a.slivers)
	}
	names := hostname.Name(append(namesOf(a.others), namesOf(a.slivers)...))[len(a.others):]
	out.Notices = slices.Concat(a.notices, rspec.Lines(a.request.NoticesFor(names)), Notices(remarksOf(a.inventory, a.request, a.binding, a.slivers)))
	switch {
	case a.options.Preview:
		out.Notices = append(out.Notices, "nothing is reserved: this was a preview")
	case !a.definedUntil.IsZero():
		out.Notices = append(out.Notices, "nothing is reserved, because the templates deploy nothing; later requests of the slice may refer to what they define, until "+a.definedUntil.Format(time.RFC3339))
	case len(a.slivers) == 0:
		out.Notices = append(out.Notices, "nothing is reserved: "+a.request.NoNodesReason(a.inventory.Manager))
	}
	out.Notices = append(append(out.Notices, a.cut.texts()...), a.windowNotices()...)
	id := a.document.ID
	out.Manifest, err = a.writeManifest(out.Slivers, []am.Document{{ID: id}}, map[string]*rspec.Request{id: a.request})
	return out, err
}

// reserve binds the nodes and commits the reservation. If components in use may be the reason
// for a refusal, it releases the slivers whose lease has ended, and tries once more. A request for now without an end is
// tried with an earlier one, if there is room until then.
func (a *attempt) reserve(ctx context.Context) error {
	if a.emptySite {
		return a.bindEmptySite()
	}
	try := func() (err error) {
		for range maxCuts {
			err = a.commitReservation(ctx)
			if err != nil && mayBeInUse(err) && a.endLeases(ctx) {
				err = a.commitReservation(ctx)
			}
			if refusal := unsatisfied(err); refusal == nil || !a.findRoom(ctx, refusal) {
				break
			}
		}
		return err
	}
	if !a.isLarge() {
		return try()
	}
	return a.memory.inTurn(ctx, a.grant.Caller().Key(), true, try) // or large requests would take all processors
}

func (a *attempt) isLarge() bool { return len(a.request.Text()) >= rspec.Large }

func mayBeInUse(err error) bool { return unsatisfied(err) != nil || am.CodeOf(err) == am.Refused }

// endLeases releases the slivers whose leases have ended, and reports whether there were any.
func (s *Service) endLeases(ctx context.Context) bool {
	over := false
	err := s.cfg.Store.Read(func(v *store.View) error {
		due, _, err := v.Due(1)
		over = len(due) > 0
		return err
	})
	return err == nil && over && s.cfg.Runner.EndLeases(ctx) == nil
}

// check checks everything that does not depend on free components. Each decision about
// the reservation calls it. isBinding is true in the decision that binds the slivers. Only then
// must the slice of a CreateSliver have no slivers.
func (a *attempt) check(v *store.View, isBinding bool) (err error) {
	if a.until, err = checkRight(v, a.grant, a.slice); err != nil {
		return err
	}
	if err := a.checkLockdown(); err != nil {
		return err
	}
	a.permit = a.cfg.Policy.For(a.grant.Caller(), a.slice)
	if err := a.permit.CheckUser(); err != nil || !a.create && !a.options.AtStart {
		return err
	}
	if isBinding && a.create {
		live, err := liveSlivers(v, a.slice)
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return am.Errorf(am.Exists, "slice %s has %d slivers here already; version 2 creates a slice only once: DeleteSliver first, or add to it by Allocate of version 3", a.slice, len(live)).About(a.slice)
		}
	}
	if a.accounts, _, err = nameAccounts(v, a.slice, a.options.Users); err != nil {
		return err
	}
	return limitAccounts(a.accounts, len(a.request.Nodes))
}

// commitReservation binds the nodes in one decision, which runs outside of the commit unless it is short. In a preview, the decision only
// reads the store.
func (a *attempt) commitReservation(ctx context.Context) error {
	a.document = am.Document{
		ID: uuid.NewString(), Slice: a.slice, Text: a.request.Text(), Managers: a.request.Managers,
		Bytes: a.request.UnionBytes(), Elements: a.request.Elements(),
	}
	for _, x := range a.request.Expanded {
		a.document.Sources += len(x.Text)
	}
	if a.options.Preview {
		return a.cfg.Store.Read(func(v *store.View) error {
			if err := a.check(v, true); err != nil {
				return err
			}
			return a.decide(v)
		})
	}
	return a.commit(ctx, a.grant, a.isShort(), func(v *store.View) (cs store.ChangeSet, err error) {
		a.cut = shortenedLeases{} // the decision may run again
		if err := a.check(v, true); err != nil {
			return cs, err
		}
		if a.basis != nil && *a.basis != v.Rev(store.SliceKey(a.slice)) {
			return cs, &am.Error{Code: am.ServerBusy, URN: a.slice, Msg: "other calls change the slice while its templates are compiled; try again", Err: errChanged}
		}
		if err := a.decide(v); err != nil {
			return cs, err
		}
		if len(a.slivers) == 0 {
			return cs, a.define(v, &cs)
		}
		now := v.Now().UTC()
		for i := range a.slivers {
			if x := &a.slivers[i]; a.kept[x.ClientID] == nil {
				// The remark is about the later lease after Provision. So users learn early that it
				// is shortened.
				a.cut.note(x, a.nextMaintenance(v.Now(), a.leaseEnd(now, a.until, a.windowOf(i).requested), x))
			}
		}
		a.document.Received = now
		if a.unsaved = a.mustProbe && len(a.added()) == 0; a.unsaved { // nothing is reserved meanwhile
			return cs, nil
		}
		cs.PutDocument(a.document)
		if !a.mustProbe {
			return cs, a.addChanges(v, &cs)
		}
		end := earliest(now.Add(a.cfg.Prober.Timeout()+probeMargin), a.until)
		for i := range a.slivers {
			if x := &a.slivers[i]; a.kept[x.ClientID] == nil { // kept ones change afterwards
				x.Expires, x.ProbedUntil = end, end
				cs.PutSliver(*x)
			}
		}
		return cs, countChange(&cs, v, a.slice)
	})
}

// shortNodes is the maximum number of nodes, and of links, in a request about which the decision is short.
const shortNodes = 10

// isShort reports whether the decision about the request is short.
func (a *attempt) isShort() bool {
	r := a.request
	return len(r.Nodes) <= shortNodes && len(r.Links) <= shortNodes && len(r.Text()) <= shortBytes && len(r.Expanded) == 0 &&
		!slices.ContainsFunc(r.Nodes, func(n rspec.Node) bool { return n.Match != nil }) && a.isSmall(a.slice)
}

// addChanges adds the slivers with their leases to cs: new ones, which it provisions if the call says so and they begin now, and kept ones with
// their changes. It also adds the journal entry, and deletes documents that no sliver uses any more.
func (a *attempt) addChanges(v *store.View, cs *store.ChangeSet) error {
	var before []am.Sliver
	for i := range a.slivers {
		x := &a.slivers[i]
		if was := a.kept[x.ClientID]; was != nil {
			before = append(before, *was)
			if err := a.changeSliver(v, cs, was, x, a.options.Call); err != nil {
				return err
			}
			continue
		}
		startsNow := a.options.AtStart && !a.options.StartTime.IsZero() // within the next minute
		if (a.create || startsNow) && !x.Waits() {
			if err := a.provision(v, cs, x, provisioning{permit: a.permit, until: a.until, accounts: a.accounts, on: true, call: a.options.Call}); err != nil {
				return err
			}
		}
		cs.PutSliver(*x)
	}
	if err := countChange(cs, v, a.slice); err != nil {
		return err
	}
	text := ""
	if len(before) > 0 {
		text = fmt.Sprintf("changed %d of %d slivers", len(before), len(a.slivers))
		if err := lease.DropDocuments(v, cs, a.slice, before); err != nil {
			return err
		}
	}
	event := a.event
	if a.window.isAhead { // CreateSliver provisions when they begin
		event = string(am.EventAllocate)
	}
	journal(cs, v, a.grant, a.options.Call, event, text, a.slice, a.slivers)
	if begun := slices.DeleteFunc(a.added(), func(x am.Sliver) bool { return x.Status.Allocation != am.Provisioned }); !a.create && len(begun) > 0 {
		journal(cs, v, a.grant, a.options.Call, string(am.EventProvision), "", a.slice, begun)
	}
	return a.logLimited(v, cs)
}

// decide sets a.slivers to a sliver for each node, with its lease; none for an empty request. In a change, these are
// also the kept ones. It stores nothing, and begins anew each time that the decision runs.
func (a *attempt) decide(v *store.View) error {
	a.inventory, a.binding, a.slivers, a.kept, a.others = a.Inventory(), binder.Binding{}, nil, nil, nil
	a.mustProbe = false
	now := v.Now().UTC()
	empty := len(a.request.Nodes) == 0 && a.request.IsEmpty()
	if len(a.request.Nodes) == 0 && !empty {
		return am.Errorf(am.SearchFailed, "%s", a.request.NoNodesReason(a.inventory.Manager))
	}
	if err := a.setWindows(now); err != nil || empty {
		return err
	}
	if err := a.checkWithout(v); err != nil {
		return err
	}
	held, err := a.readContent(v)
	if err != nil {
		return err
	}
	if held.bytes > 0 { // the parser has checked only the new request
		if why := a.cfg.Reading.Limits.SliceTooBig(held.bytes, held.elements, held.bytes+a.document.Bytes, held.elements+a.document.Elements); why != "" {
			return am.Errorf(am.TooBig, "%s", why).About(a.slice)
		}
	}
	if err := a.bindNodes(held, now, func(concerns func(*am.Hold) bool) policy.Calendar {
		return a.calendar(v, held.lastEnd(a.window.until), concerns)
	}); err != nil {
		return err
	}
	status, err := am.Next(am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}, am.EventAllocate)
	if err != nil {
		return err
	}
	for i := range a.slivers {
		x := &a.slivers[i]
		x.Document = a.document.ID
		if was := a.kept[x.ClientID]; was != nil {
			if err := a.checkChange(v, was, x); err != nil {
				return err
			}
			continue
		}
		x.Status, x.Created, x.RequestedEnd = status, now, a.windowOf(i).requested
		x.Creator, x.Speaker, x.Request = a.grant.Caller(), a.grant.Speaker(), a.options.Request
		if err := a.setLease(now, x, a.windowOf(i)); err != nil {
			return err
		}
	}
	return a.checkAhead(v)
}

// bindNodes binds the request beside what the slice holds, and makes a sliver for each node, with its
// setup but without its lease. It sets a.binding, a.slivers, a.kept, a.others and a.mustProbe.
// calendar(concerns) returns the calendar for which the decision is run again if an entry for which concerns
// returns true is added.
func (a *attempt) bindNodes(held *sliceContent, now time.Time, calendar func(concerns func(*am.Hold) bool) policy.Calendar) (err error) {
	if err := held.checkClientIDs(a.clientIDs); err != nil {
		return err
	}
	if err := a.bindWithin(held, now, calendar); err != nil {
		return err
	}
	a.slivers = newSlivers(a.inventory, a.slice, a.binding.Nodes, held.live, held.kept)
	a.kept, a.others = held.kept, held.live
	for i, b := range a.binding.Nodes {
		x := &a.slivers[i]
		if held.kept[b.Node.ClientID] != nil {
			x.Interfaces, x.CopiedLinks = nameInterfaces(a.inventory, b.Interfaces), nil
		} else {
			x.Added = len(held.kept) > 0
		}
		x.Ordinal, x.SetupLimit = i, a.request.SetupLimit
		if x.System, x.Number = b.Node.Origin.ID, b.Node.Origin.Ordinal; x.System == "" {
			x.Number = i
		}
	}
	setCopiedLinks(a.clientIDs, a.slivers)
	err = a.planSetup(a.request, a.document.ID, a.binding.Nodes, held.live, a.slivers, held.kept)
	_, probed := a.probed()
	a.mustProbe = err == nil && a.cfg.Prober != nil && slices.ContainsFunc(probed, func(x am.Sliver) bool { return a.cfg.Prober.WantsProbe(x.Component) })
	return err
}

// bindWithin sets a.binding, if the policy allows it. calendar is that of bindNodes.
func (a *attempt) bindWithin(held *sliceContent, now time.Time, calendar func(concerns func(*am.Hold) bool) policy.Calendar) (err error) {
	until := held.lastEnd(a.window.until)
	inUse := func(user, slice urn.URN) (*policy.Timeline, error) {
		return calendar(policy.Counts(user, slice)).Timeline(user, slice, a.window.from, until, now)
	}
	if err := a.permit.Within(policy.Amount{Nodes: int64(len(a.request.Nodes) - len(held.kept))}, inUse); err != nil {
		return err
	}
	a.bindable.Permit, a.bindable.Addresses, a.bindable.Existing, a.bindable.Avoid = binderPermit(a.permit), held.addresses, held.joined, nil
	a.bindable.Kept = held.kept
	for _, u := range a.avoid {
		if c, ok := a.inventory.Component(u); ok { // the inventory still has it
			a.bindable.Avoid = append(a.bindable.Avoid, c)
		}
	}
	entries := calendar(func(h *am.Hold) bool { return a.binding.Takes(h) }) // called in the commit, when a.binding is set
	a.binding, err = binder.Bind(a.bindable, a.window.from, until, &binder.View{Inventory: a.inventory, Plan: a.plan.Load(), Calendar: entries, Now: now})
	if err != nil {
		return err
	}
	var added am.Amount
	for _, b := range a.binding.Nodes {
		if held.kept[b.Node.ClientID] == nil {
			added = added.Add(b.Amount)
		}
	}
	if err := a.permit.Within(policy.Amount{Cores: added.Cores, Disk: added.Disk}, inUse); err != nil {
		return err
	}
	return nil
}

// setLease sets the lease of a sliver that is reserved but not provisioned. It fails
// if the sliver's component is under maintenance.
func (a *attempt) setLease(now time.Time, x *am.Sliver, w *window) error {
	if w.isAhead {
		a.setWaiting(x, w)
		return nil
	}
	if err := a.checkMaintenance(now, x); err != nil {
		return err
	}
	x.Ends = a.shortenForMaintenance(now, w.until, x)
	end := earliest(a.permit.First(now, x.Created, a.reservationEnd(now, a.until, w.requested)))
	x.Expires = a.shortenForMaintenance(now, end, x)
	return nil
}

func binderPermit(p *policy.Permit) (b binder.Permit) {
	b.Components, b.NoComponent = p.Components()
	b.SliverTypes, b.NoSliverType = p.SliverTypes()
	return b
}
