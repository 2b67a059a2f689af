package work

import (
	"context"
	"errors"
	"time"

	"patchbay/am"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// expiryTick is how often the clock is looked at while a lease runs: a clock
// that jumps is noticed within this time.
const expiryTick = time.Second

// expire ends leases when they are over until ctx ends.
func (r *Runner) expire(ctx context.Context) {
	for {
		pause, err := r.expireDue(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.cfg.Log.Error("cannot end leases", "error", err)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-r.leases:
		case <-t.C:
		}
		t.Stop()
	}
}

// expireDue ends the leases that are over, batch by batch, and says when to
// come back.
func (r *Runner) expireDue(ctx context.Context) (time.Duration, error) {
	for {
		var due []am.Sliver
		pause := expiryTick
		err := r.cfg.Store.Read(func(v *store.View) (err error) {
			var next time.Time
			if due, next, err = v.Due(r.limits.Expire); !next.IsZero() {
				pause = min(pause, max(0, next.Sub(v.Now())))
			}
			return err
		})
		if err != nil || len(due) == 0 {
			return pause, err
		}
		var ended []am.Sliver
		err = r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			if ended, err = stillDue(v, due); err == nil {
				err = lease.Release(v, &cs, ended, am.EventExpire, "")
			}
			journal(v, &cs, ended)
			return cs, err
		})
		if err != nil {
			return expiryTick, err
		}
		for _, s := range ended {
			r.cfg.Log.Info("lease over", "slice", s.Slice.String(), "sliver", s.URN.String(), "expires", s.Expires)
		}
		poke(r.tasks)
	}
}

// stillDue are the slivers as they are now, without those that were renewed,
// frozen or released since they were read.
func stillDue(v *store.View, due []am.Sliver) ([]am.Sliver, error) {
	var out []am.Sliver
	for _, d := range due {
		s, _, err := v.Sliver(d.URN)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.Status.Allocation != am.Unallocated && !s.Live(v.Now()) {
			out = append(out, s)
		}
	}
	return out, nil
}

// journal remembers the end of leases, one entry for each slice.
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
