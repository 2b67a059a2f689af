package hook

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Limits are the runner's times and counts. A zero field stands for its default.
type Limits struct {
	// RetryMin and RetryMax are the shortest and the longest wait before an event is
	// delivered again; default: 1 s and 5 min.
	RetryMin, RetryMax time.Duration
	// Grace is the time that running deliveries may continue after the runner is stopped;
	// default: 5 s.
	Grace time.Duration
	// Tick is the interval at which leases are checked and cursors are saved; default: 2 s.
	Tick time.Duration
	// Batch is the largest number of records that one decision changes; default: 500.
	Batch int
}

func (l Limits) withDefaults() Limits {
	l.RetryMin = cmp.Or(l.RetryMin, time.Second)
	l.RetryMax = cmp.Or(l.RetryMax, 5*time.Minute)
	l.Grace = cmp.Or(l.Grace, 5*time.Second)
	l.Tick = cmp.Or(l.Tick, 2*time.Second)
	l.Batch = cmp.Or(l.Batch, 500)
	return l
}

// backoff returns the wait after failure n, counted from 1. The wait doubles up to
// RetryMax, plus or minus a random quarter.
func (l Limits) backoff(n int) time.Duration {
	d := l.RetryMin
	for ; n > 1 && d < l.RetryMax; n-- {
		d *= 2
	}
	d = min(d, l.RetryMax)
	return d*3/4 + rand.N(d/2+1)
}
