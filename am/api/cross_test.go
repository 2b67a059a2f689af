package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/xmlrpc"
)

// The tests of this file make a slice in one version and look at it from the
// other: there is one service and one state behind both.

// names are the sliver URNs of an answer of version 3, in order.
func (a answer) names(t testing.TB) (list []string) {
	t.Helper()
	for _, s := range a.slivers(t) {
		list = append(list, get(s, "geni_sliver_urn").(string))
	}
	return list
}

// states are the operational states of an answer of version 3, by client_id.
func (a answer) states(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range a.slivers(t) {
		out[get(s, "geni_client_id").(string)] = get(s, "geni_operational_status").(string)
	}
	return out
}

// edit changes all slivers in the store, as a provider's failure would.
func (s *site) edit(t testing.TB, f func(*am.Sliver)) {
	t.Helper()
	err := s.store.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		return cs, v.Slivers(func(x am.Sliver) bool { f(&x); cs.PutSliver(x); return true })
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMadeIn2LivesIn3: by slice URN and by sliver URN a slice of version 2 is
// seen, renewed, acted on and deleted in version 3.
func TestMadeIn2LivesIn3(t *testing.T) {
	for _, by := range []string{"slice", "sliver"} {
		t.Run("by "+by+" URN", func(t *testing.T) {
			s := newSite(t)
			x := s.user("alice").own("s1", 48*time.Hour)
			x.v2("CreateSliver", request(node("a"), node("b")), []xmlrpc.Value{user(x.urn.String(), testKey)}).want(t, "CreateSliver", am.Success)
			all := x.v3("Status").want(t, "Status", am.Success).names(t)
			urns, n := strs(x.slice), 2
			if by == "sliver" {
				urns, n = strs(all[1]), 1
			}
			state := func(want string) {
				t.Helper()
				a := x.v3On("Status", urns).want(t, "Status", am.Success)
				for _, v := range a.slivers(t) {
					if get(v, "geni_operational_status") != want || get(v, "geni_allocation_status") != "geni_provisioned" {
						t.Errorf("%v, want %s", v, want)
					}
				}
				if len(a.slivers(t)) != n || get(a.value, "geni_urn") != x.slice {
					t.Errorf("Status: %v, want %d slivers of %s", a.value, n, x.slice)
				}
			}
			state("geni_pending_allocation")
			x.v3On("Provision", urns).want(t, "Provision of what is provisioned", map[string]am.Code{"slice": am.SearchFailed, "sliver": am.Unsupported}[by])
			x.v3On("PerformOperationalAction", urns, "geni_start").want(t, "start while it is made", am.Unsupported)
			s.settle()
			state("geni_ready") // and never notready, which would wait for an action
			x.v3On("PerformOperationalAction", urns, "geni_start").want(t, "start of the started", am.Success)
			state("geni_ready")

			a := x.v3On("Describe", urns).want(t, "Describe", am.Success)
			if m := get(a.value, "geni_rspec").(string); strings.Count(m, "sliver_id=") != n || !strings.Contains(m, `username="alice"`) {
				t.Errorf("Describe:\n%s", m)
			}
			x.v3On("Renew", urns, s.at(30*time.Hour)).want(t, "Renew", am.Success)
			// Version 2 tells the lease that ends first.
			if want, got := map[string]string{"slice": s.at(30 * time.Hour), "sliver": s.at(24 * time.Hour)}[by], get(x.v2("SliverStatus").value, "pg_expires"); got != want {
				t.Errorf("pg_expires %v, want %s", got, want)
			}
			x.v3On("PerformOperationalAction", urns, "geni_stop").want(t, "stop", am.Success)
			s.settle()
			state("geni_notready")
			if got := x.words(t)[""]; got != "configuring" {
				t.Errorf("SliverStatus of the stopped: %s", got)
			}
			x.v3On("PerformOperationalAction", urns, "geni_start").want(t, "start", am.Success)
			s.settle()
			state("geni_ready")
			x.v3On("PerformOperationalAction", urns, "geni_restart").want(t, "restart", am.Success)
			s.settle()
			state("geni_ready")

			x.allocate(request(node("c"))).want(t, "more by Allocate", am.Success)
			x.wantWords(t, "with a reservation", "configuring", "a", "ready", "b", "ready", "c", "configuring")
			if by == "slice" {
				x.v3("Delete").want(t, "Delete", am.Success)
				x.v2("SliverStatus").want(t, "after Delete", am.SearchFailed)
				x.v2("DeleteSliver").want(t, "DeleteSliver after Delete", am.SearchFailed)
			} else {
				x.v3On("Delete", urns).want(t, "Delete of one", am.Success)
				x.wantWords(t, "after Delete of one", "configuring", "a", "ready", "c", "configuring")
				x.v2("DeleteSliver").want(t, "DeleteSliver of the others", am.Success)
			}
			x.v3("Status").want(t, "Status in the end", am.SearchFailed)
			s.settle()
			s.wantNothing(t, "in the end")
		})
	}
}

// TestMadeIn3LivesIn2 takes a slice of version 3 in each of its states.
func TestMadeIn3LivesIn2(t *testing.T) {
	provisioned := func(x owned) { x.v3("Provision").want(t, "Provision", am.Success) }
	made := func(x owned) { provisioned(x); x.site.settle() }
	act := func(x owned, action string) {
		x.v3("PerformOperationalAction", action).want(t, action, am.Success)
	}
	running := func(x owned) { made(x); act(x, "geni_start"); x.site.settle() }
	for _, tt := range []struct {
		state string
		reach func(owned)
		word  string
		// renewed is how long RenewSliver may prolong it.
		renewed time.Duration
	}{
		{"allocated", func(owned) {}, "configuring", 2 * time.Hour},
		{"pending", provisioned, "configuring", 40 * time.Hour},
		{"notready", made, "configuring", 40 * time.Hour},
		{"configuring", func(x owned) { made(x); act(x, "geni_start") }, "configuring", 40 * time.Hour},
		{"ready", running, "ready", 40 * time.Hour},
		{"stopping", func(x owned) { running(x); act(x, "geni_stop") }, "configuring", 40 * time.Hour},
		{"stopped", func(x owned) { running(x); act(x, "geni_stop"); x.site.settle() }, "configuring", 40 * time.Hour},
		{"updating users", func(x owned) {
			running(x)
			x.call("PerformOperationalAction", strs(x.slice), creds(x.cred), "geni_update_users", opts(opt("geni_users", []xmlrpc.Value{user(x.urn.String(), testKey)}))).want(t, "update_users", am.Success)
		}, "ready", 40 * time.Hour},
		{"failed", func(x owned) {
			running(x)
			x.site.edit(t, func(m *am.Sliver) { m.Status.Operational, m.Error = am.Failed, "it broke" })
		}, "failed", 40 * time.Hour},
	} {
		t.Run(tt.state, func(t *testing.T) {
			s := newSite(t)
			x := s.user("alice").own("s1", 48*time.Hour)
			x.allocate(request(node("a"), node("b"))).want(t, "Allocate", am.Success)
			tt.reach(x)
			x.wantWords(t, "SliverStatus", tt.word, "a", tt.word, "b", tt.word)
			if tt.word == "failed" {
				list := get(x.v2("SliverStatus").value, "geni_resources").([]xmlrpc.Value)
				if e := get(list[0], "geni_error"); e != "it broke" {
					t.Errorf("geni_error %v", e)
				}
			}
			m := x.list2().want(t, "ListResources", am.Success).value.(string)
			if strings.Count(m, "sliver_id=") != 2 {
				t.Errorf("the manifest:\n%s", m)
			}
			if d := get(x.v3("Describe").value, "geni_rspec"); d != m {
				t.Errorf("Describe and ListResources differ:\n%s\n%s", d, m)
			}
			x.create(request(node("c"))).want(t, "CreateSliver", am.Exists)
			x.v2("RenewSliver", s.at(tt.renewed+time.Second)).want(t, "RenewSliver beyond", map[bool]am.Code{true: am.Refused, false: am.Success}[tt.state == "allocated"])
			x.v2("RenewSliver", s.at(tt.renewed)).want(t, "RenewSliver", am.Success)
			for _, v := range x.v3("Status").slivers(t) {
				if get(v, "geni_expires") != s.at(tt.renewed) {
					t.Errorf("renewed to %v, want %s", get(v, "geni_expires"), s.at(tt.renewed))
				}
			}
			x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success)
			x.v3("Status").want(t, "Status", am.SearchFailed)
			x.v3("Delete").want(t, "Delete", am.SearchFailed)
			s.settle()
			s.wantNothing(t, "in the end")
		})
	}
}

