package work

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/site/clock"
	"patchbay/am/store"
)

// host is a host whose wall clock can be set, in a synctest bubble.
type host struct {
	mu    sync.Mutex
	begun time.Time
	ahead time.Duration
}

func (h *host) set(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

func (h *host) clock(t *testing.T) *clock.Clock {
	t.Helper()
	h.begun = time.Now().Add(-time.Hour)
	return clock.New(clock.Options{Synced: func() bool { return false }, Read: func() (time.Time, time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return time.Now().Add(h.ahead), time.Since(h.begun)
	}})
}

// TestLeasesIgnoreJumpsOfTheClock gives a lease of ten hours and sets the host's
// clock meanwhile.
func TestLeasesIgnoreJumpsOfTheClock(t *testing.T) {
	for rule, jumps := range map[string][]time.Duration{
		"set forward":         {100 * 24 * time.Hour},
		"set back":            {-100 * 24 * time.Hour},
		"forward and back":    {time.Hour, -time.Hour},
		"back and forward":    {-9 * time.Hour, 20 * time.Hour},
		"small steps forward": {20 * time.Second, 20 * time.Second, 20 * time.Second},
	} {
		t.Run(rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				var h host
				c := h.clock(t)
				e.clock = c.Now
				e.start()
				e.makeReady("a-1")
				e.allocate("b-1")
				ends := time.Now().Add(10 * time.Hour)
				e.lease("a-1", ends)
				e.lease("b-1", ends)
				var off time.Duration // the rest of small corrections
				for _, d := range jumps {
					time.Sleep(time.Hour)
					h.set(d)
					if d.Abs() <= clock.DefaultJump {
						off += d
					}
				}
				ends = ends.Add(-off)
				time.Sleep(time.Until(ends) - time.Second)
				if e.sliver("a-1").Status != ready || !e.exists("b-1") {
					t.Fatal("a lease ended early")
				}
				e.within(3*time.Second, "both are gone", func() bool { return e.records() == "" })
			})
		})
	}
}

// beginWaiting begins each sliver whose start has come.
func beginWaiting(v *store.View, _ int) (cs store.ChangeSet, begun []am.Sliver, err error) {
	_, err = v.EachStarting(func(x am.Sliver) bool {
		lease.Begin(&x, v.Now(), 30*time.Minute, nil)
		cs.PutSliver(x)
		begun = append(begun, x)
		return true
	})
	if len(begun) > 0 {
		lease.LogBegin(v, &cs, begun)
	}
	return cs, begun, err
}

// begun returns how often slivers have begun.
func (e *env) begun() (n int) {
	e.t.Helper()
	err := e.st.Read(func(v *store.View) error {
		return v.Journal(func(x am.JournalEntry) bool {
			if x.Event == lease.EventBegins {
				n += len(x.Slivers)
			}
			return true
		})
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

// TestStartsIgnoreJumpsOfTheClock reserves for ten hours later, and sets the host's clock over the start and back, or restarts
// meanwhile. The reservation begins once, at its time or when the server is there again, and has its time to wait from then on.
func TestStartsIgnoreJumpsOfTheClock(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		jumps   []time.Duration // one each hour
		down    time.Duration   // the server is down from the tenth hour
		begins  time.Duration   // when it begins, after its start
		expires time.Duration
	}{
		{"over the start and back", []time.Duration{20 * time.Hour, -20 * time.Hour}, 0, 0, 30 * time.Minute},
		{"far over its end", []time.Duration{100 * 24 * time.Hour}, 0, 0, 30 * time.Minute},
		{"far back", []time.Duration{-100 * 24 * time.Hour}, 0, 0, 30 * time.Minute},
		{"back and over", []time.Duration{-9 * time.Hour, 20 * time.Hour, -11 * time.Hour}, 0, 0, 30 * time.Minute},
		{"the server was down", nil, 90 * time.Minute, 80 * time.Minute, 110 * time.Minute},
		{"the server was down almost until the end", nil, 310 * time.Minute, 5 * time.Hour, 315 * time.Minute},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				var h host
				c := h.clock(t)
				e.clock, e.begin = c.Now, beginWaiting
				e.start()
				e.allocate("a-1")
				start := time.Now().Add(10 * time.Hour)
				e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
					x, _, err := v.Sliver(sliverURN("a-1"))
					x.Begins, x.Expires, x.Ends = start, start.Add(30*time.Minute), start.Add(315*time.Minute)
					cs.PutSliver(x)
					return cs, err
				})
				for _, d := range tt.jumps {
					time.Sleep(time.Hour)
					h.set(d)
				}
				if tt.down > 0 {
					time.Sleep(time.Until(start) - 10*time.Minute)
					if err := e.stop(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.down)
					e.start()
				} else if time.Sleep(time.Until(start) - time.Second); e.begun() > 0 {
					t.Fatal("it began early")
				}
				e.within(time.Until(start.Add(tt.begins))+2*time.Second, "it begins", func() bool { return e.begun() > 0 })
				if x := e.sliver("a-1"); !x.Begun || x.Expires.Sub(start).Round(time.Minute) != tt.expires {
					t.Errorf("begun %v, until %v after the start", x.Begun, x.Expires.Sub(start))
				}
				e.within(time.Until(start.Add(tt.expires))+3*time.Second, "it is released", func() bool { return !e.exists("a-1") })
				if n := e.begun(); n != 1 || time.Now().Before(start.Add(tt.expires)) {
					t.Errorf("it began %d times, and was released %v after the start", n, time.Since(start))
				}
			})
		})
	}
}

// TestTrustedClockEndsLeases has an operator confirm that the host's clock is right.
func TestTrustedClockEndsLeases(t *testing.T) {
	bubble(t, 2, func(e *env) {
		var h host
		c := h.clock(t)
		e.clock = c.Now
		e.start()
		e.makeReady("a-1", "a-2")
		e.lease("a-1", time.Now().Add(10*time.Hour))
		h.set(11 * time.Hour)
		time.Sleep(time.Minute)
		if e.sliver("a-1").Status != ready {
			t.Fatal("a lease ended by an untrusted clock")
		}
		c.Trust()
		e.within(2*time.Second, "a-1 is gone", func() bool { return !e.exists("a-1") })
		if e.sliver("a-2").Status != ready {
			t.Error("a lease ended that was longer")
		}
	})
}

// TestLeasesEndBeforeProvidersMayBeCalled delays the first call of a provider. Leases end
// meanwhile.
func TestLeasesEndBeforeProvidersMayBeCalled(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1", "a-2")
		e.allocate("b-1")
		for _, n := range []string{"a-1", "b-1"} {
			e.lease(n, time.Now().Add(time.Minute))
		}
		if err := e.stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		may := make(chan struct{})
		var awaited atomic.Bool
		e.await = func(ctx context.Context) {
			awaited.Store(true)
			select {
			case <-may:
			case <-ctx.Done():
			}
		}
		e.d.with(func() { e.d.gets = 0 })
		e.start()
		e.within(time.Second, "the leases are over", func() bool {
			return e.over("a-1") && !e.exists("b-1")
		})
		time.Sleep(time.Hour)
		e.d.with(func() {
			if e.d.gets != 0 || !awaited.Load() {
				t.Errorf("the provider was asked %d times before it might be", e.d.gets)
			}
		})
		close(may)
		e.within(time.Minute, "a-1 is gone", func() bool { return !e.exists("a-1") })
	})
}

// over reports whether a sliver's lease was ended.
func (e *env) over(name string) bool {
	s := e.sliver(name)
	return s.URN.IsZero() || s.Status.Allocation == am.Unallocated
}
