package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// extensionsEverywhere are those that every site has with a shared component.
var extensionsEverywhere = map[string][]xmlrpc.Value{
	"geni_request_rspec_versions": {"http://www.geni.net/resources/rspec/ext/user/1", "http://jfed.iminds.be/proxy/1.0", "http://www.protogeni.net/resources/rspec/ext/emulab/1"},
	"geni_ad_rspec_versions":      {"http://www.geni.net/resources/rspec/ext/opstate/1", "http://www.protogeni.net/resources/rspec/ext/emulab/1"},
}

func TestGetVersion(t *testing.T) {
	s := newSite(t)
	stranger := &caller{site: s}
	for _, params := range [][]xmlrpc.Value{{}, {xmlrpc.Struct{}}, {xmlrpc.Struct{opt("geni_speaking_for", "x")}}} {
		a := stranger.call("GetVersion", params...).want(t, "GetVersion", am.Success)
		if get(a.top, "geni_api") != 3 || get(a.value, "geni_api") != 3 {
			t.Error("geni_api must be there twice")
		}
		if u := get(get(a.value, "geni_api_versions"), "3"); u != "https://am.example.org:8443/am/3.0" {
			t.Errorf("URL of version 3: %v", u)
		}
		for _, list := range []string{"geni_request_rspec_versions", "geni_ad_rspec_versions"} {
			v := get(a.value, list).([]xmlrpc.Value)[0]
			for _, m := range []string{"type", "version", "schema", "namespace"} {
				if x, ok := get(v, m).(string); !ok || x == "" {
					t.Errorf("%s.%s = %v", list, m, x)
				}
			}
			known, ok := get(v, "extensions").([]xmlrpc.Value)
			if !ok {
				t.Errorf("%s has no extensions", list)
			}
			for i, x := range known {
				if x, ok := x.(string); !ok || !strings.HasPrefix(x, "http://") || slices.Contains(known[:i], xmlrpc.Value(x)) {
					t.Errorf("%s has extensions %v", list, known)
				}
			}
			if want := extensionsEverywhere[list]; slices.ContainsFunc(want, func(x xmlrpc.Value) bool { return !slices.Contains(known, x) }) {
				t.Errorf("%s has extensions %v without some of %v", list, known, want)
			}
		}
		if get(a.value, "geni_single_allocation") != 0 || get(a.value, "geni_allocate") != "geni_many" {
			t.Errorf("single_allocation %v, allocate %v", get(a.value, "geni_single_allocation"), get(a.value, "geni_allocate"))
		}
		if list := get(a.value, "geni_credential_types").([]xmlrpc.Value); len(list) == 0 {
			t.Error("no credential types")
		}
	}
}

