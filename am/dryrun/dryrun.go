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

// DefaultLimit is how long a probe may take.
const DefaultLimit = 30 * time.Second

// atOnce is how many probes a provider may have at once; others wait in line.
const atOnce = 8

// clearing is how long it may take to see and to remove what a dry run has made.
const clearing = 10 * time.Second

// Provider can say what it would do. See provider.Provider.
type Provider interface {
	Get(ctx context.Context, names []string) (map[string]provider.Result, error)
	Set(ctx context.Context, u []provider.Update, noop bool) ([]provider.Change, error)
}

// Config is what a Prober works with.
type Config struct {
	// Components tells a component's name and its provider's name, where a sliver's
	// record does not. It must be quick, and may be called from several goroutines;
	// so may the other two.
	Components func(urn.URN) (component, provider string, ok bool)
	// Interfaces tells what a physical interface is called on its component; nil,
	// or nothing for one that it does not know: the URN tells.
	Interfaces func(urn.URN) string
	// Providers finds a provider that wants to be asked; not ok for every other.
	Providers func(name string) (p Provider, ok bool)
	// Log receives a line for each provider that is not asked any more, and for
	// each dry run of which nobody can tell what it has left behind; nil is
	// slog.Default.
	Log *slog.Logger
	// Limit is how long a probe may take; zero is DefaultLimit.
	Limit time.Duration
}

// Prober asks. Its methods may be called at the same time.
type Prober struct {
	cfg Config

	mu       sync.Mutex          // guards what follows
	deaf     map[string]bool     // providers that do not obey noop
	lines    map[string]line     // of providers
	silences map[string]*silence // by the component's key
}

// line is where probes of one provider wait.
type line struct {
	probes chan struct{} // a place for each that may run
	turn   chan struct{} // the place of the dry run that may run
}

// New makes a Prober.
func New(c Config) *Prober {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	return &Prober{cfg: c, deaf: map[string]bool{}, lines: map[string]line{}, silences: map[string]*silence{}}
}

// Longest is how long a Probe takes at most, with the removal of what should not
// have been made.
func (p *Prober) Timeout() time.Duration { return p.cfg.Limit + 2*clearing }

// Asks tells whether the provider of a component wants to be asked before
// something on it is promised. It waits for nothing.
func (p *Prober) WantsProbe(component urn.URN) bool {
	_, name, ok := p.cfg.Components(component)
	if !ok {
		return false
	}
	_, ok = p.provider(name)
	return ok
}

func (p *Prober) provider(name string) (Provider, bool) {
	p.mu.Lock()
	deaf := p.deaf[name]
	p.mu.Unlock()
	if deaf {
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

// batch is what one provider is asked about.
type batch struct {
	name       string
	provider   Provider
	slivers    []am.Sliver
	components []string
	places     []int    // in what Probe was given
	leaving    []string // nodes that are being removed
	moved      func(am.Sliver) bool
}

// Probe asks whether the slivers, which are of one slice, could be made now. It
// gives an error for each, in their order, nil for those against which nothing
// is known, and for those whose providers do not want to be asked.
//
// SearchFailed, Refused, Unsupported, TooBig and ErrorCode are about that sliver alone:
// its provider says that it is unknown, forbidden, unsupported, full or failed, and Msg
// is what it says.
// ServerError and TimedOut mean that the provider did not answer, and all slivers of
// that provider have the error. About their components the provider is not asked again
// for a minute: such an error comes at once, and says until when.
//
// A sliver that has moved, as the caller tells when Probe asks, may be there for
// other reasons than the dry run, and is not removed.
//
// Leaving are slivers of the same slice that are being removed. They are in the dry
// run as absent, for a provider may not have heard of that yet, and would compare
// the new nodes with them.
func (p *Prober) Probe(ctx context.Context, slivers, leaving []am.Sliver, moved func(am.Sliver) bool) []*am.Error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Limit)
	defer cancel()
	out := make([]*am.Error, len(slivers))
	var calls sync.WaitGroup
	batches := p.batches(slivers)
	for i := range leaving {
		if _, name, ok := p.place(&leaving[i]); ok && batches[name] != nil {
			batches[name].leaving = append(batches[name].leaving, leaving[i].URN.Name)
		}
	}
	for _, b := range batches {
		calls.Go(func() {
			b.moved = moved
			for i, err := range p.ask(ctx, b) {
				out[b.places[i]] = err
			}
		})
	}
	calls.Wait()
	return out
}

// batches sorts slivers by their providers.
func (p *Prober) batches(slivers []am.Sliver) map[string]*batch {
	all := map[string]*batch{}
	for i, s := range slivers {
		component, name, ok := p.place(&s)
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
		b.places = append(b.places, i)
	}
	return all
}

// place is the component of a sliver and its provider, as it was bound, whatever the
// inventory says by now.
func (p *Prober) place(s *am.Sliver) (component, provider string, ok bool) {
	if s.Provider != "" {
		return s.ComponentName, s.Provider, true
	}
	return p.cfg.Components(s.Component)
}
