package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestCallersTakeTurns checks that the decisions of a caller with many waiting delay another caller
// by at most one decision.
func TestCallersTakeTurns(t *testing.T) {
	s := open(t, Options{})
	busy, release := make(chan struct{}), make(chan struct{})
	var order []string // written by the committer alone
	var all sync.WaitGroup
	wait := func(caller string, n int) {
		all.Go(func() {
			_ = s.submit(&pending{ctx: context.Background(), caller: caller, decide: func(*View) (ChangeSet, error) {
				order = append(order, caller)
				return ChangeSet{}, errNo
			}})
		})
		for s.queue.len() != n {
			time.Sleep(10 * time.Microsecond)
		}
	}
	all.Go(func() {
		_ = s.Commit(context.Background(), func(*View) (ChangeSet, error) { close(busy); <-release; return ChangeSet{}, errNo })
	})
	<-busy
	for i := range 5 {
		wait("alice", i+1)
	}
	wait("bob", 6)
	wait("", 7)
	close(release)
	all.Wait()
	if want := []string{"alice", "bob", "", "alice", "alice", "alice", "alice"}; !slices.Equal(order, want) {
		t.Errorf("decisions ran in the order %q, want %q", order, want)
	}
}

// TestLongGroupIsDivided checks that slow decisions are written separately, so that the first does
// not wait for the last.
func TestLongGroupIsDivided(t *testing.T) {
	for _, c := range []struct {
		rule   string
		time   time.Duration
		writes int32
	}{{"quick decisions", time.Hour, 1}, {"slow decisions", time.Nanosecond, 4}} {
		var writes atomic.Int32
		s := open(t, Options{GroupTime: c.time, Write: commitAfter(func() error { writes.Add(1); return nil })})
		answers := together(t, s, context.Background(), put(sliver("a", "s", 1)), put(sliver("b", "s", 1)), put(sliver("c", "s", 1)), put(sliver("d", "s", 1)))
		for i, err := range answers {
			if err != nil {
				t.Errorf("%s: decision %d: %v", c.rule, i, err)
			}
		}
		if n := writes.Load(); n != c.writes {
			t.Errorf("%s: four took %d writes, want %d", c.rule, n, c.writes)
		}
		if s.LongestDecision() <= 0 {
			t.Errorf("%s: the longest took no time", c.rule)
		}
	}
}