// TestLife is the order of calls of the automated jFed test, and after it omni's
// deletion of what is gone.
func TestLife(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)

	alice.call("ListResources", creds(), opts()).want(t, "ListResources without credentials", am.BadArgs)
	ad := alice.call("ListResources", creds(alice.user), opts()).want(t, "ListResources", am.Success)
	for _, want := range []string{`type="advertisement"`, "ad.xsd", `component_name="pc1"`, `now="true"`, "rspec_opstate", "geni_update_users"} {
		if !strings.Contains(ad.value.(string), want) {
			t.Errorf("the advertisement lacks %s", want)
		}
	}
	alice.call("Status", strs(slice), creds(alice.user), opts()).want(t, "Status with the user credential", am.Forbidden)
	alice.call("Status", strs(slice), creds(cred), opts()).want(t, "Status of an empty slice", am.SearchFailed)
	for _, compressed := range []bool{false, true} {
		a := alice.call("Describe", strs(slice), creds(cred), opts(opt("geni_compressed", compressed))).want(t, "Describe of an empty slice", am.Success)
		m := get(a.value, "geni_rspec").(string)
		if compressed {
			m = unzip(t, m)
		}
		if !strings.Contains(m, `type="manifest"`) || get(a.value, "geni_urn") != slice || len(a.slivers(t)) != 0 {
			t.Errorf("empty manifest: %s, %v", m, a.value)
		}
	}

	a := alice.call("Allocate", slice, creds(cred), request(node("n0")), xmlrpc.Struct{}).want(t, "Allocate", am.Success)
	sl := a.slivers(t)
	if len(sl) != 1 || get(sl[0], "geni_allocation_status") != "geni_allocated" || get(sl[0], "geni_client_id") != "n0" {
		t.Fatalf("allocated: %v", sl)
	}
	sliver := get(sl[0], "geni_sliver_urn").(string)
	manifest := get(a.value, "geni_rspec").(string)
	for _, want := range []string{`type="manifest"`, "manifest.xsd", `sliver_id="` + sliver + `"`, "urn:publicid:IDN+example.org+node+pc1", `client_id="n0"`} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %s:\n%s", want, manifest)
		}
	}

	a = alice.call("Provision", strs(sliver), creds(cred), opts(opt("geni_users", []xmlrpc.Value{user(alice.urn.String(), testKey)}))).want(t, "Provision", am.Success)
	sl = a.slivers(t)
	if len(sl) != 1 || get(sl[0], "geni_sliver_urn") != sliver || get(sl[0], "geni_allocation_status") != "geni_provisioned" || get(sl[0], "geni_operational_status") != "geni_pending_allocation" {
		t.Fatalf("provisioned: %v", sl)
	}
	alice.call("PerformOperationalAction", strs(sliver), creds(cred), "geni_start", opts()).want(t, "start while pending", am.Unsupported)
	s.settle()
	state := func(want string) {
		t.Helper()
		a := alice.call("Status", strs(sliver), creds(cred), opts()).want(t, "Status", am.Success)
		if got := get(a.slivers(t)[0], "geni_operational_status"); got != want || get(a.value, "geni_urn") != slice {
			t.Fatalf("state %v of %v, want %s", got, get(a.value, "geni_urn"), want)
		}
	}
	state("geni_notready")
	for range 2 { // the second one finds it configuring
		a = alice.call("PerformOperationalAction", strs(sliver), creds(cred), "geni_start", opts()).want(t, "start", am.Success)
		if n := len(a.slivers(t)); n != 1 {
			t.Fatalf("start answered %d slivers", n)
		}
	}
	state("geni_configuring")
	s.settle()
	state("geni_ready")
	alice.call("PerformOperationalAction", strs(slice), creds(cred), "geni_start", opts()).want(t, "start when ready", am.Success)

	a = alice.call("Describe", strs(slice), creds(cred), opts()).want(t, "Describe", am.Success)
	manifest = get(a.value, "geni_rspec").(string)
	for _, want := range []string{`authentication="ssh-keys"`, `hostname="pc1.example.org"`, `port="22"`, `username="alice"`, "services_user", testKey[:60], `ipv4="192.0.2.7"`} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %s:\n%s", want, manifest)
		}
	}

	// Renew answers and shows exactly the text that was sent.
	expires, _ := time.Parse(time.RFC3339, get(a.slivers(t)[0], "geni_expires").(string))
	later := expires.Add(5 * time.Minute).Format(time.RFC3339)
	alice.call("Renew", strs(slice), creds(cred), later, opts()).want(t, "Renew", am.Success)
	a = alice.call("Status", strs(slice), creds(cred), opts())
	if got := get(a.slivers(t)[0], "geni_expires"); got != later {
		t.Errorf("renewed to %v, want %s", got, later)
	}

	sl = alice.call("Delete", strs(slice), creds(cred), opts()).want(t, "Delete", am.Success).slivers(t)
	if len(sl) != 1 || get(sl[0], "geni_allocation_status") != "geni_unallocated" || get(sl[0], "geni_expires") != later {
		t.Fatalf("deleted: %v", sl)
	}
	// Gone for the caller at once, also while the provider cleans up.
	for range 2 {
		alice.call("Delete", strs(slice), creds(cred), opts()).want(t, "second Delete", am.SearchFailed)
		alice.call("Status", strs(sliver), creds(cred), opts()).want(t, "Status of the deleted", am.SearchFailed)
		s.settle()
	}
	left, err := s.store.Slivers()
	if err != nil || len(left) != 0 {
		t.Errorf("left in the store: %v, %v", left, err)
	}
}

