package server

import (
	"sync"
	"time"
)

// rates bounds how often each caller may do something: a burst at once, and one
// more after each interval.
type rates struct {
	interval time.Duration
	burst    int

	mu sync.Mutex
	// full is when each caller may have a whole burst again.
	full map[string]time.Time
	// sweepAt is the size at which callers who may are forgotten.
	sweepAt int
}

// minSweep is the least size of the table of callers that is looked through.
const minSweep = 64

func newRates(perMinute, burst int) *rates {
	return &rates{interval: time.Minute / time.Duration(perMinute), burst: burst, full: make(map[string]time.Time), sweepAt: minSweep}
}

// take reports whether the caller may do it now, and counts it if so.
func (r *rates) take(caller string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := r.full[caller]
	if full.Before(now) {
		full = now
	}
	full = full.Add(r.interval)
	if float64(full.Sub(now)) > float64(r.interval)*float64(r.burst) {
		return false
	}
	if len(r.full) >= r.sweepAt {
		for name, at := range r.full {
			if !at.After(now) {
				delete(r.full, name)
			}
		}
		r.sweepAt = max(minSweep, 2*len(r.full))
	}
	r.full[caller] = full
	return true
}
