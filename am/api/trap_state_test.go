package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

func TestTrap16UsersMayBeAbsent(t *testing.T) {
	for _, users := range []string{"", "geni_users=", "geni_users=alice-"} {
		newWorld(t).play(`
			alice owns s1 24h
			alice Allocate s1 a
			alice Provision s1 ` + users + `
			settle
			alice PerformOperationalAction s1 geni_start
			settle
			alice Status s1 -> a:ready
			alice Describe s1 -> !"<login"
			alice owns s2 24h
			alice CreateSliver s2 a
			settle
			alice SliverStatus s2 -> value.geni_status=<string>ready
		`)
	}
}

// TestTrap18ProvisionedAtOnce checks that Provision answers geni_provisioned at once. The progress
// is in the operational state only.
func TestTrap18ProvisionedAtOnce(t *testing.T) {
	newWorld(t).play(`
		alice owns s1 24h
		alice Allocate s1 a b
		alice Provision s1 -> a:provisioned b:provisioned a:pending_allocation b:pending_allocation
		alice Status s1 -> a:provisioned b:provisioned a:pending_allocation b:pending_allocation
	`)
}

// TestTrap19StartSucceedsInNormalStates checks that geni_start succeeds in every normal state,
// and that impossible actions get code 13. It uses the table of TestEveryMethodInEveryState.
func TestTrap19StartSucceedsInNormalStates(t *testing.T) {
	normal := []string{"notready", "configuring", "ready", "updating_users"}
	for _, e := range expectations(t) {
		if slices.Contains([]string{"geni_start", "geni_restart", "geni_stop"}, e.row) && e.refused &&
			(e.sliver != am.Unsupported || e.slice != am.Unsupported || e.row == "geni_start" && slices.Contains(normal, e.state)) {
			t.Errorf("%s in %s is refused with %d and %d", e.row, e.state, e.slice, e.sliver)
		}
	}
	// omni sends these one after the other without waiting.
	newWorld(t).play(`
		alice owns s1 24h
		alice Allocate s1 a
		alice Provision s1
		alice PerformOperationalAction s1 geni_start -> SUCCESS|UNSUPPORTED
		alice PerformOperationalAction s1 geni_restart -> SUCCESS|UNSUPPORTED
		alice PerformOperationalAction s1 geni_stop -> SUCCESS|UNSUPPORTED
		alice PerformOperationalAction s1 '' -> UNSUPPORTED
		alice PerformOperationalAction s1 random_action -> UNSUPPORTED
		alice PerformOperationalAction s1 'geni_start ' -> UNSUPPORTED
	`)
}

func TestTrap21DescribeNamesTheSlice(t *testing.T) {
	const named = " -> value.geni_urn=<string>s1 value.geni_rspec=<string> value.geni_slivers=<array>\n"
	newWorld(t).play("alice owns s1 24h\nalice Describe s1" + named + "alice Allocate s1 a b\nalice Describe s1" + named + "alice Describe s1.b" + named + "alice Describe s1.a s1.b" + named)
}

// TestTrap22DeleteListsEverySliver deletes a ready sliver, a stopped one and a reserved one.
func TestTrap22DeleteListsEverySliver(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 48h
		alice Allocate s1 a b c
		alice Provision s1.a s1.b
		settle
		alice PerformOperationalAction s1.a geni_start
		settle
		alice Delete s1 -> a:unallocated b:unallocated c:unallocated a@+24h b@+24h c@+10m value=<array>
	`)
	for _, s := range w.answer.sliverStructs() {
		if err := first(s.is("geni_operational_status", "string", "geni_pending_allocation"), s.is("geni_error", "string", "")); err != nil {
			t.Error(err)
		}
	}
}

// TestTrap23SliverURNsStandForTheirSlice calls methods with sliver URNs and a credential for their
// slice. A deleted sliver gets code 12, and the answer does not name its slice.
func TestTrap23SliverURNsStandForTheirSlice(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 24h
		alice owns s2 24h
		mallory owns m 24h
		alice Allocate s1 a b
	`)
	for _, method := range []string{"Describe", "Status", "Provision"} {
		w.play(strings.ReplaceAll(`
			alice METHOD s1.b with=s2 -> FORBIDDEN
			alice METHOD s1.b with=user -> FORBIDDEN
			mallory METHOD s1.b with=m -> FORBIDDEN !"+slice+s1"
			alice METHOD s1.b -> b:pending_allocation
		`, "METHOD", method))
	}
	w.play("alice Delete s1.a")
	const gone = `
		alice METHOD s1.a -> SEARCHFAILED !"+slice+s1"
		mallory METHOD s1.a with=m -> SEARCHFAILED !"+slice+s1"
		nobody METHOD s1.a -> FORBIDDEN
	`
	both := strings.ReplaceAll(gone, "METHOD", "Describe") + strings.ReplaceAll(gone, "METHOD", "Status")
	w.play(both + "settle" + both + "alice Describe s1.a s1.b -> SEARCHFAILED")
}