func TestURNsArgument(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	s1, c1 := alice.slice("s1", 24*time.Hour)
	s2, c2 := alice.slice("s2", 24*time.Hour)
	sliver := func(slice, cred string) string {
		return get(alice.call("Allocate", slice, creds(cred), request(node("n")), opts()).want(t, "Allocate", am.Success).slivers(t)[0], "geni_sliver_urn").(string)
	}
	a, b := sliver(s1, c1), sliver(s2, c2)
	both := creds(c1, c2)
	for _, tt := range []struct {
		rule string
		urns xmlrpc.Value
		want am.Code
	}{
		{"one slice", strs(s1), am.Success},
		{"the same slice twice", strs(s1, strings.ToUpper(s1[:12])+s1[12:]), am.Success},
		{"one sliver", strs(a), am.Success},
		{"the same sliver twice", strs(a, a), am.Success},
		{"not an array", s1, am.BadArgs},
		{"empty", strs(), am.BadArgs},
		{"no string", []xmlrpc.Value{1}, am.BadArgs},
		{"no URN", strs("hello"), am.BadArgs},
		{"a node", strs("urn:publicid:IDN+example.org+node+pc1"), am.BadArgs},
		{"two slices", strs(s1, s2), am.BadArgs},
		{"slice and sliver", strs(s1, a), am.BadArgs},
		{"slivers of two slices", strs(a, b), am.BadArgs},
		{"unknown sliver", strs("urn:publicid:IDN+example.org+sliver+nope"), am.SearchFailed},
		{"one known, one not", strs(a, "urn:publicid:IDN+example.org+sliver+nope"), am.SearchFailed},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			alice.call("Status", tt.urns, both, opts()).want(t, tt.rule, tt.want)
		})
	}
	mallory := s.user("mallory")
	_, cm := mallory.slice("m", 24*time.Hour)
	foreign := mallory.call("Status", strs(a), creds(cm), opts()).want(t, "another's sliver", am.Forbidden)
	if strings.Contains(foreign.output, s1) || !strings.Contains(foreign.output, a) || foreign.detail != int(am.CredentialMismatch) {
		t.Errorf("whose sliver it is, is told to one without the right: %d %q", foreign.detail, foreign.output)
	}
	mallory.call("Delete", strs(s1), creds(c1), opts()).want(t, "another's credential", am.Forbidden)
	mallory.call("Delete", strs(s1), creds(cm), opts()).want(t, "a credential of another slice", am.Forbidden)
	alice.call("Status", strs(s1), both, opts()).want(t, "afterwards", am.Success)
}

