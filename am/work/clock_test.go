package work

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/site/clock"
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