// TestTrap24OneBadURNChangesNothing checks that without best effort one wrong URN, first or last,
// fails the whole call. The same call without it changes the slivers.
func TestTrap24OneBadURNChangesNothing(t *testing.T) {
	w := newWorld(t, "urnnode", "urn:publicid:IDN+example.org+node+pc1", "urnhello", "hello").play(`
		alice owns s1 24h
		alice Allocate s1 a b c
		alice Provision s1.a s1.b
		settle
	`)
	state := func() string { return w.play("alice Status s1").answer.everything() }
	for _, tt := range []struct{ method, good, arg string }{
		{"Provision", "s1.c", ""}, {"Renew", "s1.a s1.b s1.c", "+1h"}, {"PerformOperationalAction", "s1.a s1.b", "geni_start"}, {"Delete", "s1.a s1.b s1.c", ""},
	} {
		for bad, want := range map[string]string{"nope": "SEARCHFAILED", "$urnnode": "BADARGS", "$urnhello": "BADARGS", "s1": "BADARGS"} {
			before := state()
			w.play(fmt.Sprintf("alice %[1]s %[2]s %[3]s %[4]s with=s1 -> %[5]s\nalice %[1]s %[3]s %[2]s %[4]s with=s1 geni_best_effort=false -> %[5]s", tt.method, tt.good, bad, tt.arg, want))
			if after := state(); after != before {
				t.Errorf("%s with %s changed something:\n%s\n%s", tt.method, bad, before, after)
			}
		}
		w.play(fmt.Sprintf("alice %s %s %s -> #%d", tt.method, tt.good, tt.arg, len(strings.Fields(tt.good))))
	}
}

func TestTrap27EmptyCredentialList(t *testing.T) {
	newWorld(t).play(`
		alice ListResources with=none -> BADARGS value=<string>''
		alice ListResources2 with=none -> BADARGS value=<string>''
		alice ListResources
		alice ListResources2
	`)
}

func TestTrap28EmptySliceStatusFailsDescribeWorks(t *testing.T) {
	const empty = `
		alice Status s1 -> SEARCHFAILED
		alice SliverStatus s1 -> SEARCHFAILED
		alice Describe s1 -> #0 'type="manifest"' !"<node"
	`
	newWorld(t).play("alice owns s1 24h" + empty + "alice Allocate s1 a\nalice Delete s1" + empty)
}

// TestTrap29OnlyMissingSlicesAreNotFound checks that temporary failures and refusals never have code
// 12 or 15, because clients then forget the slice.
func TestTrap29OnlyMissingSlicesAreNotFound(t *testing.T) {
	var broken atomic.Bool
	w := setting{fault: func() error {
		if broken.Load() {
			return errors.New("the disk is full")
		}
		return nil
	}}.world(t).play(`
		alice owns s1 48h
		alice Allocate s1 a
	`)
	each := func(trouble string, do func(method string, params []xmlrpc.Value) am.Code) {
		t.Helper()
		for method, args := range map[string][]xmlrpc.Value{
			"Status": nil, "Describe": nil, "Provision": nil, "Renew": {w.at(duration("1h"))}, "PerformOperationalAction": {"geni_start"}, "Delete": nil,
		} {
			if c := do(method, append(append([]xmlrpc.Value{strs(w.urns["s1"]), creds(w.creds["s1"])}, args...), opts())); c == am.SearchFailed || c == am.Expired {
				t.Errorf("%s: %s says %s, and clients forget the slice", trouble, method, c)
			}
		}
	}
	alice := w.who("alice")
	each("a call whose time is over", func(method string, params []xmlrpc.Value) am.Code {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return alice.read(string(w.api.Serve(ctx, 3, Request{Chain: alice.chain, Body: callBody(t, method, params...)}).Body)).code()
	})
	each("a caller without right", func(method string, params []xmlrpc.Value) am.Code {
		return w.who("mallory").ask(3, method, params...).want(t, method, am.Forbidden).code()
	})
	ask := func(method string, params []xmlrpc.Value) am.Code { return alice.ask(3, method, params...).code() }
	broken.Store(true)
	each("a disk that is full", ask)
	broken.Store(false)
	w.play("alice Shutdown s1")
	each("a slice that is shut down", ask)
	// An expired slice does get 12.
	newWorld(t).play("alice owns s1 48h\nalice Allocate s1 a\npass 24h\nalice Status s1 -> SEARCHFAILED|EXPIRED")
}

// TestTrap30BusyIsTemporary checks that code 14, which makes clients try again, is only used if the
// cause passes by itself and nothing permanent prevents the call.
func TestTrap30BusyIsTemporary(t *testing.T) {
	many := ""
	for i := range 21 {
		many += fmt.Sprintf("n%d ", i)
	}
	newWorld(t).play(strings.ReplaceAll(`
		alice owns s1 20d
		alice owns s2 48h
		alice Allocate s2 MANY -> TOOBIG
		alice Allocate s2 x:quantum -> SEARCHFAILED
		alice Allocate s1 one@pc1
		alice Provision s1
		settle
		alice Allocate s2 one@pc1 -> TOOBIG
		alice Delete s1
		alice Allocate s2 one@pc1 -> BUSY
		alice Allocate s2 one@pc1 MANY -> TOOBIG
		alice Allocate s2 one@pc1 x:quantum -> SEARCHFAILED
		alice Allocate s2 one@pc1 with=junk -> FORBIDDEN
		settle
		alice Allocate s2 one@pc1
		alice Shutdown s2
		alice Allocate s2 y -> FORBIDDEN
		alice Allocate s1 b
		alice Provision s1
		alice Provision s1.b -> UNSUPPORTED
		alice PerformOperationalAction s1 geni_updating_users_cancel -> UNSUPPORTED
	`, "MANY", many))
}
