package hook

import (
	"context"
	"errors"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// befores are how long before the end of a lease hooks want to know of it, each once,
// the shortest first.
func befores(hooks []Hook) (all []time.Duration) {
	for i := range hooks {
		if hooks[i].wants(Expiring) {
			all = append(all, hooks[i].Before)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// due tells whether hooks have to be told at time now that the lease of s will end,
// and which before has come.
func (r *Runner) due(s *am.Sliver, now time.Time) (time.Duration, bool) {
	if s.Status.Allocation != am.Provisioned || s.Frozen || !s.Live(now) {
		return 0, false
	}
	for _, b := range r.befores {
		if !now.Before(s.Expires.Add(-b)) {
			return b, !told(s) || b < s.NotifiedBefore
		}
	}
	return 0, false
}

// watchLeases has hooks told of the ends of leases until ctx ends.
func (r *Runner) watchLeases(ctx context.Context) {
	if len(r.befores) == 0 {
		return
	}
	for {
		began := time.Now()
		err := r.lookAtLeases(ctx)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		if err != nil {
			r.cfg.Log.Error("cannot tell hooks of leases that end", "error", err)
		}
		// Thousands may be near their ends for days: looking takes a 50th of the time.
		pause := max(r.limits.Tick, min(50*time.Since(began), r.befores[0]/10))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// lookAtLeases tells of all leases that are near their ends now, in batches.
func (r *Runner) lookAtLeases(ctx context.Context) error {
	for {
		var near []urn.URN
		err := r.cfg.Store.Read(func(v *store.View) error {
			until := v.Now().Add(r.befores[len(r.befores)-1])
			return v.Ending(until, func(s am.Sliver) bool {
				if _, due := r.due(&s, v.Now()); due {
					near = append(near, s.URN)
				}
				return len(near) < r.limits.Batch
			})
		})
		if err == nil && len(near) > 0 {
			err = r.tellEnds(ctx, near)
		}
		if err != nil || len(near) < r.limits.Batch {
			return err
		}
	}
}

// tellEnds notes in the records of those slivers that are due that hooks have been
// told, which is what the outbox tells them of.
func (r *Runner) tellEnds(ctx context.Context, slivers []urn.URN) error {
	return r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		for _, u := range slivers {
			s, _, err := v.Sliver(u)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return cs, err
			}
			if before, due := r.due(&s, v.Now()); due {
				s.NotifiedEnd, s.NotifiedBefore = s.Expires, before
				cs.PutSliver(s)
			}
		}
		return cs, nil
	})
}
