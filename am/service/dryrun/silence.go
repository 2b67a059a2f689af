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

// noAnswer records that a dry run with a component had no answer. Until quiet has passed, it is
// also the error of further dry runs with that component.
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

// refuseSilent stores an error in errs for each sliver whose component is not probed now.
// It reports whether there is such a sliver.
func (p *Prober) refuseSilent(b *batch, errs []*am.Error) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range b.slivers {
		if s := p.silences[b.slivers[i].Component.Key()]; s != nil && time.Now().Before(s.until) {
			errs[i], any = unanswered(b.name, s), true
		}
	}
	return any
}

// recordSilence records that a dry run with the slivers at the indexes of b.slivers had no answer, because of err. It also
// removes records that have ended.
func (p *Prober) recordSilence(b *batch, indexes []int, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.silences, func(_ string, s *noAnswer) bool { return !now.Before(s.until) })
	for _, i := range indexes {
		c := b.slivers[i].Component
		p.silences[c.Key()] = &noAnswer{component: c, err: err, until: now.Add(quiet)}
	}
}

// isSilence reports whether a failed dry run counts as having no answer. A reason from the
// provider is an answer. A caller that disconnects, or that calls with little time left, must
// not make a component unusable for others. So a disconnected caller never counts. A timeout
// counts only if the set call has run for at least provider.SetTimeout.
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
