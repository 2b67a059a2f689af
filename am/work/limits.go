package work

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Limits are the runner's times and counts. A zero field means its default.
type Limits struct {
	// Sweep is the interval at which slivers without tasks are compared with their
	// resources, 30 s.
	Sweep time.Duration
	// PollMin and PollMax are the shortest and longest wait between two gets of a
	// resource that is changing, 100 ms and 2 s.
	PollMin, PollMax time.Duration
	// Get and Set are how long one call of a provider may take, 60 s and 15 s; longer
	// if its metadata say so.
	Get, Set time.Duration
	// RetryMin and RetryMax limit the wait before another attempt, 500 ms and 1 min.
	// Removals are retried forever, at most RemoveMax apart, 5 min.
	RetryMin, RetryMax, RemoveMax time.Duration
	// Attempts is how many attempts one generation of a sliver has, except for removals, 8.
	Attempts int
	// Changing is how long a resource may be changing before its task has failed, 1 h.
	Changing time.Duration
	// Names is how many resources one call names at most, 1000.
	Names int
	// Expire is how many leases at most end in one decision, 100. Other decisions wait
	// meanwhile.
	Expire int
	// The runner lists all resources of all providers at the start, again after FirstList,
	// 1 min, and then at intervals of List, 5 min. For some minutes after a request to
	// remove an orphan the interval is Sweep, if that is shorter.
	FirstList, List time.Duration
	// Poll is how often providers are polled, 15 s. A provider is silent if it has not
	// answered for Silent, 45 s, or for its own limit of a get if that is longer than Get.
	Poll, Silent time.Duration
	// OrphansAfter is how long an orphan must have been known before it is removed
	// automatically, 10 min. Removals limits the automatic removals in an hour, 20.
	OrphansAfter time.Duration
	Removals     int
}

// withDefaults replaces zero fields with their defaults.
func (l Limits) withDefaults() Limits {
	l.Sweep = cmp.Or(l.Sweep, 30*time.Second)
	l.PollMin = cmp.Or(l.PollMin, 100*time.Millisecond)
	l.PollMax = cmp.Or(l.PollMax, 2*time.Second)
	l.Get = cmp.Or(l.Get, time.Minute)
	l.Set = cmp.Or(l.Set, 15*time.Second)
	l.RetryMin = cmp.Or(l.RetryMin, 500*time.Millisecond)
	l.RetryMax = cmp.Or(l.RetryMax, time.Minute)
	l.RemoveMax = cmp.Or(l.RemoveMax, 5*time.Minute)
	l.Attempts = cmp.Or(l.Attempts, 8)
	l.Changing = cmp.Or(l.Changing, time.Hour)
	l.Names = cmp.Or(l.Names, 1000)
	l.Expire = cmp.Or(l.Expire, 100)
	l.FirstList = cmp.Or(l.FirstList, time.Minute)
	l.List = cmp.Or(l.List, 5*time.Minute)
	l.Poll = cmp.Or(l.Poll, 15*time.Second)
	l.Silent = cmp.Or(l.Silent, 45*time.Second)
	l.OrphansAfter = cmp.Or(l.OrphansAfter, 10*time.Minute)
	l.Removals = cmp.Or(l.Removals, 20)
	return l
}

// backoff returns how long to wait after a failed attempt; the first attempt is 1. The time
// doubles with each attempt up to a limit. A random amount of up to a quarter of it is then
// added or subtracted.
func (l Limits) backoff(attempt int, remove bool) time.Duration {
	limit := l.RetryMax
	if remove {
		limit = l.RemoveMax
	}
	d := l.RetryMin
	for ; attempt > 1 && d < limit; attempt-- {
		d *= 2
	}
	d = min(d, limit)
	return d*3/4 + rand.N(d/2+1)
}
