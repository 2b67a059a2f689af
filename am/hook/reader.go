package hook

import (
	"context"
	"errors"
	"time"

	"patchbay/am/store"
)

const (
	// retryDelay is the wait before a failed read or write of the store is repeated.
	retryDelay = time.Second
	// trimEvery is the interval at which events that are too old are dropped.
	trimEvery = time.Minute
)

// reader passes messages of the store to the workers, and drops the oldest if they are too
// old or too many.
type reader struct {
	*Runner
	seen string // the id of the last message read
}

// run returns store.ErrClosed if the store is closed.
func (r *reader) run(ctx context.Context) error {
	for trimAt := time.Now(); ; {
		err := r.scan(ctx)
		if now := time.Now(); err == nil && (r.Waiting() > r.limits.Events || !now.Before(trimAt)) {
			trimAt = now.Add(trimEvery)
			err = r.trim(ctx)
		}
		wait := time.Until(trimAt)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrClosed):
			return err
		case err != nil:
			r.cfg.Log.Error("cannot read or drop the events for hooks", "error", err)
			wait = retryDelay
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.posted:
		case <-t.C:
		}
		t.Stop()
	}
}

// scan removes messages for hooks that are no longer configured.
func (r *reader) scan(ctx context.Context) error {
	for {
		read := 0
		unconfigured := map[string][]string{}
		err := r.cfg.Store.Read(func(v *store.View) error {
			return v.MessagesAfter(r.seen, func(id string, m store.Message) bool {
				r.waiting.Add(1)
				for _, name := range m.To {
					if w := r.worker(name); w != nil {
						w.add(entry{m.Slice.Key(), id})
					} else {
						unconfigured[id] = append(unconfigured[id], name)
					}
				}
				read++
				r.seen = id
				return read < r.limits.Batch
			})
		})
		if err == nil && len(unconfigured) > 0 {
			deleted := 0
			err = r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
				deleted, err = store.MarkTaken(v, &cs, unconfigured)
				return cs, err
			})
			if err == nil {
				r.waiting.Add(int64(-deleted))
			}
		}
		if err != nil || read < r.limits.Batch {
			return err
		}
	}
}

func (r *Runner) worker(name string) *worker {
	for _, w := range r.workers {
		if w.hook.Name == name {
			return w
		}
	}
	return nil
}

func (r *reader) trim(ctx context.Context) error {
	keep := r.limits.Events
	if r.Waiting() > keep {
		keep -= keep / 16 // otherwise each new message would cause another commit
	}
	for {
		until, n, waiting := "", 0, r.Waiting()
		var oldest time.Time
		err := r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			err = v.MessagesAfter("", func(id string, m store.Message) bool {
				if n == r.limits.Batch || id > r.seen || waiting-n <= keep && v.Now().Sub(m.At) <= r.limits.Age {
					return false
				}
				if n == 0 {
					oldest = m.At
				}
				cs.Remove(store.MessageKey(id))
				until = id
				n++
				return true
			})
			return cs, err
		})
		if err != nil || n == 0 {
			return err
		}
		for _, w := range r.workers {
			w.drop(until)
		}
		r.waiting.Add(int64(-n))
		r.lost.Add(int64(n))
		r.cfg.Log.Error("hooks did not take events in time, so the oldest are dropped; see why the hooks fail",
			"lost", n, "oldest", oldest, "waiting", r.Waiting(), "failing", r.names(func(s State, _ bool) bool { return s.Failing }))
		if n < r.limits.Batch {
			return nil
		}
	}
}
