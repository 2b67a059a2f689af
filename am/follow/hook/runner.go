package hook

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am/store"
)

// Config holds the parts and settings of a Runner.
type Config struct {
	Store *store.Store
	// Site is the authority of the site in URNs.
	Site  string
	Hooks []Hook
	// Log receives a line when a hook does not take events, once a minute at most, and
	// when it takes events again; nil is slog.Default.
	Log    *slog.Logger
	Limits Limits
}

// Runner delivers the events of the changes of a store.
type Runner struct {
	cfg         Config
	limits      Limits
	changed     <-chan struct{} // see Store.Changed
	noticeTimes []time.Duration
	sender      func(*Hook) sender // (*Hook).sender; tests replace it

	workers []*worker    // in the order of the hooks
	lost    atomic.Int64 // events
}

// New returns a Runner, which continues at the cursors that Follow has made. A store may have only
// one Runner.
func New(c Config) (*Runner, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	r := &Runner{cfg: c, limits: c.Limits.withDefaults(), changed: c.Store.Changed(), noticeTimes: noticeTimes(c.Hooks), sender: (*Hook).sender}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		r.workers = append(r.workers, &worker{
			r: r, hook: h, wake: make(chan struct{}, 1), taken: map[string]string{}, waiting: map[string]*backlog{}, state: State{Name: h.Name},
		})
	}
	return r, c.Store.Read(func(v *store.View) error {
		for _, w := range r.workers {
			if err := w.begin(v); err != nil {
				return err
			}
		}
		return nil
	})
}

// Waiting returns the number of events that hooks have yet to take, counted for each hook.
func (r *Runner) Waiting() (n int) {
	for _, s := range r.States() {
		n += s.Waiting
	}
	return n
}

// Lost returns the number of events dropped since the start, because the store has deleted their
// changes; see store.ChangeLimits.
func (r *Runner) Lost() int { return int(r.lost.Load()) }

// Failing returns the number of hooks that did not take their last event.
func (r *Runner) Failing() int { return len(r.names(func(w *worker) bool { return w.state.Failing })) }

// States returns the state of each hook, in the order of Config.Hooks.
func (r *Runner) States() []State {
	all := make([]State, 0, len(r.workers))
	for _, w := range r.workers {
		all = append(all, w.current())
	}
	return all
}

// names returns the names of the hooks for which f returns true. f must not lock the worker.
func (r *Runner) names(f func(*worker) bool) (names []string) {
	for _, w := range r.workers {
		w.mu.Lock()
		if f(w) {
			names = append(names, w.hook.Name)
		}
		w.mu.Unlock()
	}
	return names
}

// Run delivers events until ctx ends. Deliveries in progress then have Limits.Grace to end.
// Run returns store.ErrClosed if the store is closed. When Run returns, no delivery runs and
// nothing is written any more. The next Run delivers the remaining events.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.watchLeases(ctx) })
	err := r.deliver(ctx)
	cancel()
	others.Wait()
	return err
}

// deliver does what Run does, without the notices of leases.
func (r *Runner) deliver(ctx context.Context) error {
	delivering, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for _, w := range r.workers {
		workers.Go(func() { w.run(ctx, delivering) })
	}
	err := (&reader{Runner: r}).run(ctx)
	cancel()
	if err != nil {
		cutOff()
	} else if hooks := r.names(func(w *worker) bool { return w.busy }); len(hooks) > 0 {
		r.cfg.Log.Info("stopping: waiting for running hooks; events that they do not take are sent again after the next start",
			"hooks", hooks, "at_most", r.limits.Grace)
	}
	defer time.AfterFunc(r.limits.Grace, cutOff).Stop()
	workers.Wait()
	return err
}
