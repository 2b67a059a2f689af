package lease_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

var (
	sliceA = urn.MustParse("urn:publicid:IDN+example.org+slice+a")
	sliceB = urn.MustParse("urn:publicid:IDN+example.org+slice+b")
	start  = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
)

func sliverURN(i int) urn.URN {
	return urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+%d", i))
}

func open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func commit(t *testing.T, st *store.Store, d store.Decision) {
	t.Helper()
	if err := st.Commit(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// seed puts slice A with slivers of the given statuses; sliver i came from
// document docs[i].
func seed(t *testing.T, st *store.Store, shutdown bool, docs []string, statuses ...am.Status) {
	commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
		s := am.Slice{URN: sliceA, Serial: 5}
		if shutdown {
			s.Shutdown = start
		}
		cs.PutSlice(s)
		cs.PutSlice(am.Slice{URN: sliceB, Serial: 9})
		for i, status := range statuses {
			cs.PutDocument(am.Document{ID: docs[i], Slice: sliceA, Text: []byte("<rspec/>")})
			cs.PutSliver(am.Sliver{URN: sliverURN(i), Slice: sliceA, Document: docs[i], Status: status,
				Expires: start.Add(time.Hour), Generation: 3, Desired: am.Desired{Present: true, On: true}, Error: "old"})
		}
		return cs, nil
	})
}

// left returns the existing records: slices and their serials, slivers, documents and tasks.
func left(t *testing.T, st *store.Store, docs ...string) string {
	t.Helper()
	out := ""
	err := st.Read(func(v *store.View) error {
		v.Slices(func(s am.Slice) bool { out += fmt.Sprintf("slice %s %d; ", s.URN.Name, s.Serial); return true })
		v.Slivers(func(s am.Sliver) bool {
			out += fmt.Sprintf("sliver %s %s gen %d; ", s.URN.Name, s.Status.Allocation, s.Generation)
			return true
		})
		v.Tasks(func(x am.Task) bool {
			out += fmt.Sprintf("task %s %s %d %s; ", x.Sliver.Name, x.Goal, x.Generation, x.Request)
			return true
		})
		for _, d := range docs {
			if _, _, err := v.Document(d); err == nil {
				out += "document " + d + "; "
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	allocated = am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation}
	ready     = am.Status{Allocation: am.Provisioned, Operational: am.Ready}
	released  = am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}
)

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		rule     string
		shutdown bool
		statuses []am.Status
		docs     []string
		release  []int
		want     string
	}{
		{"an allocated sliver goes at once, the last with its slice and document", false,
			[]am.Status{allocated}, []string{"d0"}, []int{0},
			"slice b 9; "},
		{"all allocated slivers of a slice in one decision", false,
			[]am.Status{allocated, allocated}, []string{"d0", "d1"}, []int{0, 1},
			"slice b 9; "},
		{"a document stays while another sliver came from it", false,
			[]am.Status{allocated, allocated}, []string{"d0", "d0"}, []int{0},
			"slice a 6; slice b 9; sliver 1 geni_allocated gen 3; document d0; "},
		{"a document goes with its last sliver", false,
			[]am.Status{allocated, allocated}, []string{"d0", "d1"}, []int{1},
			"slice a 6; slice b 9; sliver 0 geni_allocated gen 3; document d0; "},
		{"a provisioned sliver stays as the reservation, with a task", false,
			[]am.Status{ready}, []string{"d0"}, []int{0},
			"slice a 6; slice b 9; sliver 0 geni_unallocated gen 4; task 0 remove 4 r1; document d0; "},
		{"a mixed release keeps the slice, counted once", false,
			[]am.Status{ready, allocated}, []string{"d0", "d1"}, []int{0, 1},
			"slice a 6; slice b 9; sliver 0 geni_unallocated gen 4; task 0 remove 4 r1; document d0; "},
		{"a slice that was shut down stays", true,
			[]am.Status{allocated}, []string{"d0"}, []int{0},
			"slice a 6; slice b 9; "},
	} {
		t.Run(c.rule, func(t *testing.T) {
			st := open(t)
			seed(t, st, c.shutdown, c.docs, c.statuses...)
			commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
				all, err := v.SliversOf(sliceA)
				var some []am.Sliver
				for _, i := range c.release {
					some = append(some, all[i])
				}
				if err == nil {
					err = lease.Release(v, &cs, some, am.EventDelete, "r1")
				}
				return cs, err
			})
			if got := left(t, st, "d0", "d1"); got != c.want {
				t.Errorf("left\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestReleaseWritesAbsent(t *testing.T) {
	st := open(t)
	seed(t, st, false, []string{"d0"}, ready)
	commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
		all, err := v.SliversOf(sliceA)
		if err == nil {
			err = lease.Release(v, &cs, all, am.EventExpire, "")
		}
		return cs, err
	})
	st.Read(func(v *store.View) error {
		s, _, err := v.Sliver(sliverURN(0))
		if err != nil || s.Status != released || s.Desired.Present || s.Desired.On || s.Error != "" {
			t.Errorf("released sliver: %+v, %v", s, err)
		}
		task, _, err := v.Task(s.URN)
		if err != nil || !task.Since.Equal(start) {
			t.Errorf("task: %+v, %v", task, err)
		}
		return nil
	})
}

// TestReleaseOfRestoredReservations releases a reservation of a restored backup, which may have been
// provisioned since, unless it begins later. Its component stays reserved until the provider reports no node.
func TestReleaseOfRestoredReservations(t *testing.T) {
	const kept = "slice a 6; slice b 9; sliver 0 geni_unallocated gen 4; task 0 remove 4 r1; document d0; "
	for _, tt := range []struct {
		rule   string
		begins time.Time
		want   string
	}{
		{"began when it was reserved", time.Time{}, kept},
		{"its start came since the backup", start.Add(-time.Hour), kept},
		{"its start comes", start.Add(time.Hour), "slice b 9; "},
	} {
		st := open(t)
		seed(t, st, false, []string{"d0"}, allocated)
		commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
			s, _, err := v.Sliver(sliverURN(0))
			s.Restored, s.Begins, s.Ends = true, tt.begins, start.Add(2*time.Hour)
			cs.PutSliver(s)
			return cs, err
		})
		commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
			all, err := v.SliversOf(sliceA)
			if err == nil {
				err = lease.Release(v, &cs, all, am.EventDelete, "r1")
			}
			return cs, err
		})
		if got := left(t, st, "d0"); got != tt.want {
			t.Errorf("%s: left is %s", tt.rule, got)
		}
	}
}

