package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/am"
)

// TestPreparedDecisions changes the store between the run of a decision on a view and its commit. The
// decision puts a sliver when it has read.
func TestPreparedDecisions(t *testing.T) {
	onPC := func(name, component string) am.Sliver {
		x := sliver(name, "other", 90)
		x.Component = componentURN(component)
		return x
	}
	of := func(component string) func(*am.Hold) bool {
		return func(h *am.Hold) bool { return strings.HasSuffix(string(h.Component), component) }
	}
	all := func(*am.Hold) bool { return true }
	remove := func(name string) Decision {
		return func(*View) (cs ChangeSet, err error) { cs.Remove(SliverKey(sliverURN(name))); return cs, nil }
	}
	changed := sliver("old", "s", 5)
	later := onPC("new", "pc1")
	later.Begins, later.Ends = noon.Add(time.Hour), later.Expires
	settings := 0
	for _, tt := range []struct {
		rule   string
		read   func(*View) error
		change Decision
		again  bool
	}{
		{"a record that has changed", func(v *View) error { _, _, err := v.Sliver(sliverURN("old")); return err }, put(changed), true},
		{"a record that was deleted", func(v *View) error { _, _, err := v.Sliver(sliverURN("old")); return err }, remove("old"), true},
		{"a record that was missing", func(v *View) error { v.Rev(SliverKey(sliverURN("new"))); return nil }, put(onPC("new", "pc1")), true},
		{"another record has changed", func(v *View) error { _, _, err := v.Sliver(sliverURN("old")); return err }, put(onPC("new", "pc1")), false},
		{"a new sliver of the slice", func(v *View) error { _, err := v.SliversOf(sliceURN("s")); return err }, put(sliver("new", "s", 5)), true},
		{"a new sliver of another slice", func(v *View) error { _, err := v.SliversOf(sliceURN("s")); return err }, put(onPC("new", "pc1")), false},
		{"a lease that ends earlier", func(v *View) error { _, _, err := v.Due(1); return err }, put(sliver("new", "other", -5)), true},
		{"a lease that ends later than those read", func(v *View) error {
			return v.EachEnding(noon.Add(time.Minute), func(am.Sliver) bool { return true })
		}, put(onPC("new", "pc1")), false},
		{"all slivers", func(v *View) error { return v.Slivers(func(am.Sliver) bool { return true }) }, put(onPC("new", "pc1")), true},
		{"the whole calendar", func(v *View) error { return v.Calendar(all) }, put(onPC("new", "pc1")), true},
		{"a component", func(v *View) error { return v.CalendarOf(time.Time{}, of("pc1"), all) }, put(onPC("new", "pc1")), true},
		{"another component", func(v *View) error { return v.CalendarOf(time.Time{}, of("pc2"), all) }, put(onPC("new", "pc1")), false},
		{"a component that became free", func(v *View) error { return v.CalendarOf(time.Time{}, all, all) }, remove("old"), false},
		{"a time in which a new entry begins", func(v *View) error { return v.CalendarOf(noon.Add(2*time.Hour), all, all) }, put(later), true},
		{"the time before a new entry begins", func(v *View) error { return v.CalendarOf(noon.Add(time.Hour), all, all) }, put(later), false},
		{"settings that have changed", func(v *View) error {
			was := settings
			v.DependOn(func() bool { return settings == was })
			return nil
		}, func(*View) (cs ChangeSet, err error) { settings++; return cs, nil }, true},
		{"nothing", func(*View) error { return nil }, put(changed), false},
		{"more changes than are remembered", func(*View) error { return nil }, func(*View) (cs ChangeSet, err error) {
			for range maxRecent + 2 {
				cs.Remove(TaskKey(sliverURN("none")))
			}
			return cs, nil
		}, true},
	} {
		for _, isLong := range []bool{false, true} {
			o := Options{Now: at, Short: time.Hour}
			if isLong {
				o.Short = 1
			}
			s := open(t, o)
			commit(t, s, put(sliver("old", "s", 60)))
			runs := 0
			err := s.CommitFor(t.Context(), "alice", false, func(v *View) (cs ChangeSet, err error) {
				runs++
				err = tt.read(v)
				if runs == 1 {
					commit(t, s, tt.change)
				}
				cs.PutSliver(sliver("mine", "mine", 60))
				cs.Log(am.JournalEntry{Event: "Test"})
				if errors.Is(err, ErrNotFound) && tt.again {
					err = nil
				}
				return cs, err
			})
			want := 1
			if tt.again {
				want = 2
			}
			if err != nil || runs != want {
				t.Errorf("%s, long: %t: %d runs, want %d; %v", tt.rule, isLong, runs, want, err)
			}
			err = s.Read(func(v *View) error {
				_, rev, err := v.Sliver(sliverURN("mine"))
				if now := v.Revision(); rev != now {
					t.Errorf("%s, long: %t: the record has the revision %d, the store %d", tt.rule, isLong, rev, now)
				}
				if err := v.JournalAfter(rev-1, func(e am.JournalEntry) bool {
					if at, ok := JournalRev(e.ID); !ok || at != rev {
						t.Errorf("%s: the journal's entry is %s", tt.rule, e.ID)
					}
					return true
				}); err != nil {
					return err
				}
				return err
			})
			if err != nil {
				t.Errorf("%s, long: %t: %v", tt.rule, isLong, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestLongDecisionsEnd checks that a long decision ends whose basis changes each time, and a short one is
// carried out.
func TestLongDecisionsEnd(t *testing.T) {
	for _, tt := range []struct {
		short time.Duration
		runs  int
		want  error
	}{{1, maxAttempts, ErrContended}, {time.Hour, 2, nil}} {
		s := open(t, Options{Short: tt.short})
		runs := 0
		err := s.CommitFor(t.Context(), "alice", false, func(v *View) (cs ChangeSet, err error) {
			n, err := v.SliversOf(sliceURN("s"))
			if runs++; tt.want != nil || runs == 1 {
				commit(t, s, put(sliver(strings.Repeat("x", runs), "s", 5)))
			}
			cs.PutSliver(sliver("mine", "s", len(n)))
			return cs, err
		})
		if !errors.Is(err, tt.want) || runs != tt.runs {
			t.Errorf("%d runs, want %d; %v", runs, tt.runs, err)
		}
	}
}

// TestPreparedErrors checks that an error, a panic and an ended context leave the store unchanged.
func TestPreparedErrors(t *testing.T) {
	s := open(t, Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tt := range []struct {
		ctx    context.Context
		decide Decision
		want   string
	}{
		{t.Context(), func(*View) (ChangeSet, error) { return ChangeSet{}, errNo }, errNo.Error()},
		{t.Context(), func(*View) (ChangeSet, error) { panic("at night") }, "a decision panicked: at night"},
		{ended, put(sliver("a", "s", 1)), context.Canceled.Error()},
	} {
		if err := s.CommitFor(tt.ctx, "alice", false, tt.decide); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	if got := names(t, s); len(got) > 0 {
		t.Errorf("slivers %v", got)
	}
}

// TestRecentOperationsTakeLittleMemory adds operations with large entries of the calendar, and then
// removes those of a write that failed.
func TestRecentOperationsTakeLittleMemory(t *testing.T) {
	var r recent
	large := []op{{calendarBucket, []byte("pc1"), make([]byte, 1<<20)}, {string(Slivers), []byte("a"), make([]byte, 1<<20)}}
	for rev := Rev(1); rev <= 100; rev++ {
		r.add(rev, large)
		if size := r.bytes; size > maxRecentBytes || size < maxRecentBytes/2-1<<20 && rev > maxRecentBytes>>20 {
			t.Fatalf("revision %d: %d bytes", rev, size)
		}
	}
	r.removeAfter(50)
	if len(r.list) > 0 || r.bytes != 0 || !r.allows(&prepared{base: 50}) || r.allows(&prepared{base: 49}) {
		t.Errorf("after revision 50 there are %d operations with %d bytes, complete since %d", len(r.list), r.bytes, r.since)
	}
}
