package service

import (
	"context"
	"errors"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// Shutdown freezes a slice (AM API v3, Shutdown). Its nodes are stopped, nothing is released and
// no lease ends. Later calls for the slice are Forbidden until an operator ends the shutdown. A
// second Shutdown succeeds.
//
// Errors: Forbidden without the right, SearchFailed for a slice without slivers.
func (s *Service) Shutdown(ctx context.Context, g credentials.Grant, slice urn.URN, c Call) error {
	return s.withHistory(s.commitUrgent(ctx, g, slice, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		if _, err := g.Over(slice); err != nil {
			return cs, err
		}
		rec, _, err := v.Slice(slice)
		if err == nil && !rec.Shutdown.IsZero() {
			return cs, nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return cs, err
		}
		live, err := liveSlivers(v, slice)
		if err != nil {
			return cs, err
		}
		if len(live) == 0 {
			return cs, noSlivers(slice)
		}
		rec.Shutdown, rec.ShutdownBy, rec.Serial = v.Now().UTC(), g.Caller(), rec.Serial+1
		cs.PutSlice(rec)
		for _, x := range live {
			status, err := am.Next(x.Status, am.EventShutdown)
			if err != nil {
				return cs, err
			}
			if status != x.Status || x.Desired.On {
				goal := am.GoalStop
				if x.Status.Operational == am.PendingAllocation {
					goal = am.GoalMake // the provider still creates the sliver, but does not start it
				}
				queueTask(&cs, v, &x, goal, c)
			}
			x.Status, x.Desired.On, x.Frozen = status, false, true
			cs.PutSliver(x)
		}
		journal(&cs, v, g, c, "Shutdown", "", slice, live)
		return cs, nil
	}))
}
