package operate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// TestLinesAreStable checks the names and the order of fields, on which scripts of operators
// rely, and that texts of clients and providers are escaped for terminals.
func TestLinesAreStable(t *testing.T) {
	s := newSite(t)
	for _, what := range operate.ListNames {
		text := s.lines(what, operate.Filter{})
		golden(t, what+".jsonl", text)
		for i, r := range text {
			if r != '\n' && (r < ' ' || r >= 0x7f) {
				t.Errorf("%s: byte %d is %q", what, i, r)
			}
		}
	}
	var x operate.Sliver
	for line := range strings.Lines(s.lines("slivers", operate.Filter{Sliver: "s5"})) {
		if err := json.Unmarshal([]byte(line), &x); err != nil || x.ClientID != hostile {
			t.Errorf("a client_id becomes %q, %v", x.ClientID, err)
		}
	}
}

func TestFilters(t *testing.T) {
	s := newSite(t)
	of := func(what string, f operate.Filter) string {
		var ids []string
		for line := range strings.Lines(s.lines(what, f)) {
			var r struct {
				URN, Sliver urn.URN
				Name, ID    string
				Event       string
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if what == "slices" {
				r.URN.Name = r.URN.Authority[:1] + ":" + r.URN.Name
			}
			ids = append(ids, r.URN.Name+r.Sliver.Name+r.Name+r.Event)
		}
		return strings.Join(ids, " ")
	}
	for _, c := range []struct {
		rule, what string
		f          operate.Filter
		want       string
	}{
		{"slivers come by slice, then as they were reserved", "slivers", operate.Filter{}, "s1 s2 s3 s4 s5 s6 s7"},
		{"a name", "slivers", operate.Filter{Slice: "exp-a"}, "s1 s2 s3"},
		{"… without regard to case", "slivers", operate.Filter{Slice: "EXP-A"}, "s1 s2 s3"},
		{"… of several slices", "slivers", operate.Filter{Slice: "exp-b"}, "s4 s5 s7"},
		{"a URN", "slivers", operate.Filter{Slice: twice.String()}, "s7"},
		{"… with stars", "slivers", operate.Filter{Slice: "urn:*other*"}, "s7"},
		{"a star", "slivers", operate.Filter{Slice: "*-a"}, "s1 s2 s3"},
		{"a star that finds nothing", "slivers", operate.Filter{Slice: "z*"}, ""},
		{"a question mark", "slivers", operate.Filter{Slice: "exp-?", Component: "h?"}, "s2 s4 s5"},
		{"a client_id", "slivers", operate.Filter{Sliver: "n"}, "s4 s6 s7"},
		{"a sliver", "slivers", operate.Filter{Sliver: name(urn.Sliver, "s2").String()}, "s2"},
		{"a user", "slivers", operate.Filter{User: "bob"}, "s2 s4 s5"},
		{"a speaker", "slivers", operate.Filter{User: "portal"}, "s1"},
		{"a component", "slivers", operate.Filter{Component: "h1"}, "s2 s4"},
		{"… by its URN", "slivers", operate.Filter{Component: name(urn.Node, "h1").String()}, "s2 s4"},
		{"… that the inventory has no more", "slivers", operate.Filter{Component: "gone"}, "s7"},
		{"a provider", "slivers", operate.Filter{Provider: "rack", State: "making"}, "s5"},
		{"a state", "slivers", operate.Filter{State: "removing"}, "s3"},
		{"shut down", "slivers", operate.Filter{Shutdown: true}, "s6"},
		{"leases that end, not frozen ones", "slivers", operate.Filter{EndsBefore: now.Add(90 * time.Minute)}, "s3 s4 s5 s7"},
		{"a limit", "slivers", operate.Filter{Limit: 2}, "s1 s2"},
		{"a limit over slices", "slivers", operate.Filter{Limit: 4}, "s1 s2 s3 s4"},
		{"both", "slivers", operate.Filter{User: "alice", State: "ready"}, "s1 s7"},
		{"slices", "slices", operate.Filter{}, "e:exp-a e:exp-b e:frozen o:exp-b"},
		{"slices of a user", "slices", operate.Filter{User: "bob"}, "e:exp-a e:exp-b"},
		{"slices on a component", "slices", operate.Filter{Component: "h1"}, "e:exp-a e:exp-b"},
		{"slices that were shut down", "slices", operate.Filter{Shutdown: true}, "e:frozen"},
		{"slices by age", "slices", operate.Filter{Since: now}, ""},
		{"slices by age, of a user", "slices", operate.Filter{Until: now, User: "alice"}, "e:exp-a e:frozen o:exp-b"},
		{"some slices", "slices", operate.Filter{Limit: 2}, "e:exp-a e:exp-b"},
		{"nodes as in the inventory, missing ones behind", "nodes", operate.Filter{}, "pc1 pc2 pc3 pc4 pc5 h1 h2 gone"},
		{"nodes of a slice", "nodes", operate.Filter{Slice: "exp-a"}, "pc1 pc2 h1"},
		{"nodes of a user", "nodes", operate.Filter{User: "bob"}, "h1 h2"},
		{"nodes by state", "nodes", operate.Filter{State: "drained"}, "pc4 pc5"},
		{"nodes by name", "nodes", operate.Filter{Component: "pc*"}, "pc1 pc2 pc3 pc4 pc5"},
		{"some nodes", "nodes", operate.Filter{Limit: 1}, "pc1"},
		{"tasks", "tasks", operate.Filter{}, "s3 s5"},
		{"tasks of a slice", "tasks", operate.Filter{Slice: "exp-b"}, "s5"},
		{"tasks of a goal", "tasks", operate.Filter{State: "remove"}, "s3"},
		{"tasks by age", "tasks", operate.Filter{Until: now.Add(-90 * time.Second)}, "s3"},
		{"the journal", "journal", operate.Filter{}, "Allocate Shutdown gave up thaw"},
		{"the latest of the journal", "journal", operate.Filter{Limit: 2}, "gave up thaw"},
		{"the latest that are like this", "journal", operate.Filter{Limit: 2, Slice: "exp-a"}, "Allocate gave up"},
		{"events", "journal", operate.Filter{State: "shut*"}, "Shutdown"},
		{"who did it", "journal", operate.Filter{User: "alice"}, "Allocate"},
		{"one sliver by the name that lists show", "slivers", operate.Filter{Slice: "exp-a/web"}, "s1"},
		{"slivers by patterns on both sides", "slivers", operate.Filter{Slice: "exp-?/?b,exp-a/w*"}, "s1 s2"},
		{"an operator did it", "journal", operate.Filter{User: "dora"}, "thaw"},
		{"a span", "journal", operate.Filter{Since: now.Add(-30 * time.Minute), Until: now.Add(-10 * time.Minute)}, "Shutdown gave up"},
		{"entries of a sliver", "journal", operate.Filter{Sliver: "s1"}, "Allocate"},
	} {
		if got := of(c.what, c.f); got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
		f, err := operate.ParseFilter(c.f.Query())
		if err != nil || f != c.f {
			t.Errorf("%s: %+v becomes %+v, %v", c.rule, c.f, f, err)
		}
	}
}

func TestSlipsInFilters(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		what string
		f    operate.Filter
		want string
	}{
		{"slivers", operate.Filter{Slice: "exp-q"}, "there is no slice exp-q here; did you mean exp-a?"},
		{"slices", operate.Filter{Slice: name(urn.Slice, "none").String()}, "there is no slice " + name(urn.Slice, "none").String()},
		{"journal", operate.Filter{}, ""},
		{"journal", operate.Filter{Slice: "none"}, ""}, // it may have been deleted long ago
		{"slivers", operate.Filter{Slice: alice.String()}, "is a user, not a slice"},
		{"nodes", operate.Filter{Component: "pc11"}, "there is no component pc11; did you mean pc1?"},
		{"tasks", operate.Filter{Component: "pc9"}, "there is no component pc9"},
		{"nodes", operate.Filter{Component: "pc1.."}, `"pc1.." is not a range; write its first and its last name, such as pc1..pc20`},
		{"sliver", operate.Filter{}, `there is no list "sliver"; did you mean slivers?`},
	} {
		_, err := operate.ListLines(s.Operations, c.what, c.f)
		if _, refused := errors.AsType[*operate.RefusedError](err); refused != (c.want != "") || refused && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.what, c.f, err, c.want)
		}
	}
	for query, want := range map[string]string{
		"slce=x":                            `there is no key "slce"; did you mean slice?`,
		"limit=-1":                          "write a number of rows",
		"limit=1e3":                         "write a number of rows",
		"since=yesterday":                   "write a time like",
		"shutdown=perhaps":                  "true or false",
		"user=" + strings.Repeat("x", 2000): "longer than",
	} {
		q := values(t, query)
		if _, err := operate.ParseFilter(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

// TestDrainsWithoutAComponentAreListed checks that operators see a drained name without a component. A renamed
// component may be in service by mistake.
func TestDrainsWithoutAComponentAreListed(t *testing.T) {
	s := newSite(t)
	plan, err := maintenance.Parse([]byte("drained:\n- {components: [pc1, blade5..blade7], text: fan, by: dora}\n- components: [gone]\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	s.Operations = operate.New(operate.Config{Store: s.store, Inventory: func() *inventory.Inventory { return s.inv }, Plan: func() *maintenance.Plan { return plan }})
	for _, c := range []struct {
		f    operate.Filter
		want string
	}{
		{operate.Filter{State: "missing"}, "gone blade5 blade6 blade7"},
		{operate.Filter{Component: "blade6"}, "blade6"},
		{operate.Filter{Component: "blade*", Limit: 2}, "blade5 blade6"},
		{operate.Filter{Component: "pc1"}, "pc1"},
		{operate.Filter{State: "missing", Slice: "exp-a"}, ""},
	} {
		var names []string
		err := s.Nodes(c.f, func(n operate.Node) error {
			names = append(names, n.Name)
			if n.Drained != "command" || strings.HasPrefix(n.Name, "blade") && (!n.Component.IsZero() || n.DrainedBy != "dora") {
				t.Errorf("%+v", n)
			}
			return nil
		})
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v, want %s", c.f, got, err, c.want)
		}
	}
}

// TestLatestOfTheJournal compares the latest entries with the end of the whole list, in a journal
// with changes without entries.
func TestLatestOfTheJournal(t *testing.T) {
	s := emptySite(t)
	for i := range 300 {
		s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			cs.PutSlice(am.Slice{URN: sliceA, Serial: int64(i)})
			for n := range i % 4 {
				cs.Log(am.JournalEntry{At: now.Add(time.Duration(i) * time.Second), Event: []string{"a", "b"}[i/40%2], Slice: sliceA, Text: fmt.Sprint(i, n)})
			}
			return cs, nil
		})
	}
	for _, event := range []string{"", "a", "b", "none"} {
		all := slices.Collect(strings.Lines(s.lines("journal", operate.Filter{State: event})))
		for _, limit := range []int{1, 2, 7, 100, 449, 450, 1000} {
			got := s.lines("journal", operate.Filter{State: event, Limit: limit})
			want := strings.Join(all[max(0, len(all)-limit):], "")
			if got != want {
				t.Errorf("event %q, limit %d: %d lines, want %d", event, limit, strings.Count(got, "\n"), min(limit, len(all)))
			}
		}
	}
}

// TestStateOf checks that each status has a word that a filter accepts.
func TestStateOf(t *testing.T) {
	for _, status := range []am.Status{allocated, making, ready, notReady, failed, released,
		{Allocation: am.Provisioned, Operational: am.Configuring}, {Allocation: am.Provisioned, Operational: am.Stopping}, {Allocation: am.Provisioned, Operational: am.UpdatingUsers}} {
		for _, expires := range []time.Time{now, now.Add(1)} {
			word := operate.StateOf(&am.Sliver{Status: status, Expires: expires}, now)
			if !slices.Contains(operate.SliverStates, word) {
				t.Errorf("%v: %q is not among the words", status, word)
			}
			if over := !expires.After(now) && status != released; over != (word == operate.StateExpired) {
				t.Errorf("%v, over %v: %q", status, over, word)
			}
		}
	}
}

// TestListsShowExpiredSlivers checks that a sliver is listed as expired from the end of its lease on,
// also before the runner ends it, and is not counted in other states.
func TestListsShowExpiredSlivers(t *testing.T) {
	s := newSite(t)
	err := s.store.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		x, _, err := v.Sliver(name(urn.Sliver, "s1"))
		x.Expires = now // and it is ready
		cs.PutSliver(x)
		return cs, err
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(what string, f operate.Filter, row any) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.lines(what, f)), row); err != nil {
			t.Fatal(err)
		}
	}
	var x operate.Sliver
	read("slivers", operate.Filter{Sliver: "s1"}, &x)
	if x.State != operate.StateExpired || x.Allocation != am.Unallocated || x.Operational == am.Ready {
		t.Errorf("sliver: %s, %s, %s", x.State, x.Allocation, x.Operational)
	}
	if got := s.lines("slivers", operate.Filter{Sliver: "s1", State: "ready"}); got != "" {
		t.Errorf("listed as ready: %s", got)
	}
	var a operate.Slice
	read("slices", operate.Filter{Slice: "exp-a"}, &a)
	if a.Slivers != 1 || a.States["ready"] != 0 || a.States[operate.StateExpired] != 1 || !a.Expires.After(now) {
		t.Errorf("slice: %+v", a)
	}
	var n operate.Node
	read("nodes", operate.Filter{Component: "pc1"}, &n)
	if n.Slivers != 1 || n.Removing != 1 || n.State != "cleaning" {
		t.Errorf("node: %+v", n)
	}
}

func values(t *testing.T, query string) map[string][]string {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestJoinedEntriesAreFound finds an entry of several calls by the time of each.
func TestJoinedEntriesAreFound(t *testing.T) {
	s := emptySite(t)
	s.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		cs.Log(am.JournalEntry{At: now, Event: "Renew", Slice: sliceA, Times: 3, Since: now.Add(-2 * time.Hour)})
		return cs, nil
	})
	for _, c := range []struct {
		since, until time.Duration
		found        bool
	}{
		{-3 * time.Hour, -2 * time.Hour, false},
		{-3 * time.Hour, -time.Hour, true},
		{-time.Hour, 0, true},
		{0, time.Hour, true},
		{1, time.Hour, false},
	} {
		got := s.lines("journal", operate.Filter{Since: now.Add(c.since), Until: now.Add(c.until)})
		if strings.Contains(got, `"times":3,"since":"`) != c.found {
			t.Errorf("from %s to %s: %q", c.since, c.until, got)
		}
	}
}
