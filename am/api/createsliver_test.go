package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/xmlrpc"
)

func TestCreateSliverLease(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	for i, tt := range []struct {
		rule    string
		lasts   time.Duration
		options xmlrpc.Struct
		want    time.Duration
	}{
		{"the site's default", 48 * time.Hour, nil, 24 * time.Hour},
		{"short of the credential", 3 * time.Hour, nil, 3*time.Hour - 10*time.Minute},
		{"geni_end_time", 48 * time.Hour, xmlrpc.Struct{opt("geni_end_time", s.at(30*time.Hour))}, 30 * time.Hour},
		{"geni_end_time beyond the credential", 48 * time.Hour, xmlrpc.Struct{opt("geni_end_time", s.at(99*time.Hour))}, 48 * time.Hour},
		{"geni_end_time beyond the site's limit", 60 * 24 * time.Hour, xmlrpc.Struct{opt("geni_end_time", s.at(59*24*time.Hour))}, 30 * 24 * time.Hour},
	} {
		x := alice.own(fmt.Sprintf("lease%d", i), tt.lasts)
		options := tt.options
		if options == nil {
			options = xmlrpc.Struct{}
		}
		manifest := x.v2("CreateSliver", request(node("a")), []xmlrpc.Value{}, options).want(t, tt.rule, am.Success).value.(string)
		if !strings.Contains(manifest, `expires="`+s.at(tt.want)+`"`) || get(x.v2("SliverStatus").value, "geni_expires") != s.at(tt.want) {
			t.Errorf("%s: SliverStatus says %v, want %s; manifest:\n%s", tt.rule, get(x.v2("SliverStatus").value, "geni_expires"), s.at(tt.want), manifest)
		}
	}
}