func TestGeniMany(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 24*time.Hour)
	first := alice.call("Allocate", slice, creds(cred), request(node("a"), node("b")), opts()).want(t, "first", am.Success)
	alice.call("Allocate", slice, creds(cred), request(node("b"), node("c")), opts()).want(t, "a client_id again", am.Exists)
	long := strings.Repeat("long", 64) // the longest that is read
	third := alice.call("Allocate", slice, creds(cred), request(node(long)), opts()).want(t, "a long client_id", am.Success)
	if a := alice.call("Allocate", slice, creds(cred), request(node(long)), opts()).want(t, "it again", am.Exists); len(a.output) > 400 {
		t.Errorf("the refusal repeats a long client_id: %d bytes", len(a.output))
	}
	alice.call("Delete", strs(get(third.slivers(t)[0], "geni_sliver_urn").(string)), creds(cred), opts()).want(t, "Delete it", am.Success)
	second := alice.call("Allocate", slice, creds(cred), request(node("c")), opts()).want(t, "second", am.Success)
	if m := get(second.value, "geni_rspec").(string); strings.Contains(m, `client_id="a"`) || !strings.Contains(m, `client_id="c"`) {
		t.Errorf("the second manifest is not of the second call only:\n%s", m)
	}
	all := alice.call("Describe", strs(slice), creds(cred), opts()).want(t, "Describe", am.Success)
	if n := len(all.slivers(t)); n != 3 {
		t.Errorf("%d slivers, want 3", n)
	}
	m := get(all.value, "geni_rspec").(string)
	for _, id := range []string{"a", "b", "c"} {
		if strings.Count(m, `client_id="`+id+`"`) != 1 {
			t.Errorf("node %s is not once in the manifest:\n%s", id, m)
		}
	}
	one := get(first.slivers(t)[1], "geni_sliver_urn").(string)
	m = get(alice.call("Describe", strs(one), creds(cred), opts()).value, "geni_rspec").(string)
	if strings.Contains(m, `client_id="a"`) || !strings.Contains(m, `client_id="b"`) {
		t.Errorf("the manifest of one sliver:\n%s", m)
	}
	alice.call("Delete", strs(one), creds(cred), opts()).want(t, "Delete one", am.Success)
	alice.call("Allocate", slice, creds(cred), request(node("b")), opts()).want(t, "the name is free again", am.Success)
}

func TestAllOrNothingAndBestEffort(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 24*time.Hour)
	sl := alice.call("Allocate", slice, creds(cred), request(node("a"), node("b")), opts()).slivers(t)
	a, b := get(sl[0], "geni_sliver_urn").(string), get(sl[1], "geni_sliver_urn").(string)
	alice.call("Provision", strs(a), creds(cred), opts()).want(t, "Provision a", am.Success)

	alice.call("Provision", strs(a, b), creds(cred), opts()).want(t, "a again and b", am.Unsupported)
	st := alice.call("Status", strs(b), creds(cred), opts()).slivers(t)
	if get(st[0], "geni_allocation_status") != "geni_allocated" {
		t.Error("a refused call changed b")
	}
	const nope = "urn:publicid:IDN+example.org+sliver+nope"
	res := alice.call("Provision", strs(a, b, nope), creds(cred), opts(opt("geni_best_effort", true))).want(t, "best effort", am.Success).slivers(t)
	if len(res) != 3 || get(res[0], "geni_error") == "" || get(res[1], "geni_error") != "" || get(res[1], "geni_allocation_status") != "geni_provisioned" || get(res[2], "geni_error") == "" {
		t.Errorf("best effort: %v", res)
	}
	alice.call("Provision", strs(a, b), creds(cred), opts(opt("geni_best_effort", "true"))).want(t, "best effort, all refused", am.Unsupported)
	alice.call("Provision", strs(slice), creds(cred), opts()).want(t, "nothing left to provision", am.SearchFailed)
}

func TestDefaultLeaseLeavesRoomToRenew(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 3*time.Hour)
	alice.call("Allocate", slice, creds(cred), request(node("a")), opts())
	sl := alice.call("Provision", strs(slice), creds(cred), opts()).slivers(t)
	if got, want := get(sl[0], "geni_expires"), s.clock().Add(3*time.Hour-10*time.Minute).Format(time.RFC3339); got != want {
		t.Errorf("lease until %v, want %s", got, want)
	}
}

