package work

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// expiryTick is the interval at which the clock is read while a lease runs, so that a
// jump of the clock is noticed.
const expiryTick = time.Second

// expire ends leases, and begins slivers that were reserved ahead, until ctx ends.
func (r *Runner) expire(ctx context.Context) {
	for {
		pause, err := r.expireDue(ctx)
		if err == nil {
			var next time.Duration
			next, err = r.beginDue(ctx)
			pause = min(pause, next)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.cfg.Log.Error("cannot end or begin leases", "error", err)
		}
		sleepUntil(ctx, pause, r.leases)
	}
}

// EndLeases releases the slivers whose leases have ended by now, for callers that cannot
// wait for Run. It returns the store's error.
func (r *Runner) EndLeases(ctx context.Context) error {
	_, err := r.expireDue(ctx)
	return err
}

// expireDue releases the slivers whose leases have ended, in batches. It returns the time to wait before its next call.
func (r *Runner) expireDue(ctx context.Context) (time.Duration, error) {
	hasEnded := false // a lease has ended
	defer func() {
		if hasEnded { // the removals start after all leases have ended
			wake(r.tasks)
		}
	}()
	for {
		pause, over := expiryTick, false
		err := r.cfg.Store.Read(func(v *store.View) error {
			due, next, err := v.Due(1)
			over = len(due) > 0
			if !next.IsZero() {
				pause = min(pause, max(0, next.Sub(v.Now())))
			}
			return err
		})
		if err != nil || !over {
			return pause, err
		}
		var ended []am.Sliver
		err = r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			if ended, _, err = v.Due(r.limits.Expire); err == nil {
				err = lease.Release(v, &cs, ended, am.EventExpire, "")
			}
			journal(v, &cs, ended)
			return cs, err
		})
		if err != nil {
			return expiryTick, err
		}
		hasEnded = true
		for _, s := range ended {
			r.cfg.Log.Info("lease over", "slice", s.Slice.String(), "sliver", s.URN.String(), "expires", s.Expires)
		}
	}
}

// beginDue begins the slivers whose start has come, in batches. It returns the time to wait before its next call.
func (r *Runner) beginDue(ctx context.Context) (time.Duration, error) {
	for {
		pause := expiryTick
		var ready []am.Sliver
		err := r.cfg.Store.Read(func(v *store.View) error {
			next, err := v.EachStarting(func(am.Sliver) bool { return true })
			if !next.IsZero() {
				pause = min(pause, max(0, next.Sub(v.Now())))
			}
			if err == nil && r.cfg.Begin != nil {
				_, ready, err = r.cfg.Begin(v, 1)
			}
			return err
		})
		if err != nil || len(ready) == 0 {
			return pause, err
		}
		err = r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			cs, ready, err = r.cfg.Begin(v, r.limits.Expire)
			return cs, err
		})
		if err != nil {
			return expiryTick, err
		}
		wake(r.tasks)
		for _, s := range ready {
			r.cfg.Log.Info("reservation begins", "slice", s.Slice.String(), "sliver", s.URN.String(), "begins", s.Begins)
		}
	}
}

// journal adds one journal entry for each slice with slivers in the list ended.
func journal(v *store.View, cs *store.ChangeSet, ended []am.Sliver) {
	var order []urn.URN
	bySlice := map[string][]urn.URN{}
	for _, s := range ended {
		k := s.Slice.Key()
		if bySlice[k] == nil {
			order = append(order, s.Slice)
		}
		bySlice[k] = append(bySlice[k], s.URN)
	}
	for _, u := range order {
		cs.Log(am.JournalEntry{At: v.Now(), Event: string(am.EventExpire), Slice: u, Slivers: bySlice[u.Key()]})
	}
}