// TestSeveralAllocatesIn2: version 2 speaks of the slice, however it came about.
func TestSeveralAllocatesIn2(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", 48*time.Hour)
	first := x.allocate(request(node("a"))).want(t, "first", am.Success).names(t)
	x.v3On("Provision", strs(first...)).want(t, "Provision", am.Success)
	s.settle()
	x.v3On("PerformOperationalAction", strs(first...), "geni_start").want(t, "start", am.Success)
	s.settle()
	s.pass(time.Minute)
	second := x.allocate(request(node("b"))).want(t, "second", am.Success).names(t)
	x.v3On("Provision", strs(second...)).want(t, "Provision", am.Success)
	s.pass(time.Minute)
	x.allocate(request(node("c"))).want(t, "third", am.Success)

	x.wantWords(t, "three Allocates", "configuring", "a", "ready", "b", "configuring", "c", "configuring")
	if got := get(x.v2("SliverStatus").value, "pg_expires"); got != s.at(10*time.Minute) {
		t.Errorf("pg_expires %v, want the reservation's %s", got, s.at(10*time.Minute))
	}
	m := x.list2().want(t, "ListResources", am.Success).value.(string)
	for _, id := range []string{"a", "b", "c"} {
		if strings.Count(m, `client_id="`+id+`"`) != 1 {
			t.Errorf("node %s is not once in the manifest:\n%s", id, m)
		}
	}
	if !strings.Contains(m, `expires="`+s.at(10*time.Minute)+`"`) {
		t.Errorf("the manifest does not tell the first end:\n%s", m)
	}
	// All or nothing: the reservation cannot be held for days, so none is renewed.
	before := x.v3("Status").slivers(t)
	x.v2("RenewSliver", s.at(30*time.Hour)).want(t, "RenewSliver beyond the reservation's limit", am.Refused)
	for i, v := range x.v3("Status").slivers(t) {
		if get(v, "geni_expires") != get(before[i], "geni_expires") {
			t.Errorf("a refused RenewSliver changed %v", v)
		}
	}
	// As long as possible is for each sliver, and the first end is told.
	a := x.v2("RenewSliver", s.at(30*time.Hour), xmlrpc.Struct{opt("geni_extend_alap", true)}).want(t, "as long as possible", am.Success)
	if a.output != s.at(2*time.Hour) {
		t.Errorf("output %q, want %s", a.output, s.at(2*time.Hour))
	}
	for _, v := range x.v3("Status").slivers(t) {
		want := s.at(30 * time.Hour)
		if get(v, "geni_client_id") == "c" {
			want = s.at(2 * time.Hour)
		}
		if get(v, "geni_expires") != want {
			t.Errorf("%v, want until %s", v, want)
		}
	}
	x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success)
	s.settle()
	s.wantNothing(t, "after DeleteSliver")
}

