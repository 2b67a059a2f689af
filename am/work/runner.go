package work

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

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
	// Components tells a component's name and its provider's name, for slivers whose
	// records do not. Not ok: the inventory does not hold it, so they wait. It must be
	// quick, and may be called from several goroutines.
	Components func(urn.URN) (component, provider string, ok bool)
	// Interfaces tells what a physical interface is called on its component, for
	// slivers whose records do not; nothing for one that the inventory does not hold,
	// whose URN then tells. It must be quick, and may be called from several
	// goroutines. Without it (nil) the URN tells of all.
	Interfaces func(urn.URN) string
	// Await is called by Run, and waits until providers may be called for the first
	// time, or ctx ends. Leases end meanwhile. Nil waits for nothing.
	Await func(ctx context.Context)
	// ServicesMustSucceed makes a sliver geni_failed of which an install or execute
	// failed; else it gets ready and its error tells.
	ServicesMustSucceed bool
	// Providers finds a provider by name. While it gives an error, which is
	// logged, the slivers of the provider wait, and it is asked again about once
	// a second: a provider may appear later. One that was found is kept. It may
	// take its time, and may be called from several goroutines.
	Providers func(name string) (Provider, error)
	// ProviderNames are the providers of the inventory, which are asked for everything
	// they have from time to time, as those of slivers are; nil for none. It must be
	// quick, and may be called from several goroutines.
	ProviderNames func() []string
	// RemoveOrphans removes orphans that this site has released. Without it orphans are
	// only reported.
	RemoveOrphans bool
	// OrphansListed is called each time a provider has listed its resources, so that the
	// result of Orphans may have changed. It may be called from several goroutines; it may
	// be nil.
	OrphansListed func(ctx context.Context)
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
	looks  chan struct{} // holds one while settled slivers are to be looked at soon
	mends  mends         // of slivers that had drifted
	polls  polls         // whether providers answer

	orphans orphanSet

	failures atomic.Int64 // of tasks
}

// New makes a Runner. Only one may work on a store.
func New(c Config) *Runner {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Runner{cfg: c, limits: c.Limits.withDefaults(), tasks: make(chan struct{}, 1), leases: make(chan struct{}, 1), looks: make(chan struct{}, 1), orphans: orphanSet{recheck: make(chan struct{}, 1)}}
}

// Wake says that the store has changed. It never blocks.
func (r *Runner) Wake() {
	poke(r.tasks)
	poke(r.leases)
}

// Look has the slivers without work looked at now, and not only when it is time again.
// It never blocks.
func (r *Runner) Look() { poke(r.looks) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// TaskFailures counts the attempts at tasks that have failed since the start.
func (r *Runner) TaskFailures() int64 { return r.failures.Load() }

// Run works until ctx ends, or the store is closed, which is store.ErrClosed.
// When it returns, no call of a provider is running and nothing is written any
// more; what was under way will be found again by the next Run.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.settlePlaces(ctx) })
	others.Go(func() { r.expire(ctx) })
	if r.cfg.Await != nil {
		r.cfg.Await(ctx)
	}
	others.Go(func() { r.sweep(ctx) })
	others.Go(func() { r.watchOrphans(ctx) })
	others.Go(func() { r.poll(ctx) })
	err := newLoop(r).run(ctx)
	cancel()
	others.Wait()
	return err
}
