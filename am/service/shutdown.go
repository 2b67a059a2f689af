package service

import (
	"context"
	"errors"

	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// Shutdown freezes a slice (AM API v3, Shutdown). Its nodes are stopped, nothing that has begun is released and
// no lease ends; slivers that have not begun are released. Later calls for the slice are Forbidden until an operator
// ends the shutdown. A second Shutdown succeeds.
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
		rec.ShutdownBy = g.Caller()
		text, err := lease.Shutdown(v, &cs, rec, live, c.Request)
		if err != nil {
			return cs, err
		}
		journal(&cs, v, g, c, "Shutdown", text, slice, live)
		return cs, nil
	}))
}
