package work

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Store is the part of *store.Store that the runner uses. Leases follow the store's clock.
type Store interface {
	Commit(context.Context, store.Decision) error
	Read(func(*store.View) error) error
}

// Config is the configuration of a Runner.
type Config struct {
	Store Store
	// Components returns the names of a component and its provider, for slivers whose records
	// lack these names. If ok is false, the inventory does not have the component, and the
	// component's slivers wait. Components must be quick, and may be called concurrently.
	Components func(urn.URN) (component, provider string, ok bool)
	// Interfaces returns the name of a physical interface on its component, for slivers whose
	// records lack the name. It returns "" if the inventory does not have the interface; then
	// the runner takes the name from the URN. Interfaces must be quick, and may be called
	// concurrently; it may be nil.
	Interfaces func(urn.URN) string
	// Begin decides which slivers begin whose start has come, at most limit. It may be nil.
	Begin func(v *store.View, limit int) (cs store.ChangeSet, begun []am.Sliver, err error)
	// Deadline returns the time at which a sliver is released whose lease is over; nil: now.
	Deadline func(v *store.View, x *am.Sliver) time.Time
	// Await waits until providers may be called for the first time, or ctx ends. Run calls it,
	// and ends leases meanwhile. Await may be nil.
	Await func(ctx context.Context)
	// ServicesMustSucceed makes a sliver geni_failed if an install or execute service fails.
	// Otherwise the sliver becomes ready with an error text.
	ServicesMustSucceed bool
	// Providers finds a provider by name. If it fails, the runner logs the error, makes the
	// provider's slivers wait, and calls Providers again about once a second. It may be
	// slow, and may be called concurrently.
	Providers func(name string) (Provider, error)
	// ProviderNames returns the providers of the inventory. The runner lists the
	// resources of these and of the slivers' providers periodically. It must be quick,
	// and may be called concurrently; it may be nil.
	ProviderNames func() []string
	// RemoveOrphans removes orphans that this site has released. Otherwise orphans are only
	// reported.
	RemoveOrphans bool
	// OrphansListed is called each time a provider has listed its resources, so that the
	// result of Orphans may have changed. It may be called from several goroutines; it may
	// be nil.
	OrphansListed func(ctx context.Context)
	// Found is called after the runner has recorded new capabilities of a component. It must
	// not block, and may be called concurrently; it may be nil.
	Found func()
	// Log gets a line for each task that has ended or failed, and lines about providers and
	// orphans; nil is slog.Default.
	Log    *slog.Logger
	Limits Limits
}

// Runner reconciles slivers with their desired state.
type Runner struct {
	cfg           Config
	limits        Limits
	tasks         chan struct{} // has a value while there may be new tasks
	leases        chan struct{} // has a value while leases may have changed
	sweepRequests chan struct{} // has a value while a sweep is requested
	repairs       repairs       // when drifted slivers were repaired
	polls         polls         // whether providers answer

	plans   plans
	orphans orphanSet

	failures atomic.Int64 // see TaskFailures
	noShows  atomic.Int64 // see NoShows
}

// New returns a Runner. Only one Runner may work on a store.
func New(c Config) *Runner {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Runner{cfg: c, limits: c.Limits.withDefaults(), tasks: make(chan struct{}, 1), leases: make(chan struct{}, 1), sweepRequests: make(chan struct{}, 1), plans: plans{open: map[plan]int{}, wake: make(chan struct{}, 1), live: map[string]map[int]string{}}, orphans: orphanSet{recheck: make(chan struct{}, 1)}}
}

// Wake makes the runner read new tasks and leases from the store now. It never blocks.
func (r *Runner) Wake() {
	wake(r.tasks)
	wake(r.leases)
}

// RequestSweep makes the runner compare the slivers without tasks with their resources
// now, instead of at the next sweep. It never blocks.
func (r *Runner) RequestSweep() { wake(r.sweepRequests) }

// wake puts a value into c unless c holds one already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// TaskFailures returns the number of failed attempts at tasks since the start.
func (r *Runner) TaskFailures() int64 { return r.failures.Load() }

// NoShows returns the number of slivers that were released since the start because they had begun and nobody provisioned them.
func (r *Runner) NoShows() int64 { return r.noShows.Load() }

// Run works until ctx ends or the store is closed. It returns nil if ctx has ended, and
// store.ErrClosed if the store was closed. After its return, it calls no provider and writes
// nothing. The next Run continues unfinished work.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.recordPlaces(ctx) })
	others.Go(func() { r.expire(ctx) })
	if r.cfg.Await != nil {
		r.cfg.Await(ctx)
	}
	others.Go(func() { r.sweep(ctx) })
	others.Go(func() { r.watchOrphans(ctx) })
	others.Go(func() { r.runPlans(ctx) })
	others.Go(func() { r.poll(ctx) })
	err := newLoop(r).run(ctx)
	cancel()
	others.Wait()
	return err
}
