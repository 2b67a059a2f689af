package dryrun

import (
	"context"
	"errors"
	"maps"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// quiet is how long components about which there was no answer are not asked about
// again. A dry run that hangs keeps all others of its provider waiting, for seconds, so a
// few such components must not be asked about again and again.
const quiet = time.Minute

// silence is a dry run that had no answer, as it counts for one component of it. It is
// the error of a request that asks for the component again too soon.
type silence struct {
	component urn.URN
	err       error
	until     time.Time
}

func (s *silence) Error() string { return s.err.Error() }
func (s *silence) Unwrap() error { return s.err }

// Silent are the components that are not asked about now, since a dry run with them had
// no answer less than a minute ago.
func (p *Prober) Unanswering() (components []urn.URN) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.silences {
		if time.Now().Before(s.until) {
			components = append(components, s.component)
		}
	}
	return components
}

// refuseSilent writes an error into out for each sliver whose component is not asked
// about now, and tells whether there is one.
func (p *Prober) refuseSilent(b *batch, out []*am.Error) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range b.slivers {
		if s := p.silences[b.slivers[i].Component.Key()]; s != nil && time.Now().Before(s.until) {
			out[i], any = unanswered(b.name, s), true
		}
	}
	return any
}

// remember keeps that there was no answer about the components of the slivers asked.
// What is over is dropped, so there is at most one silence for each component.
func (p *Prober) remember(b *batch, asked []int, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.silences, func(_ string, s *silence) bool { return !now.Before(s.until) })
	for _, i := range asked {
		c := b.slivers[i].Component
		p.silences[c.Key()] = &silence{component: c, err: err, until: now.Add(quiet)}
	}
}

// isSilence tells whether a dry run that failed after some time says something
// of what was asked about. A provider that gives the reason has answered. A
// caller who goes, or comes late, must not make a component unusable for others:
// where the time of the call was over, it counts if it was long enough.
func isSilence(ctx context.Context, err error, took time.Duration) bool {
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Err == nil {
		return false
	}
	switch ctx.Err() {
	case nil:
		return true
	case context.DeadlineExceeded:
		return took >= provider.SetTimeout
	}
	return false
}
