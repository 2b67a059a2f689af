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

// noticeTimes returns how long before the end of a lease the hooks get Expiring: each duration once, shortest first.
func noticeTimes(hooks []Hook) (all []time.Duration) {
	for i := range hooks {
		if hooks[i].wants(Expiring) {
			all = append(all, hooks[i].Before)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// dueNotice returns the notice time that the lease of s has reached, and reports whether
// hooks must be notified now.
func (r *Runner) dueNotice(s *am.Sliver, now time.Time) (time.Duration, bool) {
	if s.Status.Allocation != am.Provisioned || s.Frozen || !s.Live(now) {
		return 0, false
	}
	for _, b := range r.noticeTimes {
		if !now.Before(s.Expires.Add(-b)) {
			return b, !isNotified(s) || b < s.NotifiedBefore
		}
	}
	return 0, false
}

// watchLeases notifies hooks of leases that will end, until ctx ends or the store is closed.
func (r *Runner) watchLeases(ctx context.Context) {
	if len(r.noticeTimes) == 0 {
		return
	}
	for {
		began := time.Now()
		err := r.checkLeases(ctx)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		if err != nil {
			r.cfg.Log.Error("cannot notify hooks of leases that end", "error", err)
		}
		// Thousands of leases may be near their ends for days, so a long check is followed by a
		// pause that is 50 times as long.
		pause := max(r.limits.Tick, min(50*time.Since(began), r.noticeTimes[0]/10))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// checkLeases marks the slivers for which a notice is due, in batches.
func (r *Runner) checkLeases(ctx context.Context) error {
	for {
		var near []urn.URN
		err := r.cfg.Store.Read(func(v *store.View) error {
			until := v.Now().Add(r.noticeTimes[len(r.noticeTimes)-1])
			return v.EachEnding(until, func(s am.Sliver) bool {
				if _, due := r.dueNotice(&s, v.Now()); due {
					near = append(near, s.URN)
				}
				return len(near) < r.limits.Batch
			})
		})
		if err == nil && len(near) > 0 {
			err = r.markExpiring(ctx, near)
		}
		if err != nil || len(near) < r.limits.Batch {
			return err
		}
	}
}

// markExpiring records the notice in each sliver for which it is due. The events are made from this change.
func (r *Runner) markExpiring(ctx context.Context, slivers []urn.URN) error {
	return r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		for _, u := range slivers {
			s, _, err := v.Sliver(u)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return cs, err
			}
			if before, due := r.dueNotice(&s, v.Now()); due {
				s.NotifiedEnd, s.NotifiedBefore = s.Expires, before
				cs.PutSliver(s)
			}
		}
		return cs, nil
	})
}
