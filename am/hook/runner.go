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
	// Store must have been opened with the Outbox of the same hooks in its Options.
	Store *store.Store
	Hooks []Hook
	// Log receives a line when a hook does not take events, once a minute at most, and
	// when it takes events again; nil is slog.Default.
	Log    *slog.Logger
	Limits Limits
}

// Runner delivers the messages that the store has posted.
type Runner struct {
	cfg         Config
	limits      Limits
	posted      chan struct{} // holds an element while there may be new messages
	noticeTimes []time.Duration
	sender      func(*Hook) sender // (*Hook).sender; tests replace it

	workers       []*worker    // in the order of the hooks
	waiting, lost atomic.Int64 // events
}

// New returns a Runner, which watches the store. A store may have only one Runner. New fails
// with the error of the store's Watch.
func New(c Config) (*Runner, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	r := &Runner{cfg: c, limits: c.Limits.withDefaults(), posted: make(chan struct{}, 1), noticeTimes: noticeTimes(c.Hooks), sender: (*Hook).sender}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		r.workers = append(r.workers, &worker{r: r, hook: h, wake: make(chan struct{}, 1), waiting: map[string]*backlog{}, state: State{Name: h.Name}})
	}
	return r, c.Store.Watch(r.wakeReader)
}

// Waiting returns the number of events that some hook has yet to take.
func (r *Runner) Waiting() int { return int(r.waiting.Load()) }

// Lost returns the number of events dropped since the start, because too many events waited
// or an event waited too long.
func (r *Runner) Lost() int { return int(r.lost.Load()) }

// Failing returns the number of hooks that did not take their last event.
func (r *Runner) Failing() int { return len(r.names(func(s State, _ bool) bool { return s.Failing })) }

// States returns the state of each hook, in the order of Config.Hooks.
func (r *Runner) States() []State {
	all := make([]State, 0, len(r.workers))
	for _, w := range r.workers {
		all = append(all, w.current())
	}
	return all
}

// names calls f with busy set while an event is being delivered.
func (r *Runner) names(f func(s State, busy bool) bool) (names []string) {
	for _, w := range r.workers {
		w.mu.Lock()
		if f(w.state, w.busy) {
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
	} else if hooks := r.names(func(_ State, busy bool) bool { return busy }); len(hooks) > 0 {
		r.cfg.Log.Info("stopping: waiting for running hooks; events that they do not take are sent again after the next start",
			"hooks", hooks, "at_most", r.limits.Grace)
	}
	defer time.AfterFunc(r.limits.Grace, cutOff).Stop()
	workers.Wait()
	return err
}

// wakeReader wakes the reader if a change has messages.
func (r *Runner) wakeReader(written []store.ChangeSet) {
	for _, cs := range written {
		if len(cs.Messages) > 0 {
			wake(r.posted)
		}
	}
}