func TestShutdown(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 24*time.Hour)
	alice.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "Allocate", am.Success)
	alice.call("Shutdown", "urn:publicid:IDN+example.org+user+x", creds(cred), opts()).want(t, "not a slice", am.BadArgs)
	alice.call("Shutdown", slice, creds(alice.user), opts()).want(t, "without the right", am.Forbidden)
	a := alice.call("Shutdown", slice, creds(cred)).want(t, "Shutdown without options", am.Success)
	if a.value != true {
		t.Errorf("value %v", a.value)
	}
	alice.call("Shutdown", slice, creds(cred), opts()).want(t, "again", am.Success)
	for _, m := range []string{"Describe", "Status", "Provision", "Delete"} {
		alice.call(m, strs(slice), creds(cred), opts()).want(t, m, am.Forbidden)
	}
	alice.call("Allocate", slice, creds(cred), request(node("b")), opts()).want(t, "Allocate", am.Forbidden)
	s.pass(12 * time.Hour) // its lease is over, but it is kept for inspection
	left, err := s.store.Slivers()
	if err != nil || len(left) != 1 || !left[0].Live(s.clock()) {
		t.Errorf("the frozen sliver is not kept: %v, %v", left, err)
	}
}

func TestFaults(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	for _, tt := range []struct {
		rule, body string
		fault      bool
	}{
		{"malformed XML", "<methodCall><methodName>GetVersion", true},
		{"unknown method", "<methodCall><methodName>Update</methodName></methodCall>", true},
		{"too many parameters", "<methodCall><methodName>GetVersion</methodName><params><param><value>a</value></param><param><value>b</value></param></params></methodCall>", true},
		{"too few parameters", "<methodCall><methodName>Describe</methodName><params><param><value>a</value></param></params></methodCall>", true},
		{"a wrong type is no fault", "<methodCall><methodName>GetVersion</methodName><params><param><value>a</value></param></params></methodCall>", false},
	} {
		body := s.api.Serve(t.Context(), 3, Request{Chain: alice.chain, Body: []byte(tt.body)}).Body
		_, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{})
		if (err != nil) != tt.fault {
			t.Errorf("%s: %v", tt.rule, err)
		}
	}
}

func TestCallerNobodyVouchesFor(t *testing.T) {
	s, other := newSite(t), newSite(t)
	other.trial = newAuthority(t, t.TempDir(), other.now)
	stranger := other.user("mallory")
	slice, cred := stranger.slice("s1", time.Hour)
	stranger.site = s
	stranger.call("GetVersion").want(t, "GetVersion", am.Success)
	a := stranger.call("ListResources", creds(stranger.user), opts()).want(t, "ListResources", am.Forbidden)
	if a.detail != int(am.CredentialUntrusted) {
		t.Errorf("am_code %d, want %d: %s", a.detail, am.CredentialUntrusted, a.output)
	}
	stranger.call("ListResources", creds(), opts()).want(t, "ListResources without credentials", am.Forbidden)
	stranger.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "Allocate", am.Forbidden)
	nobody := &caller{site: s}
	nobody.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "without a certificate", am.Forbidden)
}

func TestSpeakingFor(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	alice.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "Allocate", am.Success)
	alice.call("Status", strs(slice), strs(), opts()).want(t, "an empty list", am.Forbidden)
	alice.call("Status", strs(slice), creds(cred), opts(opt("geni_speaking_for", alice.urn.String()))).want(t, "speaking for oneself", am.Success)
	alice.call("Status", strs(slice), creds(cred), opts(opt("geni_speaking_for", "urn:publicid:IDN+example.org+user+bob"))).want(t, "speaking for another", am.Forbidden)
}

