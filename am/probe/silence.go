package probe

import (
	"context"
	"errors"
	"maps"
	"time"

	"patchbay/inventory/provider"
)

// quiet is how long a component about which there was no answer is not asked
// about again. A dry run that hangs keeps all others of its provider waiting,
// for seconds, so a few such components must not be asked about again and again.
const quiet = time.Minute

// place is a component of a provider.
type place struct{ provider, component string }

// silence is a dry run about a component alone that had no answer. It is the
// error of whoever asks again too soon.
type silence struct {
	err   error
	until time.Time
}

func (s *silence) Error() string { return s.err.Error() }
func (s *silence) Unwrap() error { return s.err }

// silent finds a component of the batch that is not asked about now: the place
// in the batch, or -1.
func (p *Prober) silent(b *batch, asked []int) (int, *silence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, i := range asked {
		if s := p.silences[place{b.name, b.components[i]}]; s != nil && now.Before(s.until) {
			return i, s
		}
	}
	return -1, nil
}

// remember keeps that there was no answer about a component, with what is kept
// of others: what is over goes, so there is at most one for each component.
func (p *Prober) remember(b *batch, component string, err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.silences, func(_ place, s *silence) bool { return !now.Before(s.until) })
	p.silences[place{b.name, component}] = &silence{err: err, until: now.Add(quiet)}
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
