package service

import (
	"cmp"
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/service/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// ProvisionOptions are the options of Provision and Allocate, and the arguments of
// CreateSliver.
type ProvisionOptions struct {
	Call
	// StartTime is the requested start; zero for now. EndTime is the requested end of the lease; zero if none was requested.
	StartTime, EndTime time.Time
	// AtStart means that slivers that begin later are provisioned then, with accounts for Users.
	AtStart bool
	// Users get accounts on every node. The service sets the field Login. Allocate ignores Users.
	Users []am.Account
	// Change makes Allocate change the nodes of the request that the slice has already, instead of
	// refusing them. Only Allocate uses it.
	Change bool
	// Preview makes Allocate reserve nothing. It decides as if the slivers in Without, which are of the
	// slice, were deleted. Only Allocate uses both.
	Preview bool
	Without []urn.URN
}

// Provision starts the creation of reserved slivers and replaces the short lease of the
// reservation by a longer one (AM API v3, Provision). It does not wait: the slivers are
// geni_pending_allocation until their providers have created them. If the call names a whole
// slice, Provision applies to the slivers that are geni_allocated.
//
// Errors: those of resolve; SearchFailed if the slice has no sliver left to provision; BadArgs
// for an end of the lease in the past; TooBig for too many keys; Unsupported for a sliver that is
// provisioned already; Busy for a sliver in a dry run; ServerBusy if no memory for the manifest
// is free; Refused by the site's policy; Unavailable while the site is locked down, or for a
// sliver under maintenance.
func (s *Service) Provision(ctx context.Context, g credentials.Grant, t Targets, o ProvisionOptions) (Outcome, error) {
	var accounts []am.Account
	var permit *policy.Permit
	var cut shortenedLeases
	var held quotas
	var mover lease.Mover
	release := func() {}
	err := s.cfg.Store.Read(func(v *store.View) (err error) { // reserve the memory before anything is changed
		r, _ := resolve(v, g, t, true) // the decision reports errors of the targets
		release, err = s.holdDocuments(v, g.Caller(), reportsOf(r.slivers))
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	defer release()
	out, err := s.run(ctx, change{
		event: string(am.EventProvision), waitEvent: lease.EventProvisionAtStart, grant: g, targets: t, call: o.Call,
		onlyState: am.Allocated,
		errNone:   am.Errorf(am.SearchFailed, "all slivers of slice %s are provisioned already", t.Slice).About(t.Slice),
		beforeAll: func(v *store.View, slice urn.URN) (err error) {
			cut, held, mover = shortenedLeases{}, quotas{}, s.mover()
			if err := s.checkLockdown(); err != nil {
				return err
			}
			if err := checkEndTime(v.Now(), o.EndTime); err != nil {
				return err
			}
			permit = s.cfg.Policy.For(g.Caller(), slice)
			if err := permit.CheckUser(); err != nil {
				return err
			}
			var slivers int // number of the slice's live slivers
			if accounts, slivers, err = nameAccounts(v, slice, o.Users); err != nil {
				return err
			}
			return limitAccounts(accounts, slivers)
		},
		apply: func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error {
			hold := am.HoldOf(x)
			if done, err := s.provisionWaiting(v, cs, &mover, x, o.AtStart, accounts); done || err != nil {
				return err
			}
			if err := s.provision(v, cs, x, provisioning{permit: permit, until: r.until, requested: o.EndTime, accounts: accounts, cut: &cut, held: &held, call: o.Call}); err != nil {
				return err
			}
			cs.PutSliver(*x)
			held.move(hold, x)
			return nil
		},
	})
	if err != nil {
		return Outcome{}, err
	}
	out.Notices = append(out.Notices, cut.texts()...)
	var documents []am.Document
	if err := s.cfg.Store.Read(func(v *store.View) (err error) { documents, err = documentsOf(v, out.Slivers); return err }); err != nil {
		return out, err
	}
	out.Manifest, err = s.writeDocuments(ctx, g.Caller(), out.Slivers, documents)
	return out, err
}

type provisioning struct {
	permit *policy.Permit
	until  time.Time
	// requested is the end that the call requests. If it is zero, the end that Allocate requested
	// applies.
	requested time.Time
	accounts  []am.Account
	// on means that the provider starts the sliver as soon as it exists.
	on   bool
	cut  *shortenedLeases
	held *quotas // of the call
	call Call
}

// provision sets the sliver to geni_pending_allocation, with the end of its lease and its desired state, and queues
// the task to create it. The caller must store the sliver. It fails if the component is under maintenance or the
// policy forbids the lease.
func (s *Service) provision(v *store.View, cs *store.ChangeSet, x *am.Sliver, p provisioning) error {
	status, err := am.Next(x.Status, am.EventProvision)
	if err != nil {
		return err
	}
	now := v.Now().UTC()
	if x.Waits() {
		return startError(x)
	}
	if err := s.checkMaintenance(now, x); err != nil {
		return err
	}
	granted := x.Granted // the lease must not end before Granted, unless the caller requests an earlier end
	if !granted.IsZero() && !p.requested.IsZero() {
		granted = earliest(granted, p.requested)
	}
	switch {
	case !p.requested.IsZero():
	case x.Begun:
		p.requested = x.Ends
	case x.RequestedEnd.After(now):
		p.requested = x.RequestedEnd
	}
	if err := p.permit.CheckLife(now, x); err != nil {
		return err
	}
	x.Status, x.Added, x.Error = status, false, ""
	end := earliest(p.permit.First(now, x.Start(), s.leaseEnd(now, p.until, p.requested)))
	if end.After(x.Ends) {
		if end, _, err = s.limitEnd(v, cmp.Or(p.held, &quotas{}), x, end); err != nil {
			return err
		}
	}
	if w := s.nextMaintenance(now, end, x); p.cut != nil && (w == nil || granted.Before(w.From)) {
		p.cut.note(x, w)
	}
	if x.Expires = s.shortenForMaintenance(now, end, x); x.Expires.Before(granted) {
		x.Expires = granted
	}
	x.Granted, x.Ends = time.Time{}, x.Expires
	x.Desired = am.Desired{Present: true, On: p.on, Accounts: p.accounts}
	queueTask(cs, v, x, am.GoalMake, p.call)
	return nil
}
