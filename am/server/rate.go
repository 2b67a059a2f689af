package server

import (
	"sync"
	"time"
)

// rates limits the calls of each caller: a burst at once, and then one call in each interval.
type rates struct {
	interval time.Duration
	burst    int

	mu sync.Mutex
	// full has, for each caller, the time at which the caller may make a whole burst again.
	full map[string]time.Time
	// sweepAt is the size of full at which allow removes the callers that may make a whole burst
	// again.
	sweepAt int
}

const minSweep = 64

func newRates(perMinute, burst int) *rates {
	return &rates{interval: time.Minute / time.Duration(perMinute), burst: burst, full: make(map[string]time.Time), sweepAt: minSweep}
}

// allow counts a call. It returns false if the caller's burst is used up.
func (r *rates) allow(caller string, now time.Time) bool {
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
