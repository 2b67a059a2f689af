package work

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Limits are the runner's times and counts. A zero field means its default.
type Limits struct {
	// Sweep is the interval at which slivers without tasks are compared with their resources;
	// default 30 s.
	Sweep time.Duration
	// PollMin and PollMax are the shortest and longest wait between two gets of a resource that
	// is changing; defaults 100 ms and 2 s.
	PollMin, PollMax time.Duration
	// PollStage is the longest wait between two gets of a resource that waits for steps of its
	// plan; default 400 ms.
	PollStage time.Duration
	// Get and Set are the longest durations of a get and a set call of a provider; defaults 60
	// s and 15 s. A provider can request longer ones in its metadata.
	Get, Set time.Duration
	// RetryMin and RetryMax are the shortest and longest wait before another attempt; defaults
	// 500 ms and 1 min. Removals are retried forever, and RemoveMax is their longest wait;
	// default 5 min.
	RetryMin, RetryMax, RemoveMax time.Duration
	// Attempts is the number of attempts for one generation of a sliver; default 8. It does not
	// apply to removals.
	Attempts int
	// Changing is the longest time that a resource may be changing before its task fails;
	// default 1 h.
	Changing time.Duration
	// Names is the maximum number of resources in one call; default 1000.
	Names int
	// Expire is the maximum number of leases that one decision ends; default 100. Other
	// decisions wait meanwhile.
	Expire int
	// The runner lists all resources of all providers at its start, again after FirstList, and
	// then at intervals of List; defaults 1 min and 5 min. For some minutes after a request to
	// remove an orphan, the interval is Sweep, if that is shorter.
	FirstList, List time.Duration
	// Poll is the interval at which providers are polled; default 15 s. A provider is silent if
	// it has not answered for the duration Silent; default 45 s. If the provider's metadata
	// allow a get to take longer than both Get and Silent, that longer duration applies.
	Poll, Silent time.Duration
	// OrphansAfter is the time from the discovery of an orphan to its automatic removal;
	// default 10 min. Removals is the maximum number of automatic removals in an hour; default
	// 20.
	OrphansAfter time.Duration
	Removals     int
}

func (l Limits) withDefaults() Limits {
	l.Sweep = cmp.Or(l.Sweep, 30*time.Second)
	l.PollMin = cmp.Or(l.PollMin, 100*time.Millisecond)
	l.PollMax = cmp.Or(l.PollMax, 2*time.Second)
	l.PollStage = cmp.Or(l.PollStage, 400*time.Millisecond)
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

// backoff doubles the wait with each attempt, up to RetryMax, or up to RemoveMax for a removal.
// Then it changes the wait by a random amount, at most a quarter. The first attempt has the number
// 1.
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
