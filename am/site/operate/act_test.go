package operate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// state returns the slivers, slices, tasks, and the last n entries of the journal.
func (s *site) state(entries int) string {
	s.t.Helper()
	var b strings.Builder
	err := s.store.Read(func(v *store.View) error {
		v.Slivers(func(x am.Sliver) bool {
			fmt.Fprintf(&b, "%s %s gen %d until %s", x.URN.Name, operate.StateOf(&x, v.Now()), x.Generation, x.Expires.Format("02T15:04"))
			if x.Frozen {
				b.WriteString(" frozen")
			}
			b.WriteString("; ")
			return true
		})
		v.Slices(func(x am.Slice) bool {
			fmt.Fprintf(&b, "%s %s serial %d", x.URN.Authority[:1], x.URN.Name, x.Serial)
			if !x.Shutdown.IsZero() {
				b.WriteString(" shut down")
			}
			b.WriteString("; ")
			return true
		})
		v.Tasks(func(x am.Task) bool {
			fmt.Fprintf(&b, "%s %s; ", x.Goal, x.Sliver.Name)
			return true
		})
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if entries > 0 {
		err = s.Journal(operate.Filter{Limit: entries}, func(e operate.Entry) error {
			fmt.Fprintf(&b, "%s by %s%s %q %d; ", e.Event, e.Operator, e.Caller.Name, e.Text, len(e.Slivers))
			return nil
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func lacks(t *testing.T, rule, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%s: %q is in\n%s", rule, p, text)
		}
	}
}

func has(t *testing.T, rule, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: %q is missing in\n%s", rule, p, text)
		}
	}
}

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		rule    string
		targets []string
		frozen  bool
		done    string
		has     []string // in the state
		lacks   []string
	}{
		{"a slice by name: made slivers are to be removed", []string{"exp-a"}, false, "[{exp-a 2 2}]",
			[]string{"s1 removing gen 2", "s2 removing gen 2", "s3 removing gen 1", "e exp-a serial 8", "remove s1; remove s2", `Delete by dora "because" 2`}, nil},
		{"reserved slivers go at once", []string{"exp-b/n", name(urn.Sliver, "s2").String()}, false, "", nil, nil},
		{"a sliver by its URN", []string{name(urn.Sliver, "s4").String()}, false, "[{exp-b 1 0}]", []string{"s5 making"}, []string{"s4 "}},
		{"one sliver of a slice", []string{"exp-a/db"}, false, "[{exp-a 1 1}]", []string{"s1 ready gen 1", "s2 removing gen 2"}, nil},
		{"a slice and one of its slivers are that slice", []string{"exp-a/db", sliceA.String(), "exp-a/web"}, false, "[{exp-a 2 2}]", nil, nil},
		{"two slices in one decision", []string{"exp-a", twice.String()}, false, "[{exp-a 2 2} {exp-b 1 1}]",
			[]string{"s1 removing", "s7 removing", `Delete by dora "because" 2; Delete by dora "because" 1`}, nil},
		{"what is frozen, if that is said", []string{"frozen"}, true, "[{frozen 1 1}]", []string{"s6 removing gen 2 until 02T11:00;", "e frozen serial 8 shut down", "remove s6"}, nil},
	} {
		s := newSite(t)
		done, err := s.Release(t.Context(), operate.Release{Targets: c.targets, Frozen: c.frozen, Text: "because", Operator: "dora"})
		if c.done == "" {
			has(t, c.rule, fmt.Sprint(err), "2 slices have the name exp-b", sliceB.String(), twice.String())
			continue
		}
		var got []string
		for _, x := range done.Slices {
			got = append(got, fmt.Sprintf("{%s %d %d}", x.Slice.Name, x.Slivers, x.Removing))
		}
		if said := "[" + strings.Join(got, " ") + "]"; err != nil || said != c.done {
			t.Errorf("%s: %s, %v, want %s", c.rule, said, err, c.done)
		}
		has(t, c.rule, s.state(2), c.has...)
		lacks(t, c.rule, s.state(2), c.lacks...)
		if s.woken.Load() == 0 {
			t.Errorf("%s: the runner is not woken", c.rule)
		}
	}
}

