package api

import (
	"errors"
	"slices"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
	"patchbay/credentials"
)

// TestWhatIsForTheAudit says of which calls the audit has a line, and what it is
// told of credentials, refused ones included.
func TestWhatIsForTheAudit(t *testing.T) {
	s := newSite(t)
	alice, bob := s.user("alice"), s.user("bob")
	slice, cred := alice.slice("s", time.Hour)
	print := credentials.Presented{Text: cred}.Fingerprint()
	var refused error
	s.api.cfg.Admit = func() error { return refused }
	empty := xmlrpc.Struct{}
	for _, c := range []struct {
		rule    string
		caller  *caller
		version int
		method  string
		params  []xmlrpc.Value
		code    am.Code
		changes bool
		prints  []string
	}{
		{"a change", alice, 3, "Allocate", []xmlrpc.Value{slice, creds(cred), request(node("n")), empty}, am.Success, true, []string{print}},
		{"a change by somebody else", bob, 3, "Delete", []xmlrpc.Value{strs(slice), creds(cred), empty}, am.Forbidden, true, []string{print}},
		{"a change with a broken credential", alice, 3, "Delete", []xmlrpc.Value{strs(slice), creds(cred + "<"), empty}, am.Forbidden, true, []string{credentials.Presented{Text: cred + "<"}.Fingerprint()}},
		{"a change that is not to be had", alice, 3, "PerformOperationalAction", []xmlrpc.Value{strs(slice), creds(cred), "geni_start", empty}, am.Unsupported, true, []string{print}},
		{"a look", alice, 3, "Status", []xmlrpc.Value{strs(slice), creds(cred), empty}, am.Success, false, []string{print}},
		{"a look by somebody else", bob, 3, "Describe", []xmlrpc.Value{strs(slice), creds(cred), empty}, am.Forbidden, false, nil},
		{"the other version", alice, 2, "DeleteSliver", []xmlrpc.Value{slice, creds(cred), empty}, am.Success, true, []string{print}},
	} {
		body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: c.method, Params: c.params})
		if err != nil {
			t.Fatal(err)
		}
		got := s.serveVersion(c.version, Request{ID: "r1", Chain: c.caller.chain, Body: body})
		e := got.resp.Event
		if got.code != c.code || e.Changes != c.changes || !slices.Equal(e.Credentials, c.prints) {
			t.Errorf("%s: code %d %s, changes %v, credentials %q", c.rule, got.code, got.output, e.Changes, e.Credentials)
		}
	}
	for method, changes := range map[string]bool{"CreateSliver": true, "ListResources": false, "Nothing": false} { // as faults of version 3
		body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		e := s.api.Serve(t.Context(), 3, Request{Body: body}).Event
		if !e.Fault || e.Changes != changes || changes && e.Method != method {
			t.Errorf("the fault of %s: %+v", method, e)
		}
	}

	refused = am.Errorf(am.ServerError, "no audit")
	before, err := s.store.Slivers()
	if err != nil {
		t.Fatal(err)
	}
	if got := alice.call("Allocate", slice, creds(cred), request(node("n")), empty); got.code != am.ServerError || got.output != "no audit" {
		t.Errorf("Allocate that is not admitted: %d %s", got.code, got.output)
	}
	if after, err := s.store.Slivers(); len(after) != len(before) || err != nil {
		t.Errorf("%d slivers, before %d, %v", len(after), len(before), err)
	}
	refused = errors.New("must not be asked")
	if got := bob.call("Allocate", slice, creds(cred), request(node("n")), empty); got.code != am.Forbidden {
		t.Errorf("a stranger is told %d %s", got.code, got.output)
	}
	if got := alice.call("Status", strs(slice), creds(cred), empty); got.code != am.SearchFailed {
		t.Errorf("a look at nothing, which is not asked about: %d %s", got.code, got.output)
	}
}
