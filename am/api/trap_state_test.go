package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

func TestTrap16UsersMayBeAbsent(t *testing.T) {
	for what, o := range map[string]xmlrpc.Struct{
		"no option":     opts(),
		"an empty list": opts(opt("geni_users", []xmlrpc.Value{})),
		"a user without keys": opts(opt("geni_users", []xmlrpc.Value{
			user("urn:publicid:IDN+example.org+user+alice"),
		})),
	} {
		l := newLab(t)
		l.allocate(t, node("a"))
		l.ask(3, "Provision", strs(l.slice), creds(l.cred), o).want(t, what, am.Success)
		l.site.settle()
		l.ask(3, "PerformOperationalAction", strs(l.slice), creds(l.cred), "geni_start", opts()).want(t, what, am.Success)
		l.site.settle()
		if err := sliversOf(l.status(t))[0].is("geni_operational_status", "string", "geni_ready"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	l := newLab(t)
	l.ask(2, "CreateSliver", l.slice, strs(l.cred), request(node("a")), []xmlrpc.Value{}, xmlrpc.Struct{}).want(t, "version 2 with no users", am.Success)
	l.site.settle()
	if err := l.ask(2, "SliverStatus", l.slice, strs(l.cred), xmlrpc.Struct{}).want(t, "SliverStatus", am.Success).is("value.geni_status", "string", "ready"); err != nil {
		t.Error(err)
	}
}

// TestTrap18ProvisionedAtOnce: what takes time hides in the operational state.
func TestTrap18ProvisionedAtOnce(t *testing.T) {
	l := newLab(t)
	l.allocate(t, node("a"), node("b"))
	e := l.ask(3, "Provision", strs(l.slice), creds(l.cred), opts()).want(t, "Provision", am.Success)
	for _, answer := range []*onWire{e, l.status(t)} { // no task has been done yet
		for _, s := range sliversOf(answer) {
			if err := first(s.is("geni_allocation_status", "string", "geni_provisioned"), s.is("geni_operational_status", "string", "geni_pending_allocation")); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTrap19StartSucceedsWhereverItIsNormal: and what restart and stop answer in
// a state where they cannot be is 0 or 13, nothing else.
func TestTrap19StartSucceedsWhereverItIsNormal(t *testing.T) {
	act := func(l *lab, action string) *onWire {
		return l.ask(3, "PerformOperationalAction", strs(l.slice), creds(l.cred), action, opts())
	}
	// Each brings a slice into a state.
	states := map[string]func(*lab){
		"geni_pending_allocation": func(l *lab) {
			l.ask(3, "Provision", strs(l.slice), creds(l.cred), opts()).want(t, "Provision", am.Success)
		},
		"geni_notready": func(l *lab) {
			l.ask(3, "Provision", strs(l.slice), creds(l.cred), opts()).want(t, "Provision", am.Success)
			l.site.settle()
		},
		"geni_configuring": func(l *lab) { l.ready(t); act(l, "geni_restart").want(t, "restart", am.Success) },
		"geni_ready":       func(l *lab) { l.ready(t) },
		"geni_stopping":    func(l *lab) { l.ready(t); act(l, "geni_stop").want(t, "stop", am.Success) },
		"geni_updating_users": func(l *lab) {
			l.ready(t)
			l.ask(3, "PerformOperationalAction", strs(l.slice), creds(l.cred), "geni_update_users", opts(opt("geni_users", []xmlrpc.Value{user(l.urn.String(), testKey)}))).want(t, "update_users", am.Success)
		},
	}
	normal := []string{"geni_notready", "geni_configuring", "geni_ready", "geni_updating_users"}
	for state, reach := range states {
		for _, action := range []string{"geni_start", "geni_restart", "geni_stop"} {
			l := newLab(t)
			l.allocate(t, node("a"))
			reach(l)
			if err := sliversOf(l.status(t))[0].is("geni_operational_status", "string", state); err != nil {
				t.Fatalf("not where it should be: %v", err)
			}
			codes := []am.Code{am.Success, am.Unsupported}
			if action == "geni_start" && slices.Contains(normal, state) {
				codes = codes[:1]
			}
			act(l, action).want(t, action+" in "+state, codes...)
		}
	}
	// As omni fires them, one upon the other and without waiting.
	l := newLab(t)
	l.allocate(t, node("a"))
	l.ask(3, "Provision", strs(l.slice), creds(l.cred), opts()).want(t, "Provision", am.Success)
	for _, action := range []string{"geni_start", "geni_restart", "geni_stop"} {
		act(l, action).want(t, action, am.Success, am.Unsupported)
	}
	for _, action := range []string{"", "random_action", "geni_start "} {
		act(l, action).want(t, action, am.Unsupported)
	}
}

func TestTrap21DescribeNamesTheSlice(t *testing.T) {
	l := newLab(t)
	look := func(what string, urns []xmlrpc.Value) {
		t.Helper()
		bites(t, l.send(3, "Describe", wire(t, urns), wire(t, creds(l.cred)), wire(t, opts())), func(e *onWire) error {
			return first(e.is("value.geni_urn", "string", l.slice), e.is("value.geni_rspec", "string"), e.is("value.geni_slivers", "array"))
		}, bite{what + " without geni_urn", "<name>urn</name>", "<name>geni_urn</name>"})
	}
	look("an empty slice", strs(l.slice))
	slivers := l.allocate(t, node("a"), node("b"))
	look("a slice", strs(l.slice))
	look("one sliver", strs(slivers[1]))
	look("all slivers", strs(slivers...))
}

func TestTrap22DeleteListsEverySliver(t *testing.T) {
	l := newLab(t)
	slivers := l.allocate(t, node("a"), node("b"), node("c"))
	l.ask(3, "Provision", strs(slivers[:2]...), creds(l.cred), opts()).want(t, "Provision", am.Success)
	l.site.settle()
	l.ask(3, "PerformOperationalAction", strs(slivers[0]), creds(l.cred), "geni_start", opts()).want(t, "geni_start", am.Success)
	l.site.settle() // one is ready, one is not, one is but reserved
	before := map[string]string{}
	for _, s := range sliversOf(l.status(t)) {
		before[s.at("geni_sliver_urn").text] = s.at("geni_expires").text
	}
	bites(t, l.send(3, "Delete", wire(t, strs(l.slice)), wire(t, creds(l.cred)), wire(t, opts())), func(e *onWire) error {
		if err := first(e.is("code.geni_code", "int", "0"), e.is("value", "array")); err != nil {
			return err
		}
		if n := len(sliversOf(e)); n != len(before) {
			return fmt.Errorf("%d slivers, want %d", n, len(before))
		}
		for _, s := range sliversOf(e) {
			if err := s.is("geni_sliver_urn", "string"); err != nil {
				return err
			}
			if err := first(
				s.is("geni_expires", "string", before[s.at("geni_sliver_urn").text]),
				s.is("geni_allocation_status", "string", "geni_unallocated"),
				s.is("geni_operational_status", "string", "geni_pending_allocation"),
				s.is("geni_error", "string", ""),
			); err != nil {
				return err
			}
		}
		return nil
	},
		bite{"no expiry", "<name>expires</name>", "<name>geni_expires</name>"},
		bite{"the state it had", "geni_provisioned", "geni_unallocated"},
		bite{"no operational state", "<name>status</name>", "<name>geni_operational_status</name>"},
		bite{"an error that is nil", "<name>geni_error</name><value><nil/></value>", "<name>geni_error</name><value><string></string></value>"},
	)
}

// TestTrap23SliverURNsStandForTheirSlice: the credential is of the slice, though
// the call names slivers; what is gone is 12, and whose it was is not told.
func TestTrap23SliverURNsStandForTheirSlice(t *testing.T) {
	l := newLab(t)
	slivers := l.allocate(t, node("a"), node("b"))
	_, foreign := l.caller.slice("s2", 24*time.Hour)
	mallory := l.site.user("mallory")
	_, hers := mallory.slice("m", 24*time.Hour)
	for _, method := range []string{"Describe", "Status", "Provision"} {
		l.ask(3, method, strs(slivers[1]), creds(foreign), opts()).want(t, method+" with the credential of another slice", am.Forbidden)
		l.ask(3, method, strs(slivers[1]), creds(l.user), opts()).want(t, method+" with the user credential", am.Forbidden)
		e := mallory.ask(3, method, strs(slivers[1]), creds(hers), opts()).want(t, method+" of another's sliver", am.Forbidden)
		if strings.Contains(e.at("output").text, l.slice) {
			t.Errorf("%s tells whose sliver it is: %q", method, e.at("output").text)
		}
		if got := urnsOf(l.ask(3, method, strs(slivers[1]), creds(l.cred), opts()).want(t, method, am.Success)); !slices.Equal(got, slivers[1:]) {
			t.Errorf("%s is about %q, want %q", method, got, slivers[1:])
		}
	}
	l.ask(3, "Delete", strs(slivers[0]), creds(l.cred), opts()).want(t, "Delete", am.Success)
	for range 2 { // while it is cleaned up, and after
		for _, method := range []string{"Describe", "Status"} {
			for who, e := range map[string]*onWire{
				"its owner": l.ask(3, method, strs(slivers[0]), creds(l.cred), opts()), "another": mallory.ask(3, method, strs(slivers[0]), creds(hers), opts()),
			} {
				e.want(t, method+" of what was deleted, by "+who, am.SearchFailed)
				if strings.Contains(e.at("output").text, l.slice) {
					t.Errorf("%s tells whose sliver it was: %q", method, e.at("output").text)
				}
			}
			stranger := &caller{site: l.site}
			stranger.ask(3, method, strs(slivers[0]), creds(l.cred), opts()).want(t, method+" by nobody", am.Forbidden)
		}
		l.site.settle()
	}
	l.ask(3, "Describe", strs(slivers...), creds(l.cred), opts()).want(t, "one of two is gone", am.SearchFailed)
}

// TestTrap24OneBadURNChangesNothing: without best effort, in every method that
// takes slivers, in whatever order.
func TestTrap24OneBadURNChangesNothing(t *testing.T) {
	l := newLab(t)
	slivers := l.allocate(t, node("a"), node("b"), node("c"))
	l.ask(3, "Provision", strs(slivers[:2]...), creds(l.cred), opts()).want(t, "Provision", am.Success)
	l.site.settle()
	const nope = "urn:publicid:IDN+example.org+sliver+nope"
	later := l.site.clock().Add(time.Hour).Format(time.RFC3339)
	state := func() string { return wholeState(l.status(t)) }
	for _, tt := range []struct {
		method string
		good   []string
		args   []xmlrpc.Value
	}{
		{"Provision", slivers[2:], nil},
		{"Renew", slivers, []xmlrpc.Value{later}},
		{"PerformOperationalAction", slivers[:2], []xmlrpc.Value{"geni_start"}},
		{"Delete", slivers, nil},
	} {
		for _, bad := range []struct {
			rule, urn string
			want      am.Code
		}{
			{"an unknown sliver", nope, am.SearchFailed},
			{"a node", "urn:publicid:IDN+example.org+node+pc1", am.BadArgs},
			{"no URN", "hello", am.BadArgs},
			{"a slice among slivers", l.slice, am.BadArgs},
		} {
			for _, o := range []xmlrpc.Struct{opts(), opts(opt("geni_best_effort", false))} {
				for _, urns := range [][]string{append(slices.Clone(tt.good), bad.urn), append([]string{bad.urn}, tt.good...)} {
					before := state()
					params := append([]xmlrpc.Value{strs(urns...), creds(l.cred)}, tt.args...)
					l.ask(3, tt.method, append(params, o)...).want(t, tt.method+" with "+bad.rule, bad.want)
					if after := state(); after != before {
						t.Errorf("%s with %s changed something:\n%s\n%s", tt.method, bad.rule, before, after)
					}
				}
			}
		}
		// The neighbour that is right does change something.
		before := state()
		params := append([]xmlrpc.Value{strs(tt.good...), creds(l.cred)}, tt.args...)
		e := l.ask(3, tt.method, append(params, opts())...).want(t, tt.method, am.Success)
		if tt.method != "Delete" && state() == before {
			t.Errorf("%s of good slivers alone changed nothing: the test proves nothing", tt.method)
		}
		if got := urnsOf(e); len(got) != len(tt.good) {
			t.Errorf("%s lists %d slivers, want %d", tt.method, len(got), len(tt.good))
		}
	}
}

// wholeState is everything that Status says of the slivers.
func wholeState(e *onWire) string {
	var b strings.Builder
	for _, s := range sliversOf(e) {
		for _, m := range s.kids {
			fmt.Fprintf(&b, "%s=%s ", m.child("name").text, m.child("value").at("").text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTrap27EmptyCredentialList(t *testing.T) {
	l := newLab(t)
	for _, v := range bothVersions {
		bites(t, l.send(v, "ListResources", "<array><data></data></array>", wire(t, opts())), func(e *onWire) error {
			return first(e.is("code.geni_code", "int", "1"), e.is("value", "string", ""))
		}, bite{"served all the same", "<int>0</int>", "<int>1</int>"})
		l.ask(v, "ListResources", creds(l.user), opts()).want(t, "its neighbour", am.Success)
	}
}

func TestTrap28EmptySliceStatusFailsDescribeWorks(t *testing.T) {
	l := newLab(t)
	for _, when := range []string{"never used", "given back"} {
		l.ask(3, "Status", strs(l.slice), creds(l.cred), opts()).want(t, when, am.SearchFailed)
		l.ask(2, "SliverStatus", l.slice, strs(l.cred), xmlrpc.Struct{}).want(t, when, am.SearchFailed)
		e := l.ask(3, "Describe", strs(l.slice), creds(l.cred), opts()).want(t, when, am.Success)
		manifest := l.read(e.at("value.geni_rspec").text)
		if manifest.name != "rspec" || manifest.attr["type"] != "manifest" || len(manifest.kids) != 0 {
			t.Errorf("%s: the empty manifest has %d children: %v", when, len(manifest.kids), manifest.attr)
		}
		if n := len(sliversOf(e)); n != 0 {
			t.Errorf("%s: %d slivers", when, n)
		}
		l.allocate(t, node("a"))
		l.ask(3, "Delete", strs(l.slice), creds(l.cred), opts()).want(t, "Delete", am.Success)
	}
}

// TestTrap29GoneIsOnlySaidOfWhatIsGone: on 12 and 15 clients forget a slice, so
// trouble that passes has another word.
func TestTrap29GoneIsOnlySaidOfWhatIsGone(t *testing.T) {
	var broken atomic.Bool
	alice := setting{fault: func() error {
		if broken.Load() {
			return errors.New("the disk is full")
		}
		return nil
	}}.site(t).user("alice")
	l := &lab{caller: alice}
	l.slice, l.cred = alice.slice("s1", 48*time.Hour)
	l.allocate(t, node("a"))
	later := l.site.clock().Add(time.Hour).Format(time.RFC3339)
	calls := map[string][]xmlrpc.Value{
		"Status": nil, "Describe": nil, "Provision": nil, "Renew": {later}, "PerformOperationalAction": {"geni_start"}, "Delete": nil,
	}
	gone := func(c am.Code) bool { return c == am.SearchFailed || c == am.Expired }
	each := func(trouble string, do func(method string, params []xmlrpc.Value) am.Code) {
		t.Helper()
		for method, args := range calls {
			if c := do(method, append(append([]xmlrpc.Value{strs(l.slice), creds(l.cred)}, args...), opts())); gone(c) {
				t.Errorf("%s: %s says %s, and clients forget the slice", trouble, method, c)
			}
		}
	}
	each("a call whose time is over", func(method string, params []xmlrpc.Value) am.Code {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
		if err != nil {
			t.Fatal(err)
		}
		return l.read(string(l.site.api.Serve(ctx, 3, Request{Chain: l.chain, Body: body}).Body)).code()
	})
	each("a caller without right", func(method string, params []xmlrpc.Value) am.Code {
		c := l.site.user("mallory").ask(3, method, params...).code()
		if c != am.Forbidden {
			t.Errorf("%s by another: %s", method, c)
		}
		return c
	})
	broken.Store(true)
	each("a disk that is full", func(method string, params []xmlrpc.Value) am.Code { return l.ask(3, method, params...).code() })
	broken.Store(false)

	l = newLab(t)
	l.allocate(t, node("a"))
	l.ask(3, "Shutdown", l.slice, creds(l.cred), opts()).want(t, "Shutdown", am.Success)
	each("a slice that is shut down", func(method string, params []xmlrpc.Value) am.Code { return l.ask(3, method, params...).code() })

	// The neighbours: what is gone does get 12.
	l = newLab(t)
	l.allocate(t, node("a"))
	l.site.pass(24 * time.Hour)
	if c := l.ask(3, "Status", strs(l.slice), creds(l.cred), opts()).code(); !gone(c) {
		t.Errorf("Status after the lease: %s", c)
	}
}

// TestTrap30BusyPasses: 14 makes clients try again, so it is only said of what
// passes by itself, and never where anything lasting stands in the way, too.
func TestTrap30BusyPasses(t *testing.T) {
	node1 := func(more string) string {
		return `<node client_id="one" component_id="` + urn.URN{Authority: authority, Type: urn.Node, Name: "pc1"}.String() + `">` + more + `</node>`
	}
	many := make([]string, 21)
	for i := range many {
		many[i] = node(fmt.Sprintf("n%d", i))
	}
	l := newLab(t)
	slice2, cred2 := l.caller.slice("s2", 48*time.Hour)
	refused := func(rule string, want am.Code, nodes ...string) {
		t.Helper()
		l.ask(3, "Allocate", slice2, creds(cred2), request(nodes...), opts()).want(t, rule, want)
	}
	refused("more than there is", am.TooBig, many...)
	refused("unknown type", am.SearchFailed, `<node client_id="x"><sliver_type name="quantum"/></node>`)
	l.allocate(t, node1(""))
	l.ready(t)
	refused("held by another for days", am.TooBig, node1(""))
	l.ask(3, "Delete", strs(l.slice), creds(l.cred), opts()).want(t, "Delete", am.Success)
	refused("being cleaned", am.Busy, node1(""))
	refused("being cleaned, and more than there is", am.TooBig, append(many, node1(""))...)
	refused("being cleaned, and a type that is not there", am.SearchFailed, node1(""), `<node client_id="x"><sliver_type name="quantum"/></node>`)
	l.ask(3, "Allocate", slice2, creds("junk"), request(node1("")), opts()).want(t, "being cleaned, and no right", am.Forbidden)
	l.site.settle()
	l.ask(3, "Allocate", slice2, creds(cred2), request(node1("")), opts()).want(t, "cleaned", am.Success)

	l.ask(3, "Shutdown", slice2, creds(cred2), opts()).want(t, "Shutdown", am.Success)
	refused("shut down", am.Forbidden, node("y"))

	// Provision again, an action in the wrong state: they last until somebody acts.
	l.allocate(t, node("b"))
	l.ready(t)
	slivers := urnsOf(l.status(t))
	l.ask(3, "Provision", strs(slivers...), creds(l.cred), opts()).want(t, "Provision again", am.Unsupported)
	l.ask(3, "PerformOperationalAction", strs(slivers...), creds(l.cred), "geni_updating_users_cancel", opts()).want(t, "nothing to cancel", am.Unsupported)
}
