package work

import (
	"fmt"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

func TestOlderGenerationIsDropped(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.d.with(func() { e.d.answer = 800 * time.Millisecond })
		e.do(am.ActionStop, am.GoalStop, func(d *am.Desired) { d.On = false }, "a-1")
		// The calls are get, set, get. During the last one, which finds the task done, the
		// task is replaced. It must not end the newer task.
		time.Sleep(2 * time.Second)
		e.release("a-1")
		time.Sleep(600 * time.Millisecond)
		if x, busy := e.task("a-1"); !busy || x.Goal != am.GoalRemove {
			t.Fatalf("task %+v, %v", x, busy)
		}
		e.within(20*time.Second, "it is gone", func() bool { return !e.exists("a-1") })
		if len(e.d.nodes) != 0 {
			t.Error("the resource was left behind")
		}
	})
}

func TestTaskOutdatedBySliverIsDiscarded(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			s, _, err := v.Sliver(sliverURN("a-1"))
			cs.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation - 1, Goal: am.GoalStop})
			cs.PutTask(am.Task{Sliver: sliverURN("a-9"), Generation: 1, Goal: am.GoalMake})
			return cs, err
		})
		e.becomes(time.Second, ready, "a-1")
		e.within(time.Second, "the orphan goes, too", func() bool { _, ok := e.task("a-9"); return !ok })
	})
}

func TestCancelledUpdateStaysReady(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.d.with(func() { e.d.slow = time.Minute })
		e.do(am.ActionUpdateUsers, am.GoalUsers, func(d *am.Desired) { d.Accounts = []am.Account{{Login: "bob"}} }, "a-1")
		time.Sleep(time.Second)
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) { // it stops waiting; the task goes on
			s, _, err := v.Sliver(sliverURN("a-1"))
			s.Status = ready
			cs.PutSliver(s)
			return cs, err
		})
		e.becomes(2*time.Minute, ready, "a-1")
		if got := e.sliver("a-1").Observed.Accounts; len(got) != 1 {
			t.Errorf("accounts %+v", got)
		}
	})
}

func TestThousandSliversInBoundedCalls(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.slow = 5 * time.Second
		e.start()
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("s%d-%d", i%4, i))
		}
		e.makeReady(names...)
		e.d.with(func() {
			if len(e.d.setCalls) > 4*2 {
				t.Errorf("%d sets for 4 slices made and started", len(e.d.setCalls))
			}
			if e.d.gets > 40 {
				t.Errorf("%d gets", e.d.gets)
			}
			t.Logf("%d sets, %d gets", len(e.d.setCalls), e.d.gets)
			e.d.setCalls, e.d.gets = nil, 0
		})
		e.release(names...)
		e.within(time.Minute, "all is gone", func() bool { return e.records() == "" })
		e.d.with(func() {
			if len(e.d.setCalls) > 4 || e.d.gets > 20 {
				t.Errorf("removed in %d sets and %d gets", len(e.d.setCalls), e.d.gets)
			}
		})
	})
}

// Slices that wait at the same time share a get, also if they began to wait at different times.
func TestPollsOfManySlicesGoTogether(t *testing.T) {
	bubble(t, 40, func(e *env) {
		e.d.slow = time.Minute
		e.start()
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprintf("s%d-1", i))
		}
		e.allocate(names...)
		for _, n := range names {
			e.provision(n)
			time.Sleep(47 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		e.d.with(func() { e.d.gets = 0 })
		time.Sleep(20 * time.Second)
		e.d.with(func() {
			if e.d.gets > 40 { // each of the 40 is due ten times
				t.Errorf("%d gets in 20 s", e.d.gets)
			}
		})
		e.becomes(time.Minute, notReady, names...)
	})
}
