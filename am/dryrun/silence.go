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

// quiet is the time for which a component is not probed again after a dry run without an
// answer. A dry run that hangs delays all others of its provider for seconds, so a few
// such components must not be probed again and again.
const quiet = time.Minute

// noAnswer records for one component that a dry run had no answer. Before the time until, it is
// also the error of further dry runs with the component.
type noAnswer struct {
	component urn.URN
	err       error
	until     time.Time
}

func (s *noAnswer) Error() string { return s.err.Error() }
func (s *noAnswer) Unwrap() error { return s.err }

// Unanswering returns the components that are not probed now, because a dry run with
// them had no answer less than a minute ago.
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

// refuseSilent writes an error into out for each sliver whose component is not probed
// now. It reports whether there is such a sliver.
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

// remember records that the provider did not answer about the components of the slivers in
// asked. It also removes records that have ended.
func (p *Prober) remember(b *batch, asked []int, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.silences, func(_ string, s *noAnswer) bool { return !now.Before(s.until) })
	for _, i := range asked {
		c := b.slivers[i].Component
		p.silences[c.Key()] = &noAnswer{component: c, err: err, until: now.Add(quiet)}
	}
}

// isSilence reports whether the failure of a dry run counts as silence of its components.
// It does not if the provider gave a reason, because that is an answer. A caller that
// disconnects or starts late must not make a component unusable for others. So a
// disconnection never counts, and the timeout of the call counts only if the set call ran
// for provider.SetTimeout.
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