// TestExpiredBetweenVersions: what has expired, or expires in part, is so in
// both versions.
func TestExpiredBetweenVersions(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", 48*time.Hour)
	x.create(request(node("a"))).want(t, "CreateSliver", am.Success)
	s.settle()
	x.allocate(request(node("b"))).want(t, "Allocate", am.Success)
	x.wantWords(t, "both", "configuring", "a", "ready", "b", "configuring")
	s.pass(10 * time.Minute) // and no runner has looked
	x.wantWords(t, "the reservation is over", "ready", "a", "ready")
	if m := x.list2().value.(string); strings.Contains(m, `sliver_id`) && strings.Contains(m, `client_id="b"`) {
		t.Errorf("the manifest tells what is over:\n%s", m)
	}
	s.pass(24 * time.Hour)
	x.v2("SliverStatus").want(t, "SliverStatus", am.SearchFailed)
	x.v2("RenewSliver", s.at(time.Hour)).want(t, "RenewSliver", am.SearchFailed)
	x.v2("DeleteSliver").want(t, "DeleteSliver", am.SearchFailed)
	x.list2().want(t, "ListResources", am.SearchFailed)
	x.v3("Status").want(t, "Status", am.SearchFailed)

	y := x.caller.own("later", 48*time.Hour)
	y.allocate(request(node("a"))).want(t, "Allocate", am.Success)
	s.pass(10 * time.Minute)
	y.create(request(node("a"))).want(t, "CreateSliver after a reservation that is over", am.Success)
	if got := y.v3("Status").states(t); len(got) != 1 || got["a"] != "geni_pending_allocation" {
		t.Errorf("Status: %v", got)
	}
}