func TestAdvertisementForms(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	alice.call("ListResources", creds(alice.user), xmlrpc.Struct{}).want(t, "no version", am.BadArgs)
	alice.call("ListResources", creds(alice.user), opts(opt("geni_slice_urn", slice))).want(t, "slice_urn is of version 2", am.BadArgs)
	text := func(gz bool, o ...xmlrpc.Member) string {
		t.Helper()
		body, _ := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: "ListResources", Params: []xmlrpc.Value{creds(alice.user), opts(o...)}})
		a := s.serve(Request{Chain: alice.chain, Body: body, AcceptGzip: gz}).want(t, "ListResources", am.Success)
		if want := gz && len(o) == 0; a.resp.Gzip != want { // what is compressed already is not compressed again
			t.Errorf("gzip %v, want %v", a.resp.Gzip, want)
		}
		return a.value.(string)
	}
	full := text(false)
	if got := text(true); got != full {
		t.Error("the gzip body differs")
	}
	if got := unzip(t, text(true, opt("geni_compressed", 1))); strings.Count(got, "<node ") != 24 {
		t.Errorf("%d nodes, want 24", strings.Count(got, "<node "))
	}
	alice.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "Allocate", am.Success)
	if got := text(false); strings.Count(got, `now="false"`) != 1 || strings.Count(got, "<node ") != 24 {
		t.Errorf("%d nodes are held, want 1 of 24", strings.Count(got, `now="false"`))
	}
	if got := text(false, opt("geni_available", true)); strings.Contains(got, `now="false"`) || strings.Count(got, "<node ") != 23 {
		t.Errorf("%d nodes are free, want 23", strings.Count(got, "<node "))
	}
}

// TestSubstitutedImageIsTold: the site takes its default image for one it does
// not have, and says so; the request keeps its own word in the manifest.
func TestSubstitutedImageIsTold(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	image := func(name string) string {
		return `<node client_id="` + name + `"><sliver_type name="raw-pc"><disk_image name="` + name + `"/></sliver_type></node>`
	}
	a := alice.call("Allocate", slice, creds(cred), request(image("ubuntu-24"), image("beos")), opts()).want(t, "Allocate", am.Success)
	if !strings.Contains(a.output, `"beos"`) || strings.Contains(a.output, "ubuntu") || !strings.Contains(a.output, "debian-12") {
		t.Errorf("output: %q", a.output)
	}
	if !strings.Contains(get(a.value, "geni_rspec").(string), `<disk_image name="beos"/>`) {
		t.Error("the client's disk image was rewritten")
	}
}

