package service

import (
	"context"

	"patchbay/am"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/credentials"
)

// Delete releases slivers in any allocation state (AM API v3, Delete). Callers no longer see
// these slivers. A component stays reserved until its provider has confirmed that nothing is
// left.
//
// Errors: those of resolve.
func (s *Service) Delete(ctx context.Context, g credentials.Grant, t Targets, c Call) (Outcome, error) {
	return s.run(ctx, change{
		event: "Delete", grant: g, targets: t, call: c, inDryRun: true,
		apply: func(_ *store.View, _ *store.ChangeSet, _ *resolved, x *am.Sliver) (err error) {
			x.Status, err = am.Next(x.Status, am.EventDelete)
			return err
		},
		finish: func(v *store.View, cs *store.ChangeSet, before []am.Sliver) error {
			return lease.Release(v, cs, before, am.EventDelete, c.Request)
		},
	})
}
