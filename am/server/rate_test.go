package server

import (
	"fmt"
	"testing"
	"time"
)

// TestRates uses up a burst, then the calls that time gives back. Callers with a full allowance are
// forgotten.
func TestRates(t *testing.T) {
	now := time.Now()
	r := newRates(60, 10)
	take := func(caller string, n int) (taken int) {
		for range n {
			if r.allow(caller, now) {
				taken++
			}
		}
		return taken
	}
	if n := take("alice", 50); n != 10 {
		t.Errorf("%d at once, want the burst of 10", n)
	}
	if n := take("bob", 1); n != 1 {
		t.Error("another caller is refused, too")
	}
	now = now.Add(3 * time.Second)
	if n := take("alice", 50); n != 3 {
		t.Errorf("%d after 3 s, want 3", n)
	}
	now = now.Add(time.Hour)
	if n := take("alice", 50); n != 10 {
		t.Errorf("%d after an hour, want the burst of 10", n)
	}
	most := 0
	for i := range 100_000 {
		now = now.Add(100 * time.Millisecond)
		r.allow(fmt.Sprint(i), now)
		most = max(most, len(r.full))
	}
	if most > 2*minSweep {
		t.Errorf("%d callers are remembered, of whom all but 10 may have a whole burst", most)
	}
	if _, ok := r.full["alice"]; ok {
		t.Error("alice is not forgotten")
	}
}
