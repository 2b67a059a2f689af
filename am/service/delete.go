package service

import (
	"context"
	"errors"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/credentials"
)

// Delete releases slivers in any allocation state (AM API v3, Delete). Callers no longer see
// these slivers. A component stays reserved until its provider has confirmed that nothing is
// left. Delete of a whole slice also deletes what its templates define.
//
// Errors: those of resolve.
func (s *Service) Delete(ctx context.Context, g credentials.Grant, t Targets, c Call) (Outcome, error) {
	out, err := s.run(ctx, change{
		event: "Delete", grant: g, targets: t, call: c, inDryRun: true, isUrgent: true,
		apply: func(_ *store.View, _ *store.ChangeSet, _ *resolved, x *am.Sliver) (err error) {
			x.Status, err = am.Next(x.Status, am.EventDelete)
			return err
		},
		afterAll: func(v *store.View, cs *store.ChangeSet, before []am.Sliver) error {
			if !t.Slice.IsZero() {
				if err := lease.DropDefinitions(v, cs, t.Slice); err != nil {
					return err
				}
			}
			return lease.Release(v, cs, before, am.EventDelete, c.Request)
		},
	})
	if errors.Is(err, errNoSlivers) {
		return s.deleteDefinitions(ctx, g, t, c, err)
	}
	return out, err
}
