package api

import (
	"errors"
	"slices"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// TestCallsThatChangeSomethingAreAudited checks which calls get an audit line, and which credentials it lists,
// refused ones included.
func TestCallsThatChangeSomethingAreAudited(t *testing.T) {
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
		t.Errorf("a stranger gets %d %s", got.code, got.output)
	}
	if got := alice.call("Status", strs(slice), creds(cred), empty); got.code != am.SearchFailed {
		t.Errorf("a look at nothing, which is not asked about: %d %s", got.code, got.output)
	}
}

// TestMayChangeIsCalledWithTheCaller checks that MayChange is called with the caller, before anything is
// changed, and only for calls that change something.
func TestMayChangeIsCalledWithTheCaller(t *testing.T) {
	f := newFederal(t, "fed.example.org")
	name := func(kind, n string) string { return "urn:publicid:IDN+fed.example.org+" + kind + "+" + n }
	project := pki.Authority(t, f.root, "urn:publicid:IDN+fed.example.org:proj+authority+sa", "rsa4")
	alice := pki.User(t, f.root, name("user", "alice"), "rsa2")
	member := pki.User(t, project, "urn:publicid:IDN+fed.example.org:proj+user+bob", "rsa6")
	tool := pki.User(t, f.root, name("tool", "portal"), "rsa5")
	slice := pki.User(t, f.root, name("slice", "s1"), "rsa3")
	stranger := pki.User(t, pki.Authority(t, nil, "urn:publicid:IDN+other.example.org+authority+sa", "rsa3"), name("user", "eve"), "rsa2")
	cred := f.grant(t, alice, slice)
	ofMember := f.grant(t, member, slice, func(c *pki.Credential) { c.Owner = append(c.Owner, project) })
	speech := xmlrpc.Struct{opt("geni_type", "geni_abac"), opt("geni_version", "1"), opt("geni_value", pki.SpeaksFor{Signer: []*pki.Entity{alice}, Tool: tool}.Signed(t))}
	speakingFor := opts(opt("geni_speaking_for", alice.URN.String()))
	urns := strs(slice.URN.String())
	const unknown = ""
	for _, c := range []struct {
		rule   string
		caller *caller
		method string
		params []xmlrpc.Value
		code   am.Code
		asked  []string
	}{
		{"a user", f.as(alice), "Delete", []xmlrpc.Value{urns, creds(cred), opts()}, am.SearchFailed, []string{unknown, alice.URN.Key()}},
		{"one who is refused", f.as(alice), "Delete", []xmlrpc.Value{urns, creds("junk"), opts()}, am.Forbidden, []string{unknown, alice.URN.Key()}},
		{"one with wrong arguments", f.as(alice), "Delete", []xmlrpc.Value{7, creds(cred), opts()}, am.BadArgs, []string{unknown}},
		{"one whose client sends less than the chain", f.as(member), "Delete", []xmlrpc.Value{urns, creds(ofMember), opts()}, am.SearchFailed, []string{unknown, member.URN.Key()}},
		{"a tool", f.as(tool), "Delete", []xmlrpc.Value{urns, append(creds(cred), speech), speakingFor}, am.SearchFailed, []string{unknown, tool.URN.Key()}},
		{"a stranger", f.as(stranger), "Delete", []xmlrpc.Value{urns, creds(cred), opts()}, am.Forbidden, []string{unknown}},
		{"a look", f.as(alice), "Describe", []xmlrpc.Value{urns, creds(cred), opts()}, am.Success, nil},
	} {
		body := callBody(t, c.method, c.params...)
		var asked []string
		refuse := -1
		ask := func(caller string) error {
			if asked = append(asked, caller); len(asked) > refuse && refuse >= 0 {
				return am.Errorf(am.ServerBusy, "too many")
			}
			return nil
		}
		if got := f.serve(Request{Chain: c.caller.chain, Body: body, MayChange: ask}); got.code != c.code || !slices.Equal(asked, c.asked) {
			t.Errorf("%s: code %d %s; asked about %q, want %q", c.rule, got.code, got.output, asked, c.asked)
		}
		for refuse = range c.asked {
			asked = nil
			if got := f.serve(Request{Chain: c.caller.chain, Body: body, MayChange: ask}); got.code != am.ServerBusy || len(asked) != refuse+1 {
				t.Errorf("%s, refused at question %d: code %d %s; asked about %q", c.rule, refuse+1, got.code, got.output, asked)
			}
		}
	}
}