func TestReleaseIsAllOrNothing(t *testing.T) {
	st := open(t)
	seed(t, st, false, []string{"d0", "d1"}, ready, released)
	err := st.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		all, err := v.SliversOf(sliceA)
		if err != nil {
			return cs, err
		}
		err = lease.Release(v, &cs, all, am.EventDelete, "r1")
		if !cs.Empty() {
			t.Errorf("a refused release leaves %+v", cs)
		}
		return cs, err
	})
	if e, ok := errors.AsType[*am.Error](err); !ok || e.Code != am.Unsupported || !e.URN.Equal(sliverURN(1)) {
		t.Errorf("releasing a released sliver: %v", err)
	}
}

// A later put does not restore an earlier put of the same decision.
func TestReleaseOverridesEarlierPuts(t *testing.T) {
	st := open(t)
	seed(t, st, false, []string{"d0"}, allocated)
	commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
		all, err := v.SliversOf(sliceA)
		if err != nil {
			return cs, err
		}
		s, _, err := v.Slice(sliceA)
		if err != nil {
			return cs, err
		}
		s.Serial = 40
		cs.PutSlice(s)
		cs.PutSliver(all[0])
		return cs, lease.Release(v, &cs, all, am.EventDelete, "r1")
	})
	if got := left(t, st, "d0"); got != "slice b 9; " {
		t.Errorf("left %s", got)
	}
}

// A sliver that the same decision allocates keeps its slice.
func TestForgetKeepsSliceOfNewSliver(t *testing.T) {
	st := open(t)
	seed(t, st, false, []string{"d0"}, released)
	commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
		all, err := v.SliversOf(sliceA)
		if err != nil {
			return cs, err
		}
		cs.PutSliver(am.Sliver{URN: sliverURN(7), Slice: sliceA, Document: "d0", Status: allocated})
		return cs, lease.Forget(v, &cs, all)
	})
	want := "slice a 6; slice b 9; sliver 7 geni_allocated gen 0; document d0; "
	if got := left(t, st, "d0"); got != want {
		t.Errorf("left %s\nwant %s", got, want)
	}
}

func TestThaw(t *testing.T) {
	st := open(t)
	seed(t, st, true, []string{"d", "d"}, am.Status{Allocation: am.Provisioned, Operational: am.NotReady}, am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation})
	commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
		for i := range 2 {
			s, _, err := v.Sliver(sliverURN(i))
			if err != nil {
				return cs, err
			}
			s.Frozen, s.Expires = true, start.Add(-time.Hour)
			cs.PutSliver(s)
		}
		return cs, nil
	})
	var due []am.Sliver
	look := func() (slice am.Slice) {
		t.Helper()
		if err := st.Read(func(v *store.View) (err error) {
			if slice, _, err = v.Slice(sliceA); err == nil {
				due, _, err = v.Due(9)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return slice
	}
	if look(); len(due) != 0 {
		t.Fatalf("frozen slivers are due: %v", due)
	}
	commit(t, st, func(v *store.View) (cs store.ChangeSet, err error) {
		_, err = lease.Thaw(v, &cs, sliceA, time.Time{})
		return cs, err
	})
	if s := look(); !s.Shutdown.IsZero() || len(due) != 2 {
		t.Errorf("thawed: shut down %v, %d slivers whose leases are over; want 2", s.Shutdown, len(due))
	}
	for slice, want := range map[urn.URN]am.Code{sliceA: am.Refused, sliceB: am.Refused} {
		err := st.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
			_, err = lease.Thaw(v, &cs, slice, time.Time{})
			return cs, err
		})
		if am.CodeOf(err) != want {
			t.Errorf("Thaw of %s, which is not shut down: %v", slice, err)
		}
	}
}