// TestReleaseSkipsSliversBeingRemoved proves that the slices whose users have deleted their
// slivers do not refuse the release of others.
func TestReleaseSkipsSliversBeingRemoved(t *testing.T) {
	s := newSite(t)
	release := func(targets ...string) (operate.Result, error) {
		return s.Release(t.Context(), operate.Release{Targets: targets, Operator: "dora"})
	}
	if _, err := release("exp-a"); err != nil {
		t.Fatal(err)
	}
	if done, err := release("exp-a", twice.String()); err != nil || len(done.Slices) != 1 || done.Slices[0].Slice.Name != "exp-b" {
		t.Errorf("%v, %v", done, err)
	}
	if _, err := release("exp-a", twice.String()); err == nil || !strings.Contains(err.Error(), "are being removed already") {
		t.Errorf("nothing to release: %v", err)
	}
}

func TestRenew(t *testing.T) {
	until := func(d time.Duration) operate.End { return operate.End{Until: now.Add(d)} }
	for _, c := range []struct {
		rule     string
		targets  []string
		end      operate.End
		has      []string
		warnings []string
	}{
		{"longer", []string{"exp-a"}, until(5 * time.Hour), []string{"s1 ready gen 1 until 02T17:00", "s2 failed gen 1 until 02T17:00", "s3 removing gen 1 until 02T13:00", "serial 8", `Renew by dora "until 2030-01-02T17:00:00Z" 2`}, nil},
		{"shorter", []string{"exp-a/web"}, until(time.Minute), []string{"s1 ready gen 1 until 02T12:01", "s2 failed gen 1 until 02T14:00"}, nil},
		{"from now on, by the site's clock", []string{"exp-a"}, operate.End{For: 3600}, []string{"s1 ready gen 1 until 02T13:00"}, nil},
		{"in whole seconds", []string{"exp-a"}, until(time.Hour + time.Second/2), []string{"s1 ready gen 1 until 02T13:00"}, nil},
		{"beyond what a user could, which is told once a slice", []string{"exp-a"}, until(25 * time.Hour), []string{"s1 ready gen 1 until 03T13:00"},
			[]string{"slice exp-a could renew until 2030-01-03T12:00:00Z at most (leases.provisioned_max)"}},
		{"a reservation", []string{name(urn.Sliver, "s4").String()}, until(3 * time.Hour), []string{"s4 allocated gen 1 until 02T15:00"}, []string{"(leases.allocated_max)"}},
		{"into maintenance", []string{"exp-a/db"}, until(48 * time.Hour), nil, []string{"leases.provisioned_max", "maintenance of h1 begins at 2030-01-04T00:00:00Z: move"}},
	} {
		s := newSite(t)
		done, err := s.Renew(t.Context(), operate.Renew{Targets: c.targets, End: c.end, Operator: "dora"})
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		has(t, c.rule, s.state(1), c.has...)
		if len(done.Warnings) > 2 || (len(done.Warnings) > 0) != (len(c.warnings) > 0) {
			t.Errorf("%s: warnings %q", c.rule, done.Warnings)
		}
		has(t, c.rule, strings.Join(done.Warnings, "\n"), c.warnings...)
	}
}

// A lease that ended while no server was running can be renewed: the sliver still has its record
// and its component.
func TestRenewOfExpiredLeases(t *testing.T) {
	s := newSite(t)
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		x, _, err := v.Sliver(name(urn.Sliver, "s1"))
		x.Expires = now.Add(-time.Hour)
		cs.PutSliver(x)
		return cs, err
	})
	if _, err := s.Renew(t.Context(), operate.Renew{Targets: []string{"exp-a/web"}, End: operate.End{For: 3600}, Text: "power cut", Operator: "dora"}); err != nil {
		t.Fatal(err)
	}
	has(t, "it goes on", s.state(1), "s1 ready gen 1 until 02T13:00", `Renew by dora "until 2030-01-02T13:00:00Z: power cut" 1`)
}

