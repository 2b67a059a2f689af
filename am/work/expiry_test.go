package work

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

func (e *env) lease(name string, until time.Time) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		s, _, err := v.Sliver(sliverURN(name))
		s.Expires = until
		cs.PutSliver(s)
		return cs, err
	})
}

func TestLeasesEndInTime(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.allocate("b-1", "c-1")
		now := time.Now()
		e.lease("a-1", now.Add(100*time.Second))
		e.lease("b-1", now.Add(200*time.Second))
		time.Sleep(99 * time.Second)
		if e.sliver("a-1").Status != ready || !e.exists("b-1") {
			t.Fatal("a lease ended early")
		}
		e.within(2*time.Second, "a-1 is gone", func() bool { return !e.exists("a-1") })
		time.Sleep(time.Until(now.Add(201 * time.Second)))
		if e.exists("b-1") || !e.exists("c-1") {
			t.Error("b-1 should have ended, c-1 not")
		}
	})
}

func TestLeasesThatEndedWhileDown(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.limits.Expire = 3 // several batches
		e.start()
		var names []string
		for i := range 10 {
			names = append(names, fmt.Sprintf("a-%d", i))
		}
		e.makeReady(names...)
		e.allocate("b-1")
		for _, n := range append(names, "b-1") {
			e.lease(n, time.Now().Add(time.Minute))
		}
		if err := e.stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		e.start()
		e.within(time.Second, "all is gone", func() bool { return e.records() == "" })
		if len(e.d.nodes) != 0 {
			t.Errorf("left behind: %v", e.d.nodes)
		}
	})
}

func TestRenewedAndFrozenAreNotTouched(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1", "a-2")
		e.lease("a-1", time.Now().Add(10*time.Second))
		e.lease("a-2", time.Now().Add(10*time.Second))
		time.Sleep(9 * time.Second)
		e.lease("a-1", time.Now().Add(time.Hour))
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			s, _, err := v.Sliver(sliverURN("a-2"))
			s.Frozen = true
			cs.PutSliver(s)
			return cs, err
		})
		time.Sleep(10 * time.Minute)
		if e.sliver("a-1").Status != ready || e.sliver("a-2").Status != ready {
			t.Error("a lease ended that should not")
		}
	})
}

// A sliver renewed after it was read as due, but before the decision.
func TestRenewedInBetweenIsNotTouched(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.allocate("a-1", "a-2")
		soon := time.Now().Add(time.Second)
		e.lease("a-1", soon)
		e.lease("a-2", soon)
		var once sync.Once
		e.wrap = func(s Store) Store {
			return &meddler{Store: s, before: func() {
				once.Do(func() { e.lease("a-1", time.Now().Add(time.Hour)) })
			}}
		}
		e.start()
		time.Sleep(3 * time.Second)
		if !e.exists("a-1") || e.exists("a-2") {
			t.Errorf("left: %s", e.records())
		}
	})
}

func TestClockJumps(t *testing.T) {
	bubble(t, 2, func(e *env) {
		var ahead atomic.Int64
		e.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		e.start()
		e.makeReady("a-1")
		e.allocate("b-1")
		e.lease("a-1", e.clock().Add(10*time.Hour))
		ahead.Store(int64(9 * time.Hour))
		time.Sleep(5 * time.Second)
		if e.sliver("a-1").Status != ready {
			t.Error("ended early")
		}
		ahead.Store(int64(11 * time.Hour))
		e.within(2*time.Second, "a-1 is gone", func() bool { return !e.exists("a-1") })
		// Back again: what waits for a retry waits no longer than it would have.
		e.d.with(func() { e.d.refuses["b-1"] = refusing("failed", "not now", true) })
		e.provision("b-1")
		time.Sleep(5 * time.Second)
		if err := e.stop(); err != nil {
			t.Fatal(err)
		}
		ahead.Store(int64(-100 * time.Hour))
		e.d.with(func() { clear(e.d.refuses) })
		e.start()
		e.becomes(e.r.limits.RetryMax+time.Second, notReady, "b-1")
	})
}

func TestEndOfLeaseIsJournalled(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.allocate("a-1", "a-2", "b-1")
		for _, n := range []string{"a-1", "a-2", "b-1"} {
			e.lease(n, time.Now().Add(time.Second))
		}
		time.Sleep(2 * time.Second)
		got := map[string]int{}
		e.st.Read(func(v *store.View) error {
			return v.Journal(func(j am.JournalEntry) bool {
				if j.Event == string(am.EventExpire) {
					got[j.Slice.Name] += len(j.Slivers)
				}
				return true
			})
		})
		if got["a"] != 2 || got["b"] != 1 {
			t.Errorf("journal: %v", got)
		}
	})
}