// TestCreateSliverRefused: whatever refuses a CreateSliver, nothing of it is
// left, neither for the caller nor in the store, and a right one then works.
func TestCreateSliverRefused(t *testing.T) {
	s := setting{inventory: strings.Replace(switched, "vlans: [100..199]", "vlans: [100]\nshared_vlans: [{name: closed, tag: 7, restricted: true}]", 1)}.site(t)
	alice := s.user("alice")
	x, other := alice.own("s1", 24*time.Hour), alice.own("s2", 24*time.Hour)
	other.create(across("1000")).want(t, "another slice has the only tag", am.Success)
	s.settle()
	before := s.everything(t)

	on := func(host, id, more string) string {
		return `<node client_id="` + id + `" component_id="urn:publicid:IDN+` + authority + `+node+` + host + `"` + more
	}
	pair := on("h1", "a", "") + `><interface client_id="a:0"/></node>` + on("h2", "b", "") + `><interface client_id="b:0"/></node>`
	link := func(inner string) string {
		return request(pair, `<link client_id="l">`+inner+`<interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`)
	}
	good := request(`<node client_id="a"/>`)
	none := []xmlrpc.Value{}
	crowd := make([]xmlrpc.Value, maxUsers+1)
	for i := range crowd {
		crowd[i] = user(fmt.Sprintf("urn:publicid:IDN+example.org+user+u%d", i), testKey)
	}
	many := make([]string, 19)
	for i := range many {
		many[i] = fmt.Sprintf(`<node client_id="n%d"/>`, i)
	}
	for _, tt := range []struct {
		rule    string
		creds   []xmlrpc.Value // the slice's if nil
		rspec   xmlrpc.Value
		users   xmlrpc.Value
		options xmlrpc.Struct
		want    am.Code
		detail  am.Detail
	}{
		{rule: "no credential", creds: strs(), rspec: good, users: none, want: am.Forbidden},
		{rule: "the user credential", creds: strs(alice.user), rspec: good, users: none, want: am.Forbidden},
		{rule: "another slice's credential", creds: strs(other.cred), rspec: good, users: none, want: am.Forbidden, detail: am.CredentialMismatch},
		{rule: "the request is no string", rspec: 7, users: none, want: am.BadArgs},
		{rule: "not XML", rspec: "hello", users: none, want: am.BadArgs},
		{rule: "a manifest", rspec: strings.Replace(good, `"request"`, `"manifest"`, 1), users: none, want: am.BadArgs},
		{rule: "no client_id", rspec: request(`<node/>`), users: none, want: am.BadArgs},
		{rule: "a client_id twice", rspec: request(`<node client_id="a"/>`, `<node client_id="a"/>`), users: none, want: am.BadArgs},
		{rule: "users left out", rspec: good, users: xmlrpc.Struct{}, want: am.BadArgs},
		{rule: "users are no structs", rspec: good, users: strs("alice"), want: am.BadArgs},
		{rule: "a user without keys member", rspec: good, users: []xmlrpc.Value{xmlrpc.Struct{opt("urn", alice.urn.String())}}, want: am.BadArgs},
		{rule: "a key that cannot work", rspec: good, users: []xmlrpc.Value{user(alice.urn.String(), testKey, "junk")}, want: am.BadArgs},
		{rule: "too many users", rspec: good, users: crowd, want: am.BadArgs},
		{rule: "geni_end_time in the past", rspec: good, users: none, options: xmlrpc.Struct{opt("geni_end_time", s.at(-time.Hour))}, want: am.BadArgs, detail: am.OutOfRange},
		{rule: "geni_end_time is no time", rspec: good, users: none, options: xmlrpc.Struct{opt("geni_end_time", "soon")}, want: am.BadArgs},
		{rule: "another RSpec version", rspec: `<rspec xmlns="http://www.protogeni.net/resources/rspec/2" type="request"/>`, users: none, want: am.BadVersion},
		{rule: "more than there is", rspec: request(many...), users: none, want: am.TooBig, detail: am.InsufficientNodes},
		{rule: "more bandwidth than there is", rspec: link(`<property source_id="a:0" dest_id="b:0" capacity="2000000"/>`), users: none, want: am.TooBig, detail: am.InsufficientBandwidth},
		{rule: "alone where another slice is", rspec: request(on("h1", "a", ` exclusive="true"/>`)), users: none, want: am.Refused},
		{rule: "a restricted VLAN", rspec: link(`<link_shared_vlan xmlns="http://www.protogeni.net/resources/rspec/ext/shared-vlan/1" name="closed"/>`), users: none, want: am.Refused},
		{rule: "no node", rspec: request(), users: none, want: am.SearchFailed},
		{rule: "nodes of others only", rspec: request(`<node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), users: none, want: am.SearchFailed},
		{rule: "an unknown sliver type", rspec: request(`<node client_id="a"/>`, `<node client_id="b"><sliver_type name="quantum"/></node>`), users: none, want: am.SearchFailed},
		{rule: "an unknown component", rspec: request(`<node client_id="a"/>`, on("h9", "b", "/>")), users: none, want: am.SearchFailed},
		{rule: "a type of link that is not made here", rspec: link(`<link_type name="stitched"/>`), users: none, want: am.Unsupported},
		{rule: "no tag is left", rspec: link(""), users: none, want: am.NoVLAN, detail: am.VLANUnavailable},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if tt.creds == nil {
				tt.creds = strs(x.cred)
			}
			if tt.options == nil {
				tt.options = xmlrpc.Struct{}
			}
			a := x.call2("CreateSliver", x.slice, tt.creds, tt.rspec, tt.users, tt.options).want(t, tt.rule, tt.want)
			if tt.detail != am.NoDetail && a.detail != int(tt.detail) {
				t.Errorf("am_code %d, want %d", a.detail, tt.detail)
			}
			x.v2("SliverStatus").want(t, "SliverStatus", am.SearchFailed)
			x.v3("Status").want(t, "Status", am.SearchFailed)
			if after := s.everything(t); after != before {
				t.Errorf("the store has changed: %s, was %s", after, before)
			}
			x.create(good).want(t, "a right one", am.Success)
			x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success)
			s.settle()
		})
	}
}

// TestCreateSliverIsOneWrite: between Allocate, Provision and start there is no
// moment at which the power can fail. CreateSliver writes once; where that
// write fails nothing is there, neither now nor after the next start.
func TestCreateSliverIsOneWrite(t *testing.T) {
	writes, broken := 0, false
	s := setting{fault: func() error {
		writes++
		if broken {
			return errors.New("the power is off")
		}
		return nil
	}}.site(t)
	x := s.user("alice").own("s1", 24*time.Hour)
	broken = true
	writes = 0
	x.create(request(node("a"), node("b"))).want(t, "without power", am.DBError)
	s.wantNothing(t, "without power")
	x.v2("SliverStatus").want(t, "SliverStatus", am.SearchFailed)
	broken = false
	if writes != 1 {
		t.Errorf("CreateSliver tried %d writes, want 1", writes)
	}
	writes = 0
	x.create(request(node("a"), node("b"))).want(t, "with power", am.Success)
	if writes != 1 {
		t.Errorf("CreateSliver wrote %d times, want once", writes)
	}
	// What that one write holds is the whole: two slivers with their tasks, to be
	// made and to be on.
	err := s.store.Read(func(v *store.View) error {
		return v.Slivers(func(m am.Sliver) bool {
			task, _, err := v.Task(m.URN)
			if err != nil || task.Goal != am.GoalMake || task.Generation != m.Generation || !m.Desired.Present || !m.Desired.On || m.Status.Allocation != am.Provisioned {
				t.Errorf("sliver %+v, task %+v, %v", m, task, err)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	x.wantWords(t, "written", "configuring", "a", "configuring", "b", "configuring")
}

// TestUsersOfVersion2 is the fourth argument: it may be empty, and must be there.
func TestUsersOfVersion2(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	x := alice.own("s1", 24*time.Hour)
	resp := s.api.Serve(t.Context(), Version2, Request{Chain: alice.chain, Body: callBody(t, "CreateSliver", x.slice, strs(x.cred), request(node("a")))})
	if !resp.Event.Fault {
		t.Errorf("without users and options: %+v, want the fault for a wrong number of parameters", resp.Event)
	}
	x.call2("CreateSliver", x.slice, strs(x.cred), request(node("a")), []xmlrpc.Value{}).want(t, "without options, as jFed may", am.Success)
	s.settle()
	if m := x.list2().value.(string); strings.Contains(m, "<login") || x.words(t)[""] != "ready" {
		t.Errorf("without users nobody can log in, and the slice is ready: %v\n%s", x.words(t), m)
	}
	x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success)
	s.settle()
	const bob = "urn:publicid:IDN+other.example.org:project+user+bob"
	x.v2("CreateSliver", request(node("a")), []xmlrpc.Value{user(alice.urn.String(), testKey), user(bob, testKey), user("urn:publicid:IDN+example.org+user+none")}).want(t, "three users", am.Success)
	s.settle()
	if m := x.list2().value.(string); strings.Count(m, "<login") != 2 || !strings.Contains(m, `username="alice"`) || !strings.Contains(m, `username="bob"`) {
		t.Errorf("two users with keys:\n%s", m)
	}
}

func callBody(t testing.TB, method string, params ...xmlrpc.Value) []byte {
	t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// everything says in a line what the store holds.
func (s *site) everything(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	err := s.store.Read(func(v *store.View) error {
		return errors.Join(
			v.Slices(func(x am.Slice) bool { fmt.Fprintf(&b, "slice %s; ", x.URN.Name); return true }),
			v.Slivers(func(x am.Sliver) bool {
				fmt.Fprintf(&b, "sliver %s %s gen %d; ", x.Slice.Name, x.ClientID, x.Generation)
				return true
			}),
			v.Tasks(func(x am.Task) bool { fmt.Fprintf(&b, "task %s; ", x.Goal); return true }),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (s *site) wantNothing(t testing.TB, when string) {
	t.Helper()
	if left := s.everything(t); left != "" {
		t.Errorf("%s is left: %s", when, left)
	}
}
