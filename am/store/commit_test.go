package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/testkit/require"
)

func TestMain(m *testing.M) {
	if runAsWriter() {
		return
	}
	os.Exit(require.NoLeaks(m))
}

func TestFailedWriteUndoesItsGroup(t *testing.T) {
	disk := errors.New("no space left")
	var failing atomic.Bool
	var writes atomic.Int32
	var s *Store
	var before []am.Hold
	unchanged := func() {
		t.Helper()
		if diff := cmp.Diff([]string{"old"}, names(t, s)); diff != "" {
			t.Errorf("readers see other slivers: %s", diff)
		}
		if diff := cmp.Diff(before, calendar(t, s), sameHolds); diff != "" {
			t.Errorf("readers see another calendar: %s", diff)
		}
	}
	s = open(t, Options{Write: commitAfter(func() error {
		writes.Add(1)
		if failing.Load() {
			unchanged()
			return disk
		}
		return nil
	})})
	commit(t, s, put(sliver("old", "s", 1)))
	if before = calendar(t, s); len(before) != 1 {
		t.Fatalf("the calendar is %v", before)
	}
	failing.Store(true)
	writes.Store(0)
	refuse := func(*View) (ChangeSet, error) { return ChangeSet{}, errNo }
	answers := together(t, s, context.Background(), refuse, put(sliver("a", "s", 1)), refuse, put(sliver("old", "t", 9)))
	for i, err := range answers {
		// The first refused decision saw committed records, the other the undone ones.
		if i == 0 {
			if err != errNo {
				t.Errorf("the refused member got %v", err)
			}
		} else if !errors.Is(err, ErrNotCommitted) || !errors.Is(err, disk) {
			t.Errorf("member %d got %v", i, err)
		}
	}
	if writes.Load() != 1 {
		t.Errorf("%d writes of one group", writes.Load())
	}
	unchanged()
	failing.Store(false)
	var seen []string
	commit(t, s, func(v *View) (ChangeSet, error) {
		err := v.Slivers(func(x am.Sliver) bool { seen = append(seen, x.URN.Name+" of "+x.Slice.Name); return true })
		if held, _ := holds(v); !cmp.Equal(before, held, sameHolds) {
			t.Errorf("the next decision saw the calendar %v", held)
		}
		cs, _ := put(sliver("next", "s", 1))(v)
		return cs, err
	})
	if diff := cmp.Diff([]string{"old of s"}, seen); diff != "" {
		t.Errorf("the next decision saw undone changes: %s", diff)
	}
	if diff := cmp.Diff([]string{"next", "old"}, names(t, s)); diff != "" {
		t.Error(diff)
	}
	consistent(t, s)
}

