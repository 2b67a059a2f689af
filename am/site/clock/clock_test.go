package clock

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const hour, year = time.Hour, 365 * 24 * time.Hour

// fakeHost is a host whose clocks a test sets. truth is the real time.
type fakeHost struct {
	wall, truth time.Time
	steady      time.Duration
	synced      bool
	clock       *Clock
}

func newHost(steady time.Duration) *fakeHost {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := &fakeHost{wall: noon, truth: noon, steady: steady}
	h.clock = New(Options{
		Read:   func() (time.Time, time.Duration) { return h.wall, h.steady },
		Synced: func() bool { return h.synced },
	})
	return h
}

// step is a change of a host or its clock.
type step func(*testing.T, *fakeHost)

func wait(d time.Duration) step {
	return func(_ *testing.T, h *fakeHost) { h.wall, h.truth, h.steady = h.wall.Add(d), h.truth.Add(d), h.steady+d }
}

func set(d time.Duration) step {
	return func(_ *testing.T, h *fakeHost) { h.wall = h.wall.Add(d) }
}

func readNow(_ *testing.T, h *fakeHost)     { h.clock.Now() }
func synchronize(_ *testing.T, h *fakeHost) { h.synced = true }

// trust also checks the answer of Trust.
func trust(t *testing.T, h *fakeHost) {
	t.Helper()
	if now, before := h.clock.State(), h.clock.Trust(); before != now {
		t.Errorf("Trust returns %+v, want %+v", before, now)
	}
}

// want checks by how much the site's time differs from the real time.
func want(off time.Duration, jumped bool) step {
	return func(t *testing.T, h *fakeHost) {
		t.Helper()
		s := h.clock.State()
		if got := s.Site.Sub(h.truth); got != off || s.Jumped() != jumped || !s.Host.Equal(h.wall) {
			t.Errorf("the site's time is off by %v, jumped %v; want %v, %v", got, s.Jumped(), off, jumped)
		}
		if now := h.clock.Now(); !now.Equal(s.Site) {
			t.Errorf("Now returns %v, State %v", now, s.Site)
		}
	}
}

func TestJumps(t *testing.T) {
	for rule, steps := range map[string][]step{
		"time passes without a jump":                   {wait(hour), want(0, false), wait(year), want(0, false)},
		"small corrections are followed":               {wait(hour), set(time.Minute), want(time.Minute, false)},
		"small corrections add up":                     {set(50 * time.Second), readNow, set(50 * time.Second), want(100*time.Second, false)},
		"a jump forward ends no lease early":           {set(year), want(0, true), wait(hour), want(0, true)},
		"a jump back extends no lease":                 {set(-year), want(0, true), wait(hour), want(0, true)},
		"a jump longer than the largest duration":      {set(200 * year), set(200 * year), want(0, true)},
		"a clock that is right again is trusted":       {set(year), readNow, wait(hour), set(-year + time.Second), want(time.Second, false)},
		"a jump over the right time to the other side": {set(hour), readNow, set(-2 * hour), want(0, true)},
		"an operator trusts the clock":                 {set(hour), readNow, trust, want(hour, false), wait(hour), want(hour, false)},
		"a jump after that":                            {set(hour), readNow, trust, set(-hour), want(hour, true)},
		"trusting a trusted clock":                     {trust, want(0, false)},
		"a time service, but long after the boot":      {synchronize, set(hour), want(0, true)},
	} {
		t.Run(rule, func(t *testing.T) {
			h := newHost(hour)
			for _, next := range steps {
				next(t, h)
			}
		})
	}
}

func TestJumpsAfterABoot(t *testing.T) {
	for rule, tt := range map[string]struct {
		after  time.Duration
		synced bool
		jumped bool
	}{
		"by a time service":                      {5 * time.Minute, true, false},
		"by hand":                                {5 * time.Minute, false, true},
		"by a time service, 15 minutes after it": {15 * time.Minute, true, true},
	} {
		t.Run(rule, func(t *testing.T) {
			h := newHost(time.Second)
			wait(tt.after)(t, h)
			h.clock.Now()
			set(-5*year)(t, h)
			h.synced = tt.synced
			if got := h.clock.State().Jumped(); got != tt.jumped {
				t.Errorf("jumped %v, want %v", got, tt.jumped)
			}
		})
	}
}

func TestThisHost(t *testing.T) {
	wall, steady := read()
	later, further := read()
	if steady <= 0 || further < steady || later.Sub(wall).Abs() > DefaultJump {
		t.Errorf("%v %v, then %v %v", wall, steady, later, further)
	}
	synced() // any answer is right
	if d := time.Since(New(Options{}).Now()); d.Abs() > time.Minute {
		t.Errorf("a new clock is off by %v", d)
	}
}

// TestRunLogsJumpsOnce has a jump, and a clock that is right again.
func TestRunLogsJumpsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(hour)
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		go h.clock.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		for _, by := range []time.Duration{hour, 0, -hour, 0} {
			synctest.Wait()
			set(by)(t, h)
			time.Sleep(10 * logInterval)
		}
		cancel()
		synctest.Wait()
		if n, ends := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "follow the host's clock again"); n != 1 || ends != 1 {
			t.Errorf("%d jumps and %d ends are logged, want one of each:\n%s", n, ends, &log)
		}
	})
}
