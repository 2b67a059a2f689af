package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// heed makes a site heed a maintenance file.
func (s *site) heed(text string) {
	s.t.Helper()
	p, err := maintenance.Parse([]byte(text), "maintenance.yaml")
	if err == nil {
		err = s.api.agg.(*service.Service).Heed(s.t.Context(), p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// planned is a file with one window, by its distance from now.
func (s *site) planned(components string, from, until time.Duration) string {
	return fmt.Sprintf("planned: [{components: [%s], from: %s, until: %s, text: new disks}]", components, formatTime(s.clock().Add(from)), formatTime(s.clock().Add(until)))
}

const locked = "lockdown: {text: power cut at noon}"

func onNode(id, component string) string {
	return `<node client_id="` + id + `" component_id="urn:publicid:IDN+example.org+node+` + component + `" component_manager_id="urn:publicid:IDN+example.org+authority+cm"><sliver_type name="raw-pc"/></node>`
}

// TestLockdown holds of each method whether it works in a lockdown, of slivers
// that were there before.
func TestLockdown(t *testing.T) {
	b := newBench(t)
	cred := creds(b.cred)
	fresh, freshCred := b.alice.slice("fresh", 24*time.Hour)
	mallory := b.user("mallory")
	_, foreign := mallory.slice("foreign", time.Hour)
	until := formatTime(b.clock().Add(time.Hour))
	users := opt("geni_users", []xmlrpc.Value{xmlrpc.Struct{{Name: "urn", Value: b.alice.urn.String()}, {Name: "keys", Value: []xmlrpc.Value{}}}})
	for _, tt := range []struct {
		rule   string
		who    *caller
		method string
		params []xmlrpc.Value
		code   am.Code // in the lockdown
		open   am.Code // without it
	}{
		{"Allocate", b.alice, "Allocate", []xmlrpc.Value{b.slice, cred, request(node("n")), opts()}, am.Unavailable, am.Success},
		{"Allocate into a new slice", b.alice, "Allocate", []xmlrpc.Value{fresh, creds(freshCred), request(node("n")), opts()}, am.Unavailable, am.Success},
		{"Provision", b.alice, "Provision", []xmlrpc.Value{strs(b.x.URN.String()), cred, opts()}, am.Unavailable, am.Success},
		{"Provision, best effort", b.alice, "Provision", []xmlrpc.Value{strs(b.slice), cred, opts(opt("geni_best_effort", true))}, am.Unavailable, am.Success},
		{"a stranger learns nothing", mallory, "Allocate", []xmlrpc.Value{b.slice, creds(foreign), request(node("n")), opts()}, am.Forbidden, am.Forbidden},
		{"a stranger's Provision", mallory, "Provision", []xmlrpc.Value{strs(b.slice), creds(foreign), opts()}, am.Forbidden, am.Forbidden},
		{"before mistakes in the request", b.alice, "Allocate", []xmlrpc.Value{b.slice, cred, "no rspec", opts()}, am.Unavailable, am.BadArgs},
		{"before mistakes in the options", b.alice, "Provision", []xmlrpc.Value{strs(b.slice), cred, opts(opt("geni_end_time", "soon"))}, am.Unavailable, am.BadArgs},
		{"after what is not there", b.alice, "Provision", []xmlrpc.Value{strs(missing), cred, opts(opt("geni_end_time", "soon"))}, am.SearchFailed, am.SearchFailed},
		{"Renew of a reservation", b.alice, "Renew", []xmlrpc.Value{strs(b.x.URN.String()), cred, until, opts()}, am.Success, am.Success},
		{"Renew of what runs", b.alice, "Renew", []xmlrpc.Value{strs(b.y.URN.String()), cred, until, opts()}, am.Success, am.Success},
		{"restart", b.alice, "PerformOperationalAction", []xmlrpc.Value{strs(b.y.URN.String()), cred, "geni_restart", opts()}, am.Success, am.Success},
		{"stop", b.alice, "PerformOperationalAction", []xmlrpc.Value{strs(b.y.URN.String()), cred, "geni_stop", opts()}, am.Success, am.Success},
		{"new users", b.alice, "PerformOperationalAction", []xmlrpc.Value{strs(b.y.URN.String()), cred, "geni_update_users", opts(users)}, am.Success, am.Success},
		{"Status", b.alice, "Status", []xmlrpc.Value{strs(b.slice), cred, opts()}, am.Success, am.Success},
		{"Describe", b.alice, "Describe", []xmlrpc.Value{strs(b.slice), cred, opts()}, am.Success, am.Success},
		{"Delete", b.alice, "Delete", []xmlrpc.Value{strs(b.slice), cred, opts()}, am.Success, am.Success},
		{"Shutdown", b.alice, "Shutdown", []xmlrpc.Value{b.slice, cred, opts()}, am.Success, am.Success},
	} {
		for _, lock := range []struct {
			text string
			code am.Code
		}{{locked, tt.code}, {"", tt.open}} {
			b.heed("")
			b.put(in(b.x, "allocated"), in(b.y, "ready"))
			b.heed(lock.text)
			a := tt.who.call(tt.method, tt.params...).want(t, tt.rule+" "+lock.text, lock.code)
			if said := strings.Contains(a.output, "power cut at noon"); said != (lock.code == am.Unavailable) {
				t.Errorf("%s %s: told %q", tt.rule, lock.text, a.output)
			}
			if a.code == am.Unavailable {
				b.wantOnly(t, tt.rule)
			}
		}
	}
}

// wantOnly holds that the bench's own two slivers are all there is, and that
// nothing is to be done.
func (b *bench) wantOnly(t *testing.T, when string) {
	t.Helper()
	if n := strings.Count(b.everything(t), "sliver "); n != 2 || strings.Contains(b.everything(t), "task ") {
		t.Errorf("%s has left: %s", when, b.everything(t))
	}
}

func TestLockdownInVersion2(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("two", 24*time.Hour)
	create := func() answer {
		body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: "CreateSliver", Params: []xmlrpc.Value{slice, strs(cred), request(node("n")), []xmlrpc.Value{}, xmlrpc.Struct{}}})
		if err != nil {
			t.Fatal(err)
		}
		return s.serveVersion(Version2, Request{ID: "r1", Chain: alice.chain, Body: body})
	}
	s.heed(locked)
	create().want(t, "CreateSliver", am.Unavailable)
	s.wantNothing(t, "CreateSliver")
	s.heed("")
	create().want(t, "CreateSliver", am.Success)
}

func TestLockdownIsTold(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	list := func(o ...xmlrpc.Member) string {
		return alice.call("ListResources", creds(alice.user), opts(o...)).want(t, "ListResources", am.Success).value.(string)
	}
	open := list()
	for range 2 { // the prepared answer follows each time
		s.heed(locked)
		a := alice.call("GetVersion").want(t, "GetVersion", am.Success)
		if get(a.value, "patchbay_lockdown") != "power cut at noon" || !strings.Contains(a.output, "power cut at noon") {
			t.Errorf("GetVersion tells %v, %q", get(a.value, "patchbay_lockdown"), a.output)
		}
		if ad := list(); strings.Contains(ad, `now="true"`) || strings.Count(ad, `now="false"`) != len(s.inventory.Components) {
			t.Error("the advertisement shows something available")
		}
		if ad := list(opt("geni_available", true)); strings.Contains(ad, "<node") {
			t.Error("nodes are told to be available")
		}
		s.heed("")
		a = alice.call("GetVersion").want(t, "GetVersion", am.Success)
		if get(a.value, "patchbay_lockdown") != nil || a.output != "" {
			t.Errorf("GetVersion still tells %v, %q", get(a.value, "patchbay_lockdown"), a.output)
		}
		if ad := list(); strings.Count(ad, `now="true"`) != strings.Count(open, `now="true"`) {
			t.Error("the advertisement does not show again what is available")
		}
	}
}

// TestMaintenanceBoundsLeases has pc1 under maintenance in three hours, for an
// hour.
func TestMaintenanceBoundsLeases(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("one", 20*24*time.Hour)
	s.heed(s.planned("pc1", 3*time.Hour, 4*time.Hour))
	begins := formatTime(s.clock().Add(3 * time.Hour))
	notice := `node "x": its lease ends by ` + begins + ", for maintenance begins then: new disks"
	call := func(method string, params ...xmlrpc.Value) answer { return alice.call(method, params...) }
	expires := func(a answer) (all []string) {
		for _, x := range a.slivers(t) {
			all = append(all, get(x, "geni_expires").(string))
		}
		return all
	}
	is := func(what string, a answer, want ...string) {
		t.Helper()
		if got := expires(a); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	tells := func(what string, a answer, want string) {
		t.Helper()
		if !strings.Contains(a.output, want) || want == "" && a.output != "" {
			t.Errorf("%s tells %q, want %q", what, a.output, want)
		}
	}
	at := func(d time.Duration) string { return formatTime(s.clock().Add(d)) }

	a := call("Allocate", slice, creds(cred), request(onNode("x", "pc1"), onNode("y", "pc2")), opts()).want(t, "Allocate", am.Success)
	tells("Allocate", a, notice)
	is("Allocate", a, at(10*time.Minute), at(10*time.Minute))
	x := get(a.slivers(t)[0], "geni_sliver_urn").(string)
	a = call("Provision", strs(slice), creds(cred), opts()).want(t, "Provision", am.Success)
	tells("Provision", a, notice)
	is("Provision", a, begins, at(24*time.Hour))
	s.settle()

	a = call("Renew", strs(x), creds(cred), at(3*time.Hour+time.Second), opts()).want(t, "Renew", am.Refused)
	if a.detail != int(am.OutOfRange) {
		t.Errorf("am_code %d", a.detail)
	}
	tells("Renew", a, "the latest time is "+begins+", for maintenance begins at "+begins+": new disks")
	tells("Renew to its beginning", call("Renew", strs(x), creds(cred), begins, opts()).want(t, "Renew to its beginning", am.Success), "")
	a = call("Renew", strs(slice), creds(cred), at(48*time.Hour), opts(opt("geni_extend_alap", true))).want(t, "Renew as long as possible", am.Success)
	tells("Renew as long as possible", a, notice)
	is("Renew as long as possible", a, begins, at(48*time.Hour))

	// What was promised before it was planned stays, and does not grow.
	s.heed("")
	before := at(20 * time.Hour)
	call("Renew", strs(x), creds(cred), before, opts()).want(t, "Renew without plan", am.Success)
	s.heed(s.planned("pc1", 3*time.Hour, 4*time.Hour))
	a = call("Renew", strs(x), creds(cred), at(21*time.Hour), opts()).want(t, "Renew beyond what was promised", am.Refused)
	tells("Renew beyond what was promised", a, "the latest time is "+before+", promised before the maintenance was planned that begins at "+at(3*time.Hour)+": new disks")
	is("as long as possible", call("Renew", strs(x), creds(cred), at(21*time.Hour), opts(opt("geni_extend_alap", true))).want(t, "Renew", am.Success), before)
	is("shorter", call("Renew", strs(x), creds(cred), at(19*time.Hour), opts()).want(t, "Renew", am.Success), at(19*time.Hour))
}

// TestMaintenanceBeginsAndEnds lets the time pass over maintenance of pc1.
func TestMaintenanceBeginsAndEnds(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("one", 20*24*time.Hour)
	free := func() int {
		ad := alice.call("ListResources", creds(alice.user), opts()).want(t, "ListResources", am.Success).value.(string)
		return strings.Count(ad, `now="true"`)
	}
	all := free()
	a := alice.call("Allocate", slice, creds(cred), request(onNode("kept", "pc2")), opts()).want(t, "Allocate", am.Success)
	kept := get(a.slivers(t)[0], "geni_sliver_urn").(string)
	// It is planned when pc2 has a reservation already.
	s.heed(s.planned("pc1..pc2", 5*time.Minute, 9*time.Minute))
	if n := free(); n != all-1 {
		t.Errorf("%d are free before it begins, want %d", n, all-1)
	}
	s.pass(5 * time.Minute)
	if n := free(); n != all-2 {
		t.Errorf("%d are free when it has begun, want %d", n, all-2)
	}
	a = alice.call("Allocate", slice, creds(cred), request(onNode("x", "pc1")), opts()).want(t, "bound to it", am.Unavailable)
	if want := "pc1 is under maintenance until " + formatTime(s.clock().Add(4*time.Minute)) + ": new disks"; !strings.Contains(a.output, want) {
		t.Errorf("told %q, want %q", a.output, want)
	}
	a = alice.call("Allocate", slice, creds(cred), request(node("y")), opts()).want(t, "anywhere", am.Success)
	if m := get(a.value, "geni_rspec").(string); !strings.Contains(m, "+node+pc3") {
		t.Errorf("an unbound node is not on pc3: %s", m)
	}
	a = alice.call("Provision", strs(kept), creds(cred), opts()).want(t, "Provision", am.Unavailable)
	if !strings.Contains(a.output, "pc2, which is under maintenance until") {
		t.Errorf("told %q", a.output)
	}
	alice.call("Renew", strs(kept), creds(cred), formatTime(s.clock().Add(time.Hour)), opts()).want(t, "Renew of what is there", am.Success)
	s.pass(4 * time.Minute)
	if n := free(); n != all-2 { // pc2 and pc3 are reserved
		t.Errorf("%d are free when it is over, want %d", n, all-2)
	}
	alice.call("Allocate", slice, creds(cred), request(onNode("x", "pc1")), opts()).want(t, "bound to it again", am.Success)
}

// meanwhile is a prober in whose time something happens.
type meanwhile struct{ happens func() }

func (meanwhile) Asks(urn.URN) bool { return true }

func (m meanwhile) Probe(_ context.Context, slivers []am.Sliver, _ func(am.Sliver) bool) []*am.Error {
	m.happens()
	return make([]*am.Error, len(slivers))
}

func (meanwhile) Silent() []urn.URN      { return nil }
func (meanwhile) Longest() time.Duration { return time.Minute }

// TestLockdownWhileProvidersAreAsked has a call that began before the lockdown:
// nothing is promised, and what was reserved for asking is given back.
func TestLockdownWhileProvidersAreAsked(t *testing.T) {
	var s *site
	lock := locked
	s = setting{prober: meanwhile{func() { s.heed(lock) }}}.site(t)
	alice := s.user("alice")
	slice, cred := alice.slice("one", 24*time.Hour)
	a := alice.call("Allocate", slice, creds(cred), request(node("x")), opts()).want(t, "Allocate", am.Unavailable)
	if !strings.Contains(a.output, "power cut at noon") {
		t.Errorf("told %q", a.output)
	}
	alice.call("Status", strs(slice), creds(cred), opts()).want(t, "Status", am.SearchFailed)
	s.heed("")
	lock = s.planned("pc1", 0, time.Hour)
	a = alice.call("Allocate", slice, creds(cred), request(onNode("x", "pc1")), opts()).want(t, "Allocate on what is maintained meanwhile", am.Unavailable)
	if !strings.Contains(a.output, "pc1, which is under maintenance") {
		t.Errorf("told %q", a.output)
	}
	s.heed("")
	lock = ""
	alice.call("Allocate", slice, creds(cred), request(onNode("x", "pc2")), opts()).want(t, "Allocate when it is lifted", am.Success)
}
