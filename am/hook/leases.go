package hook

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// leases finds the slivers whose leases will soon end. Those that come near are
// found in the order of their ends; those that are changed when they are near
// already are noted by the store's watcher.
type leases struct {
	befores []time.Duration // of the hooks that want to know, the shortest first
	places  []string        // up to where the leases have been looked at, for each of befores

	mu    sync.Mutex
	until time.Time          // the latest end that was looked at
	noted map[string]urn.URN // changed since; by key
}

func newLeases(hooks []Hook) *leases {
	l := &leases{noted: map[string]urn.URN{}}
	for i := range hooks {
		if hooks[i].wants(Expiring) {
			l.befores = append(l.befores, hooks[i].Before)
		}
	}
	slices.Sort(l.befores)
	l.befores = slices.Compact(l.befores)
	l.places = make([]string, len(l.befores))
	return l
}

// changed notes what is put into the store.
func (l *leases) changed(record any) {
	s, ok := record.(am.Sliver)
	if !ok || len(l.befores) == 0 || s.Status.Allocation != am.Provisioned || s.Frozen {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.Expires.After(l.until) {
		l.noted[s.URN.Key()] = s.URN
	}
}

// due tells whether hooks have to be told at time now that the lease of s will end,
// and which before has come.
func (l *leases) due(s *am.Sliver, now time.Time) (time.Duration, bool) {
	if s.Status.Allocation != am.Provisioned || s.Frozen || !s.Live(now) {
		return 0, false
	}
	for _, b := range l.befores {
		if !now.Before(s.Expires.Add(-b)) {
			return b, !told(s) || b < s.ToldBefore
		}
	}
	return 0, false
}

// watchLeases has hooks told of the ends of leases until ctx ends.
func (r *Runner) watchLeases(ctx context.Context) {
	if len(r.leases.befores) == 0 {
		return
	}
	t := time.NewTicker(r.limits.Tick)
	defer t.Stop()
	for {
		err := r.lookAtLeases(ctx)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		if err != nil {
			r.cfg.Log.Error("cannot tell hooks of leases that end", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// lookAtLeases goes on to where the leases are to be looked at now.
func (r *Runner) lookAtLeases(ctx context.Context) error {
	l := r.leases
	l.mu.Lock()
	noted := l.noted
	l.noted = map[string]urn.URN{}
	l.mu.Unlock()
	todo := make([]urn.URN, 0, len(noted))
	for _, u := range noted {
		todo = append(todo, u)
	}
	for some := range slices.Chunk(todo, r.limits.Batch) {
		if err := r.tellEnds(ctx, some); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			for k, u := range noted {
				l.noted[k] = u
			}
			return err
		}
	}
	for i, before := range l.befores {
		for more := true; more; {
			var near []urn.URN
			place := l.places[i]
			err := r.cfg.Store.Read(func(v *store.View) error {
				until := v.Now().Add(before)
				l.mu.Lock() // before the look: what changes after it must be noted
				if until.After(l.until) {
					l.until = until
				}
				l.mu.Unlock()
				list, next, err := v.Ending(l.places[i], until, r.limits.Batch)
				place, more = next, len(list) == r.limits.Batch
				for _, s := range list {
					if _, due := l.due(&s, v.Now()); due {
						near = append(near, s.URN)
					}
				}
				return err
			})
			if err == nil {
				err = r.tellEnds(ctx, near)
			}
			if err != nil {
				return err
			}
			l.places[i] = place
		}
	}
	return nil
}

// tellEnds notes in the records of those slivers that are due that hooks have been
// told, which is what the outbox tells them of.
func (r *Runner) tellEnds(ctx context.Context, slivers []urn.URN) error {
	if len(slivers) == 0 {
		return nil
	}
	return r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		for _, u := range slivers {
			s, _, err := v.Sliver(u)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return cs, err
			}
			if before, due := r.leases.due(&s, v.Now()); due {
				s.Told, s.ToldBefore = s.Expires, before
				cs.PutSliver(s)
			}
		}
		return cs, nil
	})
}
