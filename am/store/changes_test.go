package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
)

// begin makes the named follower begin at a revision.
func begin(name string, rev Rev) Decision {
	return func(*View) (cs ChangeSet, err error) { cs.PutCursor(name, Position(rev, 0)); return cs, nil }
}

// inState is a sliver in an operational state.
func inState(name string, state am.OperationalState) am.Sliver {
	s := sliver(name, "s", 10)
	s.Status = am.Status{Allocation: am.Provisioned, Operational: state}
	return s
}

// changes returns what followers read of a store: revision, sliver, and its states before and after.
func changes(t testing.TB, s *Store) (list []string) {
	t.Helper()
	state := func(s *am.Sliver) string {
		if s == nil {
			return "-"
		}
		return strings.TrimPrefix(string(s.Status.Operational), "geni_")
	}
	err := s.Read(func(v *View) error {
		return v.ChangesFrom(0, func(c Change) bool {
			text := fmt.Sprint(c.Rev)
			for _, e := range c.Journal {
				text += " " + e.Event
			}
			for _, x := range c.Slices {
				text += fmt.Sprint(" ", x.Before != nil, " ", x.After != nil)
			}
			for _, x := range c.Slivers {
				text += " " + state(x.Before) + ">" + state(x.After)
			}
			for _, m := range c.Messages {
				text += fmt.Sprintf(" %s %s %s %s", m.ID, m.Slice.Name, m.To, m.Text)
			}
			if c.Lost > 0 {
				text += fmt.Sprint(" lost ", c.Lost)
			}
			list = append(list, text)
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestChangesAreWrittenWithTheirRecords(t *testing.T) {
	var failing atomic.Bool
	s := open(t, Options{Write: commitAfter(func() error {
		if failing.Load() {
			return errNo
		}
		return nil
	})})
	commit(t, s, put(inState("x", am.Ready)))
	if got := changes(t, s); got != nil {
		t.Errorf("without a follower: %q", got)
	}
	commit(t, s, begin("audit", 0))
	changed := s.Changed()
	refuse := func(*View) (cs ChangeSet, err error) { cs.PutSliver(inState("no", am.Ready)); return cs, errNo }
	// Each decision of a group sees the changes of those before it.
	together(t, s, context.Background(), put(inState("a", am.NotReady)), refuse,
		put(inState("a", am.Ready), inState("b", am.NotReady), inState("b", am.Ready)),
		func(*View) (cs ChangeSet, err error) {
			cs.Remove(SliverKey(sliverURN("a")), SliverKey(sliverURN("absent")))
			return cs, nil
		})
	select {
	case <-changed:
	default:
		t.Error("followers are not told")
	}
	failing.Store(true)
	if err := s.Commit(t.Context(), put(inState("b", am.Failed))); !errors.Is(err, ErrNotCommitted) {
		t.Errorf("a failed write says %v", err)
	}
	failing.Store(false)
	commit(t, s, func(*View) (cs ChangeSet, err error) {
		x := inState("b", am.Ready)
		x.SetupDone = true // followers need not know
		cs.PutSliver(x)
		cs.PutSlice(am.Slice{URN: sliceURN("s"), Serial: 2})
		return cs, nil
	})
	commit(t, s, func(*View) (cs ChangeSet, err error) {
		cs.PutSlice(am.Slice{URN: sliceURN("s"), Shutdown: noon})
		cs.Log(am.JournalEntry{Event: "Shutdown"})
		return cs, nil
	})
	want := []string{"3 ->notready", "4 notready>ready ->ready", "5 ready>-", "7 Shutdown false true"}
	if diff := cmp.Diff(want, changes(t, s)); diff != "" {
		t.Error(diff)
	}
	consistent(t, s)
}

// TestPruneChanges checks that changes stay until the slowest follower has read them, and that a gap
// takes the place of those beyond the limits.
func TestPruneChanges(t *testing.T) {
	now := noon
	s := open(t, Options{Now: func() time.Time { return now }})
	commit(t, s, begin("audit", 0))
	commit(t, s, begin("hook h", 0))
	log := func(events ...string) {
		for _, e := range events {
			commit(t, s, func(*View) (cs ChangeSet, err error) { cs.Log(am.JournalEntry{Event: e}); return cs, nil })
		}
	}
	log("a", "b", "c", "d") // revisions 3 to 6
	wants := func(rule string, l ChangeLimits, want ...string) {
		t.Helper()
		if err := s.PruneChanges(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, changes(t, s)); diff != "" {
			t.Errorf("%s: %s", rule, diff)
		}
	}
	wants("nobody has read", ChangeLimits{}, "3 a", "4 b", "5 c", "6 d")
	commit(t, s, begin("audit", 7))
	wants("one has not read", ChangeLimits{}, "3 a", "4 b", "5 c", "6 d")
	commit(t, s, begin("hook h", 4))
	commit(t, s, func(*View) (cs ChangeSet, err error) {
		cs.PutCursor(PartOf("hook h", "s"), Position(1, 0))
		return cs, nil
	})
	wants("both have read one", ChangeLimits{}, "4 b", "5 c", "6 d")
	wants("too many", ChangeLimits{Number: 1}, "5 lost 2", "6 d")
	rev := s.Revision()
	wants("a gap stays", ChangeLimits{Number: 1}, "5 lost 2", "6 d")
	if s.Revision() != rev {
		t.Error("a gap is written again")
	}
	log("e")
	now = noon.Add(8 * 24 * time.Hour)
	log("f")
	wants("too old", ChangeLimits{}, "12 lost 4", "13 f")
	commit(t, s, begin("hook h", 14))
	commit(t, s, begin("audit", 14))
	wants("all have read", ChangeLimits{})
}

func TestAPanicRefusesItsChangeOnly(t *testing.T) {
	s := open(t, Options{})
	bug := func(*View) (ChangeSet, error) { panic("a bug") }
	answers := together(t, s, context.Background(), put(inState("a", am.Ready)), bug, put(inState("b", am.Ready)))
	if answers[0] != nil || answers[2] != nil || answers[1] == nil || !strings.Contains(answers[1].Error(), "a bug") {
		t.Errorf("answers %v", answers)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(t, s)); diff != "" {
		t.Error(diff)
	}
}

// TestMigrationConvertsMessages migrates a store of schema 4 with events that hooks have not taken.
func TestMigrationConvertsMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{Now: at})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, put(sliver("a", "s", 1)))
	commit(t, s, put(sliver("b", "s", 1)))
	var ops []op
	for id, to := range map[string][]string{Position(1, 0): {"mail"}, Position(2, 1): {"mail", "wiki"}, Position(2, 3): {"wiki"}} {
		text, err := encode(2, Message{At: noon, Slice: sliceURN("s"), To: to, Text: json.RawMessage(`{"event":"ready"}`)})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op{"events", []byte(id), text})
	}
	err = s.db.update(func(r reader) error { return r.apply(append(ops, schemaOp(changeSchema-1))...) })
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s, err = Open(path, Options{Now: at}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`1 0000000000000001-0000 s [mail] {"event":"ready"}`,
			`2 0000000000000002-0001 s [mail wiki] {"event":"ready"} 0000000000000002-0003 s [wiki] {"event":"ready"}`,
		}
		if diff := cmp.Diff(want, changes(t, s)); diff != "" {
			t.Error(diff)
		}
		consistent(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
