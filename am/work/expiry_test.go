package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			return gate{s, func() error {
				once.Do(func() { e.lease("a-1", time.Now().Add(time.Hour)) })
				return nil
			}}
		}
		e.start()
		time.Sleep(3 * time.Second)
		if !e.exists("a-1") || e.exists("a-2") {
			t.Errorf("left: %s", e.records())
		}
	})
}

// TestLeasesEndBatchByBatch ends many leases that are over at once, in several decisions, and stops
// the runner between two of them. Each sliver ends once, with its task, and in one journal entry
// and one event.
func TestLeasesEndBatchByBatch(t *testing.T) {
	for stop := range 6 {
		bubble(t, 2, func(e *env) {
			e.limits.Expire = 6                                  // a batch has slivers of two slices
			e.await = func(ctx context.Context) { <-ctx.Done() } // nothing is removed
			var names []string
			for i := range 40 {
				names = append(names, fmt.Sprintf("%c-%d", 'a'+i%5, i))
			}
			e.allocate(names...)
			e.provision(names[:20]...)
			for _, n := range names {
				e.lease(n, time.Now().Add(time.Minute))
			}
			if err := e.st.Commit(context.Background(), func(v *store.View) (cs store.ChangeSet, err error) {
				cs.PutCursor("hook h", store.Position(v.Revision()+1, 0))
				return cs, nil
			}); err != nil {
				t.Fatal(err)
			}
			var writes atomic.Int64
			e.wrap = func(s Store) Store {
				return gate{s, func() error {
					if writes.Add(1) > int64(stop) {
						return store.ErrNotCommitted
					}
					return nil
				}}
			}
			e.start()
			time.Sleep(2 * time.Minute)
			e.stop()
			e.wrap = nil
			e.start()
			e.within(2*time.Second, "all are ended", func() bool {
				for _, n := range names {
					if s := e.sliver(n); s.Status.Allocation != am.Unallocated && !s.URN.IsZero() {
						return false
					}
				}
				return true
			})
			e.stop()
			var journal, events []string
			decisions := map[string]bool{}
			err := e.st.Read(func(v *store.View) error {
				return errors.Join(
					v.Journal(func(j am.JournalEntry) bool {
						for _, u := range j.Slivers {
							if u.Name[:1] != j.Slice.Name {
								t.Errorf("%s is in an entry of slice %s", u.Name, j.Slice.Name)
							}
						}
						decisions[j.ID[:16]] = true
						for _, u := range j.Slivers {
							journal = append(journal, u.Name)
						}
						return true
					}),
					v.ChangesFrom(0, func(c store.Change) bool {
						for _, x := range c.Slivers {
							if x.Before.Status.Allocation != am.Unallocated && (x.After == nil || x.After.Status.Allocation == am.Unallocated) {
								events = append(events, x.Before.URN.Name)
							}
						}
						return true
					}),
				)
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(decisions) < 5 {
				t.Errorf("%d decisions", len(decisions))
			}
			for _, list := range [][]string{journal, events} {
				sorted := slices.Clone(list)
				slices.Sort(sorted)
				want := slices.Clone(names)
				slices.Sort(want)
				if !slices.Equal(sorted, want) {
					t.Errorf("stopped after %d: %d ends of %d slivers are reported: %v", stop, len(list), len(want), list)
				}
			}
			for i, n := range names {
				if task, ok := e.task(n); ok != (i < 20) || ok && task.Goal != am.GoalRemove {
					t.Errorf("task of %s: %v, %v", n, ok, task.Goal)
				}
			}
		})
	}
}

// TestEndLeasesDoesNotWaitForRun checks that EndLeases ends only leases that are over.
func TestEndLeasesDoesNotWaitForRun(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.stop() // the runner must not do it
		e.allocate("a-1", "b-1")
		e.lease("a-1", time.Now().Add(time.Minute))
		for _, wait := range []time.Duration{time.Minute - 1, 1} {
			time.Sleep(wait)
			if err := e.r.EndLeases(t.Context()); err != nil {
				t.Fatal(err)
			}
			if over := wait == 1; e.exists("a-1") == over || !e.exists("b-1") {
				t.Errorf("after %v: %s", wait, e.records())
			}
		}
	})
}

// A slice without slivers ends with its definitions; one with slivers keeps them.
func TestDefinitionsEndBySweep(t *testing.T) {
	bubble(t, 1, func(e *env) {
		e.limits.Sweep = time.Minute
		e.start()
		e.makeReady("a-1")
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			for _, name := range []string{"a-1", "b-1"} {
				s, _, _ := v.Slice(sliceURN(name))
				s.URN, s.Definitions, s.DefinedUntil = sliceURN(name), []string{"define-" + name}, time.Now().Add(time.Hour)
				cs.PutSlice(s)
				cs.PutDocument(am.Document{ID: "define-" + name, Slice: s.URN})
			}
			return cs, nil
		})
		left := func() (names string) {
			err := e.st.Read(func(v *store.View) error {
				for _, name := range []string{"a-1", "b-1"} {
					s, _, err := v.Slice(sliceURN(name))
					_, _, err2 := v.Document("define-" + name)
					if err == nil && err2 == nil && len(s.Definitions) == 1 {
						names += name
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		time.Sleep(30 * time.Minute)
		if got := left(); got != "a-1b-1" {
			t.Errorf("before the end %q are left", got)
		}
		e.lease("a-1", time.Now().Add(time.Hour+time.Minute))
		time.Sleep(40 * time.Minute)
		if got := left(); got != "a-1" {
			t.Errorf("after the end %q are left", got)
		}
		time.Sleep(time.Hour)
		if got := left(); got != "" || e.exists("a-1") {
			t.Errorf("without slivers %q are left", got)
		}
	})
}
