package dryrun

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// DefaultLimit is the default of Config.Limit.
const DefaultLimit = 30 * time.Second

// atOnce is the number of concurrent probes of a provider; others wait.
const atOnce = 8

// clearing limits the time to find and remove resources that a dry run has created.
const clearing = 10 * time.Second

// Provider can answer dry runs. See provider.Provider.
type Provider interface {
	Get(ctx context.Context, names []string) (map[string]provider.Result, error)
	Set(ctx context.Context, u []provider.Update, noop bool) ([]provider.Change, error)
}

// Config holds the parts and settings of a Prober.
type Config struct {
	// Components returns the names of a component and its provider. It must be quick. This
	// function and the next two may be called concurrently.
	Components func(urn.URN) (component, provider string, ok bool)
	// Interfaces returns the name of a physical interface on its component. If it is nil
	// or returns "", the name comes from the URN.
	Interfaces func(urn.URN) string
	// Providers returns a provider that wants dry runs; ok is false for any other.
	Providers func(name string) (p Provider, ok bool)
	// Log receives a line for each provider that gets no more dry runs, and for each dry
	// run that may have left resources behind; nil is slog.Default.
	Log *slog.Logger
	// Limit limits the duration of a probe; zero is DefaultLimit.
	Limit time.Duration
}

// Prober makes dry runs at providers. Its methods may be called concurrently.
type Prober struct {
	cfg Config

	mu         sync.Mutex           // guards the fields below
	ignoreNoop map[string]bool      // providers that do not obey noop
	lines      map[string]line      // by the provider's name
	silences   map[string]*noAnswer // by the component's key
}

// line limits the concurrent probes of one provider.
type line struct {
	probes chan struct{} // an element for each running probe
	turn   chan struct{} // an element while a set call runs
}

// New returns a Prober.
func New(c Config) *Prober {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	return &Prober{cfg: c, ignoreNoop: map[string]bool{}, lines: map[string]line{}, silences: map[string]*noAnswer{}}
}

// Timeout returns the maximum duration of Probe, including the removal of resources
// that a dry run has created.
func (p *Prober) Timeout() time.Duration { return p.cfg.Limit + 2*clearing }

// WantsProbe reports whether the provider of a component wants a dry run before a
// reservation. It does not wait.
func (p *Prober) WantsProbe(component urn.URN) bool {
	_, name, ok := p.cfg.Components(component)
	if !ok {
		return false
	}
	_, ok = p.provider(name)
	return ok
}

// provider returns the provider with a name. It returns false if the provider wants no dry runs or does not obey noop.
func (p *Prober) provider(name string) (Provider, bool) {
	p.mu.Lock()
	ignoresNoop := p.ignoreNoop[name]
	p.mu.Unlock()
	if ignoresNoop {
		return nil, false
	}
	return p.cfg.Providers(name)
}

func (p *Prober) line(name string) line {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.lines[name]; !ok {
		p.lines[name] = line{make(chan struct{}, atOnce), make(chan struct{}, 1)}
	}
	return p.lines[name]
}

type batch struct {
	name       string
	provider   Provider
	slivers    []am.Sliver
	components []string
	indexes    []int                // the index of each sliver in the argument of Probe
	leaving    []string             // nodes that are being removed
	isChanged  func(am.Sliver) bool // see Probe
}

// Probe runs dry runs to check whether the slivers, which belong to one slice, could be
// created now or, if their nodes exist, changed. It returns an error for each sliver, in the same
// order. The error is nil if the sliver's provider can do that or wants no dry runs.
//
// The codes SearchFailed, Refused, Unsupported, TooBig and ErrorCode are about one sliver: the
// provider answered unknown, forbidden, unsupported, full or another error. Msg is the
// provider's text. The codes ServerError and TimedOut mean that the provider did not answer;
// all slivers of that provider have the error. For the next minute, Probe returns the same
// code immediately for all slivers on the same components. Then Msg contains the end of that
// minute.
//
// isChanged reports whether another call has changed a sliver meanwhile. Then its resource
// may exist for other reasons than the dry run, so Probe does not remove the resource.
//
// The slivers in leaving are of the same slice and are being removed. The dry run lists their
// nodes as absent. Otherwise, a provider would count these nodes when it checks the new nodes.
func (p *Prober) Probe(ctx context.Context, slivers, leaving []am.Sliver, isChanged func(am.Sliver) bool) []*am.Error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Limit)
	defer cancel()
	out := make([]*am.Error, len(slivers))
	var calls sync.WaitGroup
	batches := p.batches(slivers)
	for i := range leaving {
		if _, name, ok := p.namesOf(&leaving[i]); ok && batches[name] != nil {
			batches[name].leaving = append(batches[name].leaving, leaving[i].URN.Name)
		}
	}
	for _, b := range batches {
		calls.Go(func() {
			b.isChanged = isChanged
			for i, err := range p.probeBatch(ctx, b) {
				out[b.indexes[i]] = err
			}
		})
	}
	calls.Wait()
	return out
}

// batches groups the slivers by provider, and leaves out those whose provider wants no dry runs.
func (p *Prober) batches(slivers []am.Sliver) map[string]*batch {
	all := map[string]*batch{}
	for i, s := range slivers {
		component, name, ok := p.namesOf(&s)
		if !ok {
			continue
		}
		b := all[name]
		if b == nil {
			x, ok := p.provider(name)
			if !ok {
				continue
			}
			b = &batch{name: name, provider: x}
			all[name] = b
		}
		b.slivers = append(b.slivers, s)
		b.components = append(b.components, component)
		b.indexes = append(b.indexes, i)
	}
	return all
}

// namesOf returns the names that a sliver's component and provider had when the sliver was
// bound. For a record of an earlier version, it returns the names in the current inventory.
func (p *Prober) namesOf(s *am.Sliver) (component, provider string, ok bool) {
	if s.Provider != "" {
		return s.ComponentName, s.Provider, true
	}
	return p.cfg.Components(s.Component)
}