func TestContext(t *testing.T) {
	s := open(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ran := false
	answers := together(t, s, ctx, func(*View) (ChangeSet, error) { cancel(); return ChangeSet{}, nil }, func(v *View) (ChangeSet, error) {
		ran = true
		return put(sliver("late", "s", 1))(v)
	})
	if answers[0] != nil || !errors.Is(answers[1], context.Canceled) || ran {
		t.Errorf("answers %v, ran %v", answers, ran)
	}
	if got := names(t, s); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
}

func TestClose(t *testing.T) {
	s := open(t, Options{})
	var inside sync.WaitGroup
	busy, release, closed := make(chan struct{}), make(chan struct{}), make(chan error)
	answers := make([]error, 3)
	for i := range answers {
		inside.Go(func() {
			answers[i] = s.Commit(context.Background(), func(v *View) (ChangeSet, error) {
				if i == 0 {
					close(busy)
					<-release
				}
				return put(sliver(fmt.Sprint(i), "s", 1))(v)
			})
		})
		if i == 0 {
			<-busy
		}
	}
	for s.queue.len() != 2 {
		time.Sleep(10 * time.Microsecond)
	}
	go func() { closed <- s.Close() }()
	for !s.isClosed() {
		time.Sleep(10 * time.Microsecond)
	}
	if err := s.Commit(context.Background(), put()); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit after Close: %v", err)
	}
	if err := s.Read(func(*View) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	inside.Wait()
	for i, err := range answers {
		if err != nil {
			t.Errorf("waiting decision %d got: %v", i, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// TestRace has many callers reserve few components at the same time. Every third decision is
// refused, and some writes fail.
func TestRace(t *testing.T) {
	var writes atomic.Int32
	s := open(t, Options{Write: commitAfter(func() error {
		if writes.Add(1)%5 == 0 {
			return errNo
		}
		return nil
	})})
	const callers, slots, turns = 64, 10, 20
	var mu sync.Mutex
	owners := map[string]string{}
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for turn := range turns {
				slot, mine := fmt.Sprint((c+turn)%slots), fmt.Sprintf("s%d-%d", c, turn)
				err := s.Commit(context.Background(), func(v *View) (ChangeSet, error) {
					var cs ChangeSet
					if (c+turn)%3 == 0 {
						cs.PutSliver(sliver(slot, mine, 1))
						return cs, errNo
					}
					if _, _, err := v.Sliver(sliverURN(slot)); !errors.Is(err, ErrNotFound) {
						return cs, errNo
					}
					cs.PutSlice(am.Slice{URN: sliceURN(mine)})
					cs.PutSliver(sliver(slot, mine, 1))
					cs.Log(am.JournalEntry{Event: "Allocate", Slice: sliceURN(mine)})
					return cs, nil
				})
				if err == nil {
					// The caller sees the change as soon as Commit has returned.
					if err := s.Read(func(v *View) error { _, _, err := v.Sliver(sliverURN(slot)); return err }); err != nil {
						t.Errorf("slot %s after Commit: %v", slot, err)
					}
					mu.Lock()
					if other := owners[slot]; other != "" {
						t.Errorf("slot %s has two owners: %s and %s", slot, other, mine)
					}
					owners[slot] = mine
					mu.Unlock()
				} else if !errors.Is(err, errNo) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(owners) != slots {
		t.Errorf("%d of %d slots have an owner", len(owners), slots)
	}
	err := s.Read(func(v *View) error {
		for slot, owner := range owners {
			x, _, err := v.Sliver(sliverURN(slot))
			if err != nil || x.Slice.Name != owner {
				t.Errorf("slot %s is %v's, not %s's: %v", slot, x.Slice, owner, err)
			}
		}
		journal, slices := 0, 0
		if err := v.Journal(func(am.JournalEntry) bool { journal++; return true }); err != nil {
			return err
		}
		if err := v.Slices(func(am.Slice) bool { slices++; return true }); err != nil {
			return err
		}
		if journal != slots || slices != slots {
			t.Errorf("%d entries and %d slices for %d owners: something is half-written", journal, slices, slots)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if held := calendar(t, s); len(held) != slots {
		t.Errorf("the calendar has %d entries", len(held))
	}
	consistent(t, s)
}

// TestLoneCallerIsNotDelayed checks that the committer does not wait for more decisions. Otherwise
// the clock of the synctest bubble would advance.
func TestLoneCallerIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{})
		began := time.Now()
		for i := range 10 {
			commit(t, s, put(sliver(fmt.Sprint(i), "s", 1)))
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("ten commits waited %v", d)
		}
	})
}

// TestDoubtfulWriteStopsCommits checks that after a write that failed but is visible, the store
// refuses further commits, because the change may be missing after the next start.
func TestDoubtfulWriteStopsCommits(t *testing.T) {
	var fails atomic.Bool
	s := open(t, Options{Write: func(write func() error) error {
		err := write()
		if err == nil && fails.Load() {
			err = errors.New("input/output error")
		}
		return err
	}})
	commit(t, s, put(sliver("a", "s", 1)))
	fails.Store(true)
	if err := s.Commit(t.Context(), put(sliver("b", "s", 1))); !errors.Is(err, ErrNotCommitted) || !errors.Is(err, ErrInDoubt) {
		t.Errorf("the doubtful write: %v", err)
	}
	fails.Store(false)
	if err := s.Commit(t.Context(), put(sliver("c", "s", 1))); !errors.Is(err, ErrNotCommitted) || errors.Is(err, ErrInDoubt) || !strings.Contains(err.Error(), "is unknown whether") {
		t.Errorf("after the doubtful write: %v", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(t, s)); diff != "" {
		t.Errorf("readers do not see what the file has: %s", diff)
	}
}

// TestReadWithinARead checks that a Read inside a Read returns, also while Close waits for the
// outer one.
func TestReadWithinARead(t *testing.T) {
	s := open(t, Options{})
	closed := make(chan error, 1)
	err := s.Read(func(*View) error {
		if err := s.Read(func(*View) error { return nil }); err != nil {
			t.Errorf("while it is open: %v", err)
		}
		go func() { closed <- s.Close() }()
		for !s.isClosed() {
			runtime.Gosched()
		}
		return s.Read(func(*View) error { return nil })
	})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("while Close waits: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
