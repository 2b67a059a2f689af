package hook

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/testkit/wait"
)

// still is a bench with hooks for ends of leases. Only the test looks at the leases.
func still(t *testing.T, d *diary, noticeTimes ...time.Duration) *bench {
	var hooks []Hook
	for _, b := range noticeTimes {
		hooks = append(hooks, Hook{Name: b.String(), Events: []Kind{Expiring}, Before: b})
	}
	b := newBench(t, hooks...)
	b.take, b.still = d.take, true
	b.start()
	return b
}

func ready(name string, in time.Duration) am.Sliver {
	s := running(reserved("s", name), am.Ready)
	s.Expires = noon.Add(in)
	return s
}

// looked looks at the leases and waits until their events are delivered.
func (b *bench) looked() {
	b.t.Helper()
	for range 2 {
		if err := b.runner.checkLeases(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	b.drained()
}

func TestExpiringIsPostedOnceForEachEnd(t *testing.T) {
	var d diary
	b := still(t, &d, time.Hour)
	want := func(lines ...string) {
		t.Helper()
		b.looked()
		if diff := cmp.Diff(lines, d.lines()); diff != "" {
			t.Error(diff)
		}
	}
	b.put(ready("a", 3*time.Hour), ready("b", 3*time.Hour+time.Minute), reserved("s", "reservation"))
	want()
	b.clock.set(noon.Add(2 * time.Hour))
	want("1h0m0s expiring a")
	b.clock.set(noon.Add(time.Hour)) // set back
	want("1h0m0s expiring a")
	b.clock.set(noon.Add(2*time.Hour + time.Minute))
	want("1h0m0s expiring a", "1h0m0s expiring b")
	b.halt()
	b.start()
	want("1h0m0s expiring a", "1h0m0s expiring b")
	a := ready("a", 5*time.Hour) // renewed
	a.NotifiedEnd, a.NotifiedBefore = noon.Add(3*time.Hour), time.Hour
	b.put(a)
	want("1h0m0s expiring a", "1h0m0s expiring b")
	b.clock.set(noon.Add(4 * time.Hour))
	want("1h0m0s expiring a", "1h0m0s expiring b", "1h0m0s expiring a")
	// b has expired but is not ended yet: it is too late for an event.
}

func TestShortLeasesPostExpiring(t *testing.T) {
	var d diary
	b := still(t, &d, time.Hour)
	b.looked()
	b.put(ready("short", time.Minute))
	b.looked()
	if diff := cmp.Diff([]string{"1h0m0s expiring short"}, d.lines()); diff != "" {
		t.Error(diff)
	}
}

func TestFrozenSliversDoNotExpireUntilThawed(t *testing.T) {
	var d diary
	b := still(t, &d, time.Hour)
	s := ready("a", 30*time.Minute)
	s.Frozen = true
	b.put(s)
	b.looked()
	if got := d.lines(); got != nil {
		t.Errorf("events %q", got)
	}
	s.Frozen = false
	b.put(s)
	b.looked()
	if diff := cmp.Diff([]string{"1h0m0s expiring a"}, d.lines()); diff != "" {
		t.Error(diff)
	}
}

func TestHooksHaveTheirOwnTimeBeforeTheEnd(t *testing.T) {
	var d diary
	b := still(t, &d, time.Hour, 24*time.Hour)
	b.put(ready("a", 48*time.Hour))
	b.clock.set(noon.Add(24 * time.Hour))
	b.looked()
	if diff := cmp.Diff([]string{"24h0m0s expiring a"}, d.lines()); diff != "" {
		t.Error(diff)
	}
	b.clock.set(noon.Add(47 * time.Hour))
	b.looked()
	if diff := cmp.Diff([]string{"24h0m0s expiring a", "1h0m0s expiring a"}, d.lines()); diff != "" {
		t.Error(diff)
	}
	// A new lease that ends within both notice times is reported to both hooks at once.
	b.put(ready("late", 47*time.Hour+30*time.Minute))
	b.looked()
	if n := len(d.lines()); n != 4 {
		t.Errorf("events %q", d.lines())
	}
}

// Many ends at the same time are posted in several changes.
func TestManyLeasesEndTogether(t *testing.T) {
	var d diary
	b := newBench(t, Hook{Name: "h", Events: []Kind{Expiring}, Before: time.Hour})
	b.limits.Batch = 7
	b.take = d.take
	b.start()
	var all []am.Sliver
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		all = append(all, ready(string(c), 2*time.Hour))
	}
	b.put(all...)
	b.clock.set(noon.Add(time.Hour))
	wait.Until(t, "all are delivered", func() bool { return len(d.lines()) == len(all) })
	b.drained()
	seen := map[string]bool{}
	for _, x := range d.lines() {
		if seen[x] {
			t.Errorf("%s is delivered twice", x)
		}
		seen[x] = true
	}
}
