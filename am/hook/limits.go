package hook

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Limits are the runner's times and counts. A zero field stands for its default, which
// its comment names.
type Limits struct {
	// RetryMin and RetryMax limit the wait before an event is delivered again, 1 s
	// and 5 min.
	RetryMin, RetryMax time.Duration
	// Grace is how long running deliveries may continue when the runner is stopped, 5 s.
	Grace time.Duration
	// Events is how many events may wait, 100,000, and Age for how long, 7 d. Beyond
	// either the oldest are dropped.
	Events int
	Age    time.Duration
	// Tick is how often leases are checked, 2 s.
	Tick time.Duration
	// Batch is how many records one decision changes at most, 500.
	Batch int
}

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	l.RetryMin = cmp.Or(l.RetryMin, time.Second)
	l.RetryMax = cmp.Or(l.RetryMax, 5*time.Minute)
	l.Grace = cmp.Or(l.Grace, 5*time.Second)
	l.Events = cmp.Or(l.Events, 100_000)
	l.Age = cmp.Or(l.Age, 7*24*time.Hour)
	l.Tick = cmp.Or(l.Tick, 2*time.Second)
	l.Batch = cmp.Or(l.Batch, 500)
	return l
}

// backoff returns the wait after the nth failure, beginning with 1: it doubles up to a
// limit, plus or minus a quarter.
func (l Limits) backoff(n int) time.Duration {
	d := l.RetryMin
	for ; n > 1 && d < l.RetryMax; n-- {
		d *= 2
	}
	d = min(d, l.RetryMax)
	return d*3/4 + rand.N(d/2+1)
}
