package service

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// ProvisionOptions are the options of Provision and Allocate, and the arguments of
// CreateSliver.
type ProvisionOptions struct {
	Call
	// EndTime is the wished end of the lease; zero if none.
	EndTime time.Time
	// Users get accounts on every node; their Login is chosen here. Allocate has none.
	Users []am.Account
}

// Provision promises to make reserved slivers real and gives them their long
// lease (AM API v3, Provision). It answers at once; the work goes on as
// geni_pending_allocation. For a whole slice it takes the slivers that are
// geni_allocated and passes over the others.
//
// Errors: those of resolve; SearchFailed when a slice has none left to
// provision; BadArgs for an end in the past; TooBig for too many keys;
// Unsupported for a sliver that is provisioned already; Busy for one whose
// provider is still being asked; ServerBusy when there is no memory for the manifest
// now; Refused by the site's policy; Unavailable while
// the site is locked down, or for a sliver on what is under maintenance.
func (s *Service) Provision(ctx context.Context, g credentials.Grant, t Targets, o ProvisionOptions) (Outcome, error) {
	var accounts []am.Account
	var permit *policy.Permit
	var cut cutLeases
	release := func() {}
	err := s.cfg.Store.Read(func(v *store.View) (err error) { // before anything is changed
		r, _ := resolve(v, g, t, true) // what is wrong with the targets, the decision says
		release, err = s.holdDocuments(v, g.Caller(), reports(r.slivers))
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	defer release()
	out, err := s.run(ctx, change{
		event: "Provision", grant: g, targets: t, call: o.Call,
		only: am.Allocated,
		none: am.Errorf(am.SearchFailed, "all slivers of slice %s are provisioned already", t.Slice).About(t.Slice),
		prepare: func(v *store.View, slice urn.URN) (err error) {
			cut = cutLeases{}
			if err := s.checkLockdown(); err != nil {
				return err
			}
			if err := notPast(v.Now(), o.EndTime); err != nil {
				return err
			}
			permit = s.cfg.Policy.For(g.Caller(), slice)
			if err := permit.Begin(); err != nil {
				return err
			}
			var slivers int // of the slice
			if accounts, slivers, err = nameAccounts(v, slice, o.Users); err != nil {
				return err
			}
			return boundAccounts(accounts, slivers)
		},
		step: func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error {
			if err := s.promiseToMake(v, cs, x, provisioning{permit: permit, until: r.until, wish: o.EndTime, accounts: accounts, cut: &cut, call: o.Call}); err != nil {
				return err
			}
			cs.PutSliver(*x)
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

// provisioning is what a reserved sliver is promised.
type provisioning struct {
	// permit is what the caller may have.
	permit *policy.Permit
	// until is the end of the credential.
	until time.Time
	// wish is when the lease is to end; if zero, what Allocate was told counts.
	wish     time.Time
	accounts []am.Account
	// on says to switch it on as soon as it is made.
	on bool
	// cut notes leases that maintenance cuts; nil for nobody.
	cut  *cutLeases
	call Call
}

// promiseToMake takes a reserved sliver to pending, with its long lease and the
// task to make it. It does not put the sliver.
func (s *Service) promiseToMake(v *store.View, cs *store.ChangeSet, x *am.Sliver, p provisioning) error {
	status, err := am.Next(x.Status, am.EventProvision)
	if err != nil {
		return err
	}
	now := v.Now().UTC()
	if err := s.checkMaintenance(now, x); err != nil {
		return err
	}
	granted := x.Granted // no earlier, unless that is asked for
	if !granted.IsZero() && !p.wish.IsZero() {
		granted = earliest(granted, p.wish)
	}
	if p.wish.IsZero() && x.Wish.After(now) {
		p.wish = x.Wish
	}
	if err := p.permit.Over(now, x); err != nil {
		return err
	}
	x.Status = status
	end := earliest(p.permit.First(now, x.Created, s.leaseEnd(now, p.until, p.wish)))
	if w := s.nextMaintenance(now, end, x); p.cut != nil && (w == nil || granted.Before(w.From)) {
		p.cut.note(x, w)
	}
	if x.Expires = s.beforeMaintenance(now, end, x); x.Expires.Before(granted) {
		x.Expires = granted
	}
	x.Granted = time.Time{}
	x.Desired = am.Desired{Present: true, On: p.on, Accounts: p.accounts}
	promise(cs, v, x, am.GoalMake, p.call)
	return nil
}