func TestThaw(t *testing.T) {
	s := newSite(t)
	done, err := s.Thaw(t.Context(), operate.Thaw{Slice: "frozen", ReleaseExpired: true, Operator: "dora"})
	if err != nil || len(done.Slices) != 1 || done.Slices[0].Slivers != 1 || !done.Slices[0].Expires.Equal(now.Add(-time.Hour)) || s.woken.Load() != 1 {
		t.Errorf("%+v, %v, woken %d", done, err, s.woken.Load())
	}
	has(t, "the lease counts", s.state(1), "s6 expired gen 1 until 02T11:00;", "e frozen serial 8;", `thaw by dora "" 1`)

	s = newSite(t)
	done, err = s.Thaw(t.Context(), operate.Thaw{Slice: down.String(), Extend: operate.End{For: 7200}, Text: "all is well", Operator: "dora"})
	if err != nil || !done.Slices[0].Expires.Equal(now.Add(2*time.Hour)) || done.Slices[0].Nodes != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	has(t, "its lease goes on", s.state(1), "s6 notready gen 1 until 02T14:00;", `thaw by dora "no lease ends before 2030-01-02T14:00:00Z: all is well" 1`)

	s = newSite(t)
	if _, err := s.Release(t.Context(), operate.Release{Targets: []string{"frozen"}, Frozen: true, Operator: "dora"}); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Thaw(t.Context(), operate.Thaw{Slice: "frozen", Extend: operate.End{For: 7200}, Operator: "dora"}); err != nil {
		t.Error(err)
	}
	has(t, "what is being removed is not prolonged", s.state(0), "s6 removing gen 2 until 02T11:00;")

	// Of two slices with one name, the command means the one that is shut down.
	s = newSite(t)
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		x, _, err := v.Slice(twice)
		x.Shutdown, x.ShutdownBy = now, bob
		cs.PutSlice(x)
		return cs, err
	})
	if done, err := s.Thaw(t.Context(), operate.Thaw{Slice: "exp-b", Operator: "dora"}); err != nil || done.Slices[0].Slice != twice {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestShutdown checks that an operator's shutdown stops and keeps the slivers of a slice, and names the operator.
func TestShutdown(t *testing.T) {
	s := newSite(t)
	done, err := s.Shutdown(t.Context(), operate.Shutdown{Slice: "exp-a", Text: "it attacks others", Operator: "dora"})
	if err != nil || len(done.Slices) != 1 || done.Slices[0].Slivers != 2 || !done.Slices[0].Shutdown || s.woken.Load() != 1 {
		t.Errorf("%+v, %v, woken %d", done, err, s.woken.Load())
	}
	has(t, "its nodes stop", s.state(1), "s1 stopping gen 2 until 02T15:00 frozen;", "s2 failed gen 1 until 02T14:00 frozen;", "e exp-a serial 8 shut down;", "stop s1;", `Shutdown by dora "it attacks others" 2`)
	has(t, "the list names the operator", s.lines("slices", operate.Filter{Shutdown: true}), `"shutdown_operator":"dora"`)
	if _, err := s.Thaw(t.Context(), operate.Thaw{Slice: "exp-a", Operator: "dora"}); err != nil {
		t.Error(err)
	}
}

// TestOrdersAreRefused checks that an impossible command is refused with a reason and changes
// nothing, also if a part of it would be possible.
func TestOrdersAreRefused(t *testing.T) {
	release := func(targets ...string) any { return operate.Release{Targets: targets, Operator: "dora"} }
	renew := func(d time.Duration, targets ...string) any {
		return operate.Renew{Targets: targets, End: operate.End{Until: now.Add(d)}, Operator: "dora"}
	}
	for _, c := range []struct {
		rule  string
		order any
		want  string
	}{
		{"nothing named", release(), "the order names nothing"},
		{"a slice that is not there", release("exp-a", "exp-c"), "there is no slice exp-c here; did you mean exp-a?"},
		{"a pattern", release("exp-a", "exp*"), "exp* is a pattern; an order must name each slice"},
		{"its URN", release("exp-a", name(urn.Slice, "none").String()), "there is no slice " + name(urn.Slice, "none").String()},
		{"a sliver that is not there", release("exp-a", name(urn.Sliver, "none").String()), "there is no sliver"},
		{"a node of a slice that is not there", release("exp-a/wob"), `has no sliver "wob"; did you mean web?`},
		{"a user", release(alice.String()), "is a user; name a slice, or slivers"},
		{"what is frozen, beside what is not", release("exp-a", "frozen"), "was shut down at 2030-01-02T11:30:00Z by " + bob.String() + ", and is kept for inspection; release it with --frozen"},
		{"what is being removed", release("exp-a", name(urn.Sliver, "s3").String(), twice.String(), "exp-a/old"), "has no sliver"},
		{"what is being removed, by its URN", release(twice.String(), name(urn.Sliver, "s3").String()), "sliver " + name(urn.Sliver, "s3").String() + " (exp-a/old) is being removed already"},
		{"odd signs in a client_id", renew(time.Hour, "exp-a", name(urn.Sliver, "s8").String()), "the dry run of sliver " + name(urn.Sliver, "s8").String() + " (exp-b/x\ufffd[31m\ufffd\ufffd2J\ufffd) has not ended yet"},
		{"too many", release(strings.Split(strings.Repeat("x ", 1001), " ")...), "name at most 1000"},
		{"a time that is over", renew(-time.Second, "exp-a"), "the time 2030-01-02T11:59:59Z is in the past; to end leases now, release the slivers"},
		{"no time", operate.Renew{Targets: []string{"exp-a"}, Operator: "dora"}, "is in the past"},
		{"a negative while", operate.Renew{Targets: []string{"exp-a"}, End: operate.End{For: -1}, Operator: "dora"}, "is in the past"},
		{"a time that is far", renew(200*365*24*time.Hour, "exp-a"), "longer than 100 years"},
		{"a while without end", operate.Renew{Targets: []string{"exp-a"}, End: operate.End{For: 1 << 62}, Operator: "dora"}, "longer than 100 years"},
		{"a lease that is frozen", renew(time.Hour, "exp-a", "frozen"), "thaw it with --extend"},
		{"a thaw that gives nodes back", operate.Thaw{Slice: "frozen", Operator: "dora"}, "in slice " + down.String() + " 1 of 1 leases are over, the first since 2030-01-02T11:00:00Z, so these nodes and their data would be released at once"},
		{"a slice that is not shut down", operate.Thaw{Slice: "exp-a", Operator: "dora"}, "slice " + sliceA.String() + " is not shut down"},
		{"a slip in the name of one that is", operate.Thaw{Slice: "frosen", Operator: "dora"}, "did you mean frozen?"},
		{"a slice to thaw that is not there", operate.Thaw{Slice: "zzzzzzzz", Operator: "dora"}, "there is no slice zzzzzzzz here"},
		{"a sliver to thaw", operate.Thaw{Slice: name(urn.Sliver, "s6").String(), Operator: "dora"}, "is a sliver, not a slice"},
		{"a slice that was shut down", operate.Shutdown{Slice: "frozen", Operator: "dora"}, "was shut down at 2030-01-02T11:30:00Z by " + bob.String() + " already"},
		{"a sliver to shut down", operate.Shutdown{Slice: "exp-a/web", Operator: "dora"}, "only a whole slice can be shut down"},
		{"extended into the past", operate.Thaw{Slice: "frozen", Extend: operate.End{Until: now}, Operator: "dora"}, "is in the past"},
		{"an order without an operator", operate.Release{Targets: []string{"exp-a"}}, "no operator's name"},
		{"a name that a terminal obeys", operate.Thaw{Slice: "frozen", Operator: "\x1b[2J"}, "control characters"},
		{"a text of two lines", operate.Release{Targets: []string{"exp-a"}, Operator: "dora", Text: "a\nb"}, "one line"},
		{"a long text", operate.Renew{Targets: []string{"exp-a"}, End: operate.End{For: 60}, Operator: "dora", Text: strings.Repeat("x", 501)}, "at most 500"},
	} {
		s := newSite(t)
		s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			x, _, err := v.Sliver(name(urn.Sliver, "s1"))
			x.URN, x.Slice, x.ClientID, x.ProbedUntil = name(urn.Sliver, "s8"), sliceB, hostile, now.Add(time.Minute)
			cs.PutSliver(x)
			return cs, err
		})
		before := s.state(5)
		var err error
		switch o := c.order.(type) {
		case operate.Release:
			_, err = s.Release(t.Context(), o)
		case operate.Renew:
			_, err = s.Renew(t.Context(), o)
		case operate.Shutdown:
			_, err = s.Shutdown(t.Context(), o)
		case operate.Thaw:
			_, err = s.Thaw(t.Context(), o)
		}
		if _, ok := errors.AsType[*operate.RefusedError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.rule, err, c.want)
		}
		if after := s.state(5); after != before || s.woken.Load() != 0 {
			t.Errorf("%s: it has changed\n%s\nto\n%s", c.rule, before, after)
		}
	}
}

