package service

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// CreateOptions are the arguments of CreateSliver.
type CreateOptions struct {
	Call
	// EndTime is the wished end of the lease; zero if none.
	EndTime time.Time
	// Users get accounts on every node; their Login is chosen here.
	Users []am.Account
}

// CreateSliver is Allocate, Provision and geni_start in one, all or nothing (AM
// API v2, CreateSliver). The work goes on after the answer.
//
// Errors: those of Allocate; Exists for a slice that has slivers; TooBig for
// too many keys.
func (s *Service) CreateSliver(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o CreateOptions) (Outcome, error) {
	var accounts []am.Account
	return s.reserve(ctx, reservation{
		event: "CreateSliver", grant: g, slice: slice, request: req,
		options: AllocateOptions{Call: o.Call, EndTime: o.EndTime},
		admit: func(v *store.View) error {
			live, err := liveSlivers(v, slice)
			if err != nil {
				return err
			}
			if len(live) > 0 {
				return am.Errorf(am.Exists, "slice %s has %d slivers here already; in version 2 a slice is made once: DeleteSliver first, or add to it by Allocate of version 3", slice, len(live)).About(slice)
			}
			return nil
		},
		prepare: func(v *store.View) (err error) {
			if accounts, _, err = nameAccounts(v, slice, o.Users); err != nil {
				return err
			}
			return boundAccounts(accounts, len(req.Nodes))
		},
		follow: func(v *store.View, cs *store.ChangeSet, p *policy.Permit, until time.Time, x *am.Sliver) error {
			return s.promiseToMake(v, cs, x, provisioning{permit: p, until: until, accounts: accounts, on: true, call: o.Call})
		},
	})
}
