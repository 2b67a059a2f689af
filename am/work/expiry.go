package work

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
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
			due, _, err := v.Due(r.limits.Expire)
			ended = nil
			for _, s := range due {
				if at := r.deadline(v, &s); at.After(v.Now()) {
					s.Expires = at
					cs.PutSliver(s)
				} else {
					ended = append(ended, s)
				}
			}
			if err == nil {
				err = lease.Release(v, &cs, ended, am.EventExpire, "")
			}
			journal(v, &cs, ended)
			return cs, err
		})
		if err != nil {
			return expiryTick, err
		}
		hasEnded = hasEnded || len(ended) > 0
		for _, s := range ended {
			text := "lease over"
			if lease.IsNoShow(&s) {
				text = "reservation not used"
				r.noShows.Add(1)
			}
			r.cfg.Log.Info(text, "slice", s.Slice.String(), "sliver", s.URN.String(), "expires", s.Expires)
		}
	}
}

// deadline returns the time at which s, whose lease is over, is released.
func (r *Runner) deadline(v *store.View, s *am.Sliver) time.Time {
	if r.cfg.Deadline == nil {
		return s.Expires
	}
	return r.cfg.Deadline(v, s)
}

// beginDue begins the slivers whose start has come, in batches. It returns the time to wait before its next call.
func (r *Runner) beginDue(ctx context.Context) (time.Duration, error) {
	for {
		pause := expiryTick
		isDue := false
		err := r.cfg.Store.Read(func(v *store.View) error {
			next, err := v.EachStarting(func(am.Sliver) bool { return true })
			if !next.IsZero() {
				pause = min(pause, max(0, next.Sub(v.Now())))
			}
			if err == nil && r.cfg.Begin != nil {
				var cs store.ChangeSet
				cs, _, err = r.cfg.Begin(v, 1)
				isDue = !cs.Empty()
			}
			return err
		})
		if err != nil || !isDue {
			return pause, err
		}
		var ready []am.Sliver
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

// journal adds one journal entry for each slice with slivers in the list ended, and another for those that were not used.
func journal(v *store.View, cs *store.ChangeSet, ended []am.Sliver) {
	type entry struct{ slice, event string }
	at := map[entry]int{}
	var entries []am.JournalEntry
	for i := range ended {
		k := entry{ended[i].Slice.Key(), string(am.EventExpire)}
		if lease.IsNoShow(&ended[i]) {
			k.event = lease.EventNoShow
		}
		if _, ok := at[k]; !ok {
			at[k] = len(entries)
			entries = append(entries, am.JournalEntry{At: v.Now(), Event: k.event, Slice: ended[i].Slice})
		}
		e := &entries[at[k]]
		e.Slivers = append(e.Slivers, ended[i].URN)
	}
	for _, e := range entries {
		cs.Log(e)
	}
}
