package work

import (
	"context"
	"log/slog"
	"sync"

	"patchbay/am/store"
	"patchbay/am/urn"
)

// Store is what the runner needs of *store.Store. Its clock is the one that
// ends leases.
type Store interface {
	Commit(context.Context, store.Decision) error
	Read(func(*store.View) error) error
}

// Config is what a Runner works with.
type Config struct {
	Store Store
	// Components tells a component's name and its provider's name. Not ok: the
	// inventory does not hold it, so its slivers wait. It must be quick.
	Components func(urn.URN) (component, provider string, ok bool)
	// Interfaces tells what a physical interface is called on its component;
	// nothing for one that the inventory does not hold, whose URN then tells. It
	// must be quick, and may be called from several goroutines. Without it (nil)
	// the URN tells of all.
	Interfaces func(urn.URN) string
	// ServicesMustSucceed makes a sliver geni_failed of which an install or execute
	// failed; else it gets ready and its error tells.
	ServicesMustSucceed bool
	// Providers finds a provider by name. While it gives an error, which is
	// logged, the slivers of the provider wait, and it is asked again about once
	// a second: a provider may appear later. One that was found is kept. It may
	// take its time, and may be called from several goroutines.
	Providers func(name string) (Provider, error)
	// Log receives a line for each task that ended or has to be tried again;
	// nil is slog.Default.
	Log    *slog.Logger
	Limits Limits
}

// Runner works until it is told to stop.
type Runner struct {
	cfg    Config
	limits Limits
	tasks  chan struct{} // holds one while there may be new tasks
	leases chan struct{} // holds one while there may be other leases
}

// New makes a Runner. Only one may work on a store.
func New(c Config) *Runner {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Runner{cfg: c, limits: c.Limits.withDefaults(), tasks: make(chan struct{}, 1), leases: make(chan struct{}, 1)}
}

// Wake says that the store has changed. It never blocks.
func (r *Runner) Wake() {
	poke(r.tasks)
	poke(r.leases)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, or the store is closed, which is store.ErrClosed.
// When it returns, no call of a provider is running and nothing is written any
// more; what was under way will be found again by the next Run.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.expire(ctx) })
	others.Go(func() { r.sweep(ctx) })
	err := newLoop(r).run(ctx)
	cancel()
	others.Wait()
	return err
}
