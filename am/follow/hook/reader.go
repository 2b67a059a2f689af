package hook

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/am/store"
)

// cursorPrefix begins the names of the hooks' cursors in the store.
const cursorPrefix = "hook "

func (h *Hook) cursor() string { return cursorPrefix + h.Name }

// Follow makes the hooks follow the changes of the store: it makes a cursor for each new hook, which gets the events
// of later changes, and earlier ones only if a program of schema 4 has written them for it. It removes the cursors
// of hooks that are no longer configured. It must be called by each program that changes the store, so that hooks get
// these changes, too.
func Follow(ctx context.Context, s *store.Store, hooks []Hook) error {
	return s.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		configured := map[string]bool{}
		starts := map[string]string{} // the positions at which missing cursors begin, by the name of the cursor
		for i := range hooks {
			configured[hooks[i].cursor()] = true
			starts[hooks[i].cursor()] = store.Position(v.Revision()+1, 0)
		}
		err = v.Cursors(cursorPrefix, func(c store.Cursor) bool {
			name, _, _ := strings.Cut(c.Name, "\x00") // of a further cursor, that of its hook
			delete(starts, name)
			if !configured[name] {
				cs.Remove(store.CursorKey(c.Name))
			}
			return true
		})
		if err != nil || len(starts) == 0 {
			return cs, err
		}
		err = startAtOldMessages(v, starts)
		for name, at := range starts {
			cs.PutCursor(name, at)
		}
		return cs, err
	})
}

// startAtOldMessages makes cursors begin at the first event that a program of schema 4 has written for their hooks.
// These events come before all others.
func startAtOldMessages(v *store.View, starts map[string]string) error {
	return v.ChangesFrom(0, func(c store.Change) bool {
		for _, m := range c.Messages {
			for _, name := range m.To {
				if at, ok := starts[cursorPrefix+name]; ok {
					starts[cursorPrefix+name] = min(at, store.Position(c.Rev, 0))
				}
			}
		}
		return len(c.Messages) > 0
	})
}

// reader passes the events of changes to the workers.
type reader struct {
	*Runner
	next store.Rev // the first revision that was not read
}

// run passes on events, and saves cursors, until ctx ends. It returns store.ErrClosed if the store is closed.
func (r *reader) run(ctx context.Context) error {
	if len(r.workers) == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(r.limits.Tick)
	defer tick.Stop()
	for err := r.scan(); ; {
		if errors.Is(err, store.ErrClosed) {
			return err
		}
		if err != nil {
			r.cfg.Log.Error("cannot read the events for hooks", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
			err = r.scan()
		case <-tick.C:
			if err = r.scan(); err == nil {
				err = r.save(ctx)
			}
		}
	}
}

// scan passes on the changes that it has not read, and drops the events of changes that were
// deleted.
func (r *reader) scan() error {
	return r.cfg.Store.Read(func(v *store.View) error {
		err := v.ChangesFrom(0, func(c store.Change) bool {
			if c.Lost > 0 {
				r.drop(store.Position(c.Rev+1, 0))
			}
			return false // only the oldest change can stand for deleted ones
		})
		if err != nil {
			return err
		}
		return v.ChangesFrom(r.next, func(c store.Change) bool {
			if c.Lost > 0 && r.names(func(w *worker) bool { return w.end <= store.Position(c.Rev, 0) }) != nil {
				r.reportLost(c.Lost)
			}
			list := eventsOf(r.cfg.Site, &c)
			for _, w := range r.workers {
				w.add(c.Rev, list)
			}
			r.next = c.Rev + 1
			return true
		})
	})
}

// drop drops the events before a position.
func (r *Runner) drop(before string) {
	lost := 0
	for _, w := range r.workers {
		lost += w.drop(before)
	}
	if lost > 0 {
		r.reportLost(lost)
	}
}

func (r *Runner) reportLost(n int) {
	r.lost.Add(int64(n))
	r.cfg.Log.Error("hooks did not take events in time, so the oldest are dropped; see why the hooks fail",
		"lost", n, "waiting", r.Waiting(), "failing", r.names(func(w *worker) bool { return w.state.Failing }))
}

// save advances the cursors of hooks for which the changes had no events.
func (r *reader) save(ctx context.Context) error {
	return r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		for _, w := range r.workers {
			if err := w.advance(v, &cs, eventRef{}); err != nil {
				return cs, err
			}
		}
		return cs, nil
	})
}