func TestAllocateRefusals(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	pc1 := urn.URN{Authority: authority, Type: urn.Node, Name: "pc1"}.String()
	alice.call("Allocate", slice, creds(cred), request(`<node client_id="held" component_id="`+pc1+`"/>`), opts()).want(t, "bound", am.Success)
	many := make([]string, 21)
	for i := range many {
		many[i] = node(string(rune('a' + i)))
	}
	for _, tt := range []struct {
		rule, rspec string
		want        am.Code
		says        string
	}{
		{"not XML", "hello", am.BadArgs, ""},
		{"empty", "", am.BadArgs, ""},
		{"not an RSpec", "<x/>", am.BadArgs, ""},
		{"a manifest", strings.Replace(request(node("x")), `"request"`, `"manifest"`, 1), am.BadArgs, "request"},
		{"another RSpec version", `<rspec xmlns="http://www.protogeni.net/resources/rspec/2" type="request"/>`, am.BadVersion, ""},
		{"no nodes", request(), am.SearchFailed, "node"},
		{"only another's nodes", request(`<node client_id="x" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), am.SearchFailed, ""},
		{"no client_id", request(`<node/>`), am.BadArgs, "client_id"},
		{"client_id twice", request(node("x"), node("x")), am.BadArgs, "x"},
		{"unknown sliver type", request(`<node client_id="x"><sliver_type name="quantum"/></node>`), am.SearchFailed, "raw-pc"},
		{"unknown component", request(`<node client_id="x" component_id="urn:publicid:IDN+example.org+node+pc99"/>`), am.SearchFailed, "pc99"},
		{"held component", request(`<node client_id="x" component_id="` + pc1 + `"/>`), am.TooBig, "pc1"},
		{"more than there is", request(many...), am.TooBig, ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			a := alice.call("Allocate", slice, creds(cred), tt.rspec, opts()).want(t, tt.rule, tt.want)
			if !strings.Contains(a.output, tt.says) {
				t.Errorf("output %q does not name %q", a.output, tt.says)
			}
		})
	}
	if left, _ := s.store.Slivers(); len(left) != 1 {
		t.Errorf("%d slivers after refusals, want 1", len(left))
	}
}

// TestWishEndsWithRenew: a wish of Allocate that Renew has overtaken must not
// end the lease that Provision gives.
func TestWishEndsWithRenew(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)
	at := func(d time.Duration) string { return s.clock().Add(d).Format(time.RFC3339) }
	alice.call("Allocate", slice, creds(cred), request(node("a")), xmlrpc.Struct{opt("geni_end_time", at(5*time.Minute))}).want(t, "Allocate", am.Success)
	alice.call("Renew", strs(slice), creds(cred), at(time.Hour), opts()).want(t, "Renew", am.Success)
	s.pass(20 * time.Minute)
	sl := alice.call("Provision", strs(slice), creds(cred), opts()).want(t, "Provision", am.Success).slivers(t)
	if got := get(sl[0], "geni_expires"); got != at(24*time.Hour) {
		t.Errorf("provisioned until %v, want %s", got, at(24*time.Hour))
	}
}

// TestLinkNameIsFreeWithItsNodes: a link that no node holds any more can be
// asked for again.
func TestLinkNameIsFreeWithItsNodes(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", time.Hour)
	end := func(id string) string {
		return `<node client_id="` + id + `"><sliver_type name="raw-pc"/><interface client_id="` + id + `:0"/></node>`
	}
	link := func(a, b string) string {
		return `<link client_id="lan"><interface_ref client_id="` + a + `:0"/><interface_ref client_id="` + b + `:0"/></link>`
	}
	sl := alice.call("Allocate", slice, creds(cred), request(end("a"), end("b"), end("c"), link("a", "b")), opts()).want(t, "Allocate", am.Success).slivers(t)
	alice.call("Allocate", slice, creds(cred), request(end("d"), end("e"), link("d", "e")), opts()).want(t, "the name is held", am.Exists)
	alice.call("Delete", strs(get(sl[0], "geni_sliver_urn").(string)), creds(cred), opts()).want(t, "Delete a", am.Success)
	alice.call("Allocate", slice, creds(cred), request(end("d"), end("e"), link("d", "e")), opts()).want(t, "b holds it still", am.Exists)
	alice.call("Delete", strs(get(sl[1], "geni_sliver_urn").(string)), creds(cred), opts()).want(t, "Delete b", am.Success)
	alice.call("Allocate", slice, creds(cred), request(end("d"), end("e"), link("d", "e")), opts()).want(t, "nobody holds it", am.Success)
}

// TestOldErrorIsNotTheCalls: what once failed is shown by Status, and is not
// the error of a Renew or Delete that succeeds.
func TestOldErrorIsNotTheCalls(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 24*time.Hour)
	alice.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "Allocate", am.Success)
	alice.call("Provision", strs(slice), creds(cred), opts()).want(t, "Provision", am.Success)
	err := s.store.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		return cs, v.Slivers(func(x am.Sliver) bool {
			x.Status.Operational, x.Error = am.Failed, "it broke"
			cs.PutSliver(x)
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	says := func(what string, a answer, want string) {
		t.Helper()
		if got := get(a.want(t, what, am.Success).slivers(t)[0], "geni_error"); got != want {
			t.Errorf("%s: geni_error %q, want %q", what, got, want)
		}
	}
	says("Status", alice.call("Status", strs(slice), creds(cred), opts()), "it broke")
	says("Renew", alice.call("Renew", strs(slice), creds(cred), s.clock().Add(time.Hour).Format(time.RFC3339), opts()), "")
	says("Delete", alice.call("Delete", strs(slice), creds(cred), opts()), "")
}