// A sliver during its dry run can be released but not renewed.
func TestSliversBeingAskedFor(t *testing.T) {
	s := newSite(t)
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		x, _, err := v.Sliver(name(urn.Sliver, "s4"))
		x.ProbedUntil = now.Add(time.Minute)
		cs.PutSliver(x)
		return cs, err
	})
	if _, err := s.Renew(t.Context(), operate.Renew{Targets: []string{sliceB.String()}, End: operate.End{For: 60}, Operator: "dora"}); err == nil || !strings.Contains(err.Error(), "has not ended yet") {
		t.Errorf("renew: %v", err)
	}
	if _, err := s.Release(t.Context(), operate.Release{Targets: []string{sliceB.String()}, Operator: "dora"}); err != nil {
		t.Errorf("release: %v", err)
	}
}

// A write error changes nothing, and is not reported as a mistake of the operator.
func TestStoreThatCannotWrite(t *testing.T) {
	s := newSite(t)
	s.store.Close()
	_, err := s.Release(t.Context(), operate.Release{Targets: []string{"exp-a"}, Operator: "dora"})
	if _, ok := errors.AsType[*operate.RefusedError](err); ok || !errors.Is(err, store.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestReleasePreviewChangesNothing proves that a preview names what would be released,
// refuses what would be refused, and leaves state and journal alone.
func TestReleasePreviewChangesNothing(t *testing.T) {
	s := newSite(t)
	before := s.state(0)
	done, err := s.Release(t.Context(), operate.Release{Targets: []string{"exp-a", twice.String()}, Operator: "dora", Preview: true})
	if err != nil || len(done.Slices) != 2 || fmt.Sprint(done.Slices[0].ClientIDs) != "[web db]" || done.Slices[0].Slivers != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := s.Release(t.Context(), operate.Release{Targets: []string{"frozen"}, Operator: "dora", Preview: true}); err == nil || !strings.Contains(err.Error(), "--frozen") {
		t.Errorf("a frozen slice: %v", err)
	}
	if after := s.state(0); after != before {
		t.Errorf("it has changed:\n%s\nwas\n%s", after, before)
	}
	if s.woken.Load() != 0 {
		t.Error("the work was woken for a preview")
	}
}