// TestShutdownBetweenVersions: a slice that one version has shut down is shut
// down in the other, and version 2 shows it.
func TestShutdownBetweenVersions(t *testing.T) {
	for _, by := range []int{Version2, Version3} {
		s := newSite(t)
		x := s.user("alice").own("s1", 48*time.Hour)
		x.create(request(node("a"), node("b"))).want(t, "CreateSliver", am.Success)
		s.settle()
		for range 3 { // repeated, it succeeds
			a := s.serveVersion(by, Request{Chain: x.chain, Body: callBody(t, "Shutdown", x.slice, strs(x.cred), xmlrpc.Struct{})}).want(t, "Shutdown", am.Success)
			if a.value != true {
				t.Errorf("Shutdown: %v", a.value)
			}
		}
		for range 2 {
			x.wantWords(t, "shut down", "shutdown", "a", "shutdown", "b", "shutdown")
			s.settle()
		}
		x.list2().want(t, "ListResources", am.Forbidden)
		x.create(request(node("c"))).want(t, "CreateSliver", am.Forbidden)
		x.v2("RenewSliver", s.at(time.Hour)).want(t, "RenewSliver", am.Forbidden)
		x.v2("DeleteSliver").want(t, "DeleteSliver", am.Forbidden)
		x.v3("Status").want(t, "Status", am.Forbidden)
		x.v3("Delete").want(t, "Delete", am.Forbidden)
		s.pass(40 * time.Hour)
		x.wantWords(t, "kept for inspection", "shutdown", "a", "shutdown", "b", "shutdown")
		if by == Version3 { // a stranger learns nothing of it
			m := s.user("mallory").own("m", time.Hour)
			m.call2("SliverStatus", x.slice, strs(m.cred), xmlrpc.Struct{}).want(t, "another's credential", am.Forbidden)
		}
	}
}

// TestShutdownWhileBeingMade: a sliver that is not made yet goes on being made,
// for it could not be inspected otherwise, but is not started any more.
func TestShutdownWhileBeingMade(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", 48*time.Hour)
	x.create(request(node("a"))).want(t, "CreateSliver", am.Success)
	x.v2("Shutdown").want(t, "Shutdown", am.Success)
	err := s.store.Read(func(v *store.View) error {
		return v.Tasks(func(task am.Task) bool {
			if m, _, err := v.Sliver(task.Sliver); err != nil || task.Goal != am.GoalMake || m.Desired.On || !m.Desired.Present || task.Generation != m.Generation {
				t.Errorf("task %+v of %+v, %v", task, m, err)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.settle()
	all, err := s.store.Slivers()
	if err != nil || len(all) != 1 || all[0].Status != (am.Status{Allocation: am.Provisioned, Operational: am.NotReady}) {
		t.Errorf("%v, %v", all, err)
	}
}

// TestNamesAreFreeAgainBetweenVersions: the same names and nodes go from one
// version to the other and back.
func TestNamesAreFreeAgainBetweenVersions(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", 48*time.Hour)
	bound := request(`<node client_id="a" component_id="urn:publicid:IDN+` + authority + `+node+pc7"/>`)
	var seen []string
	for range 3 {
		x.create(bound).want(t, "CreateSliver", am.Success)
		seen = append(seen, x.v3("Status").names(t)...)
		x.v3("Delete").want(t, "Delete", am.Success)
		x.create(bound).want(t, "while it is cleaned", am.Busy)
		s.settle()
		seen = append(seen, x.allocate(bound).want(t, "Allocate", am.Success).names(t)...)
		x.create(bound).want(t, "CreateSliver after Allocate", am.Exists)
		x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success)
		s.settle()
	}
	slices.Sort(seen)
	if n := len(slices.Compact(seen)); n != 6 {
		t.Errorf("%d sliver URNs in 6 lives: none may come again", n)
	}
}
