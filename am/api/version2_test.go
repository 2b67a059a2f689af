package api

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

func TestGetVersion2(t *testing.T) {
	stranger := &caller{site: newSite(t)}
	for _, params := range [][]xmlrpc.Value{{}, {xmlrpc.Struct{}}} {
		a := stranger.call2("GetVersion", params...).want(t, "GetVersion", am.Success)
		if get(a.top, "geni_api") != 2 || get(a.value, "geni_api") != 2 {
			t.Errorf("geni_api %v and %v, want 2 twice", get(a.top, "geni_api"), get(a.value, "geni_api"))
		}
		if a.output != "" {
			t.Errorf("output %q", a.output)
		}
		for version, want := range map[string]string{"2": "https://am.example.org:8443/am/2.0", "3": "https://am.example.org:8443/am/3.0"} {
			if u := get(get(a.value, "geni_api_versions"), version); u != want {
				t.Errorf("URL of version %s: %v", version, u)
			}
		}
		for _, list := range []string{"geni_request_rspec_versions", "geni_ad_rspec_versions"} {
			v := get(a.value, list).([]xmlrpc.Value)[0]
			if get(v, "type") != "GENI" || get(v, "version") != "3" {
				t.Errorf("%s: %v", list, v)
			}
		}
		for _, name := range []string{"geni_single_allocation", "geni_allocate", "geni_credential_types"} {
			if v := get(a.value, name); v != nil {
				t.Errorf("%s is of version 3: %v", name, v)
			}
		}
	}
}

func TestMethodsOfTheOtherVersion(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		version int
		method  string
		says    string
	}{
		{Version2, "Allocate", "v3 has it, at https://am.example.org:8443/am/3.0"},
		{Version3, "CreateSliver", "v2 has it, at https://am.example.org:8443/am/2.0"},
		{Version2, "Describe", "v3 has it"},
		{Version2, "ListImages", `no method "ListImages"`},
	} {
		resp := s.api.Serve(t.Context(), tt.version, Request{Body: []byte("<methodCall><methodName>" + tt.method + "</methodName></methodCall>")})
		_, err := xmlrpc.DecodeResponse(resp.Body, xmlrpc.Limits{})
		if fault, ok := errors.AsType[*xmlrpc.Fault](err); !ok || !strings.Contains(fault.Text, tt.says) {
			t.Errorf("%s in version %d: %v", tt.method, tt.version, err)
		}
	}
}

func TestListResources2(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	x := alice.own("s1", 24*time.Hour)
	list := func(rule string, credentials []xmlrpc.Value, o xmlrpc.Struct, want am.Code) answer {
		t.Helper()
		return alice.call2("ListResources", credentials, o).want(t, rule, want)
	}
	user := strs(alice.user)
	full := list("the advertisement", user, opts(), am.Success).value.(string)
	if full != alice.call("ListResources", creds(alice.user), opts()).value {
		t.Error("the versions advertise differently")
	}
	if got := unzip(t, list("compressed", user, opts(opt("geni_compressed", true)), am.Success).value.(string)); got != full {
		t.Error("the compressed advertisement differs")
	}
	list("a slice credential is one's own, too", strs(x.cred), opts(), am.Success)
	list("a credential in a struct", creds(alice.user), opts(), am.Success)
	list("no credential", strs(), opts(), am.BadArgs)
	list("no version", user, xmlrpc.Struct{}, am.BadArgs)
	list("another version", user, xmlrpc.Struct{opt("geni_rspec_version", xmlrpc.Struct{opt("type", "ProtoGENI"), opt("version", "2")})}, am.BadVersion)
	list("not a slice", user, opts(opt("geni_slice_urn", alice.urn.String())), am.BadArgs)
	list("a slice with the user credential", user, opts(opt("geni_slice_urn", x.slice)), am.Forbidden)
	list("a slice without credential", strs(), opts(opt("geni_slice_urn", x.slice)), am.Forbidden)
	x.list2().want(t, "an unknown slice", am.SearchFailed)

	x.create(request(node("a"))).want(t, "CreateSliver", am.Success)
	manifest := x.list2().want(t, "the manifest", am.Success).value.(string)
	if !strings.Contains(manifest, `type="manifest"`) || !strings.Contains(manifest, `client_id="a"`) {
		t.Errorf("the manifest:\n%s", manifest)
	}
	// geni_available has no meaning for a slice: all of it is told.
	if got := unzip(t, x.list2(opt("geni_compressed", 1), opt("geni_available", true)).want(t, "compressed", am.Success).value.(string)); got != manifest {
		t.Errorf("compressed and available:\n%s", got)
	}
	free := list("available", user, opts(opt("geni_available", true)), am.Success).value.(string)
	if strings.Contains(free, `component_name="pc1"`) || strings.Count(free, "<node ") != 23 {
		t.Errorf("%d nodes are free, want all but pc1", strings.Count(free, "<node "))
	}
}

// TestVersion2Life is what omni does with a slice in version 2.
func TestVersion2Life(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	x := alice.own("s1", 48*time.Hour)
	x.v2("SliverStatus").want(t, "SliverStatus of an unknown slice", am.SearchFailed)
	x.v2("RenewSliver", s.at(time.Hour)).want(t, "RenewSliver of an unknown slice", am.SearchFailed)
	x.v2("DeleteSliver").want(t, "DeleteSliver of an unknown slice", am.SearchFailed)
	x.v2("Shutdown").want(t, "Shutdown of an unknown slice", am.SearchFailed)

	a := x.v2("CreateSliver", request(node("a"), node("b")), []xmlrpc.Value{user(alice.urn.String(), testKey)}).want(t, "CreateSliver", am.Success)
	manifest, ok := a.value.(string)
	if !ok {
		t.Fatalf("the manifest is %T", a.value)
	}
	root := regexp.MustCompile(`<rspec[^>]*>`).FindString(manifest)
	for _, want := range []string{`type="manifest"`, "manifest.xsd", `expires="` + s.at(24*time.Hour) + `"`} {
		if !strings.Contains(root, want) {
			t.Errorf("the root lacks %s: %s", want, root)
		}
	}
	if strings.Contains(root, `generated="`+s.at(24*time.Hour)) || !strings.Contains(root, `generated="`) {
		t.Errorf("expires must differ from generated: %s", root)
	}
	if n := len(regexp.MustCompile(`sliver_id="urn:publicid:IDN\+example\.org\+sliver\+[-a-zA-Z0-9_.]+"`).FindAllString(manifest, -1)); n != 2 {
		t.Errorf("%d sliver URNs:\n%s", n, manifest)
	}
	x.wantWords(t, "at once", "configuring", "a", "configuring", "b", "configuring")
	s.settle() // no action is needed
	x.wantWords(t, "made", "ready", "a", "ready", "b", "ready")
	manifest = x.list2().want(t, "ListResources", am.Success).value.(string)
	for _, want := range []string{`authentication="ssh-keys"`, `hostname="pc1.example.org"`, `port="22"`, `username="alice"`} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %s:\n%s", want, manifest)
		}
	}

	x.create(request(node("c"))).want(t, "CreateSliver again", am.Exists)
	x.wantWords(t, "after the refusal", "ready", "a", "ready", "b", "ready")

	if a := x.v2("DeleteSliver").want(t, "DeleteSliver", am.Success); a.value != true || a.output != "" {
		t.Errorf("DeleteSliver: %v %q", a.value, a.output)
	}
	for range 2 { // also while its provider cleans up
		x.v2("DeleteSliver").want(t, "DeleteSliver again", am.SearchFailed)
		x.v2("SliverStatus").want(t, "SliverStatus of the deleted", am.SearchFailed)
		x.list2().want(t, "ListResources of the deleted", am.SearchFailed)
		s.settle()
	}
	s.wantNothing(t, "after DeleteSliver")
}

func TestRenewSliver(t *testing.T) {
	s := newSite(t)
	x := s.user("alice").own("s1", 10*24*time.Hour)
	x.create(request(node("a"))).want(t, "CreateSliver", am.Success)
	expires := func() string { return get(x.v2("SliverStatus").value, "pg_expires").(string) }
	for _, tt := range []struct {
		rule, to string
		want     am.Code
		expires  string // afterwards; "" for unchanged
		output   string // exactly, on success
		options  []xmlrpc.Member
	}{
		{rule: "two days", to: s.at(48 * time.Hour), expires: s.at(48 * time.Hour)},
		{rule: "five days, as omni writes it", to: strings.Replace(s.at(120*time.Hour), "Z", "+00:00", 1), expires: s.at(120 * time.Hour)},
		{rule: "without an offset", to: strings.TrimSuffix(s.at(121*time.Hour), "Z"), expires: s.at(121 * time.Hour)},
		{rule: "beyond the credential", to: s.at(241 * time.Hour), want: am.Refused},
		{rule: "past", to: s.at(-time.Second), want: am.BadArgs},
		{rule: "no time", to: "soon", want: am.BadArgs},
		{rule: "shorter", to: s.at(time.Hour), expires: s.at(time.Hour)},
		{rule: "as long as possible within the limits", to: s.at(50 * time.Hour), expires: s.at(50 * time.Hour), output: s.at(50 * time.Hour), options: []xmlrpc.Member{opt("geni_extend_alap", true)}},
		{rule: "as long as possible beyond them", to: s.at(9999 * time.Hour), expires: s.at(240 * time.Hour), output: s.at(240 * time.Hour), options: []xmlrpc.Member{opt("geni_extend_alap", "true")}},
		{rule: "alap is no boolean", to: s.at(time.Hour), want: am.BadArgs, options: []xmlrpc.Member{opt("geni_extend_alap", "maybe")}},
	} {
		if tt.expires == "" {
			tt.expires = expires()
		}
		a := x.v2("RenewSliver", tt.to, xmlrpc.Struct(tt.options)).want(t, tt.rule, tt.want)
		if tt.want == am.Success && (a.value != true || a.output != tt.output) {
			t.Errorf("%s: value %v, output %q, want true and %q", tt.rule, a.value, a.output, tt.output)
		}
		if tt.want == am.Refused && (a.detail != int(am.OutOfRange) || !strings.Contains(a.output, s.at(240*time.Hour))) {
			t.Errorf("%s: am_code %d, %q names no latest time", tt.rule, a.detail, a.output)
		}
		if got := expires(); got != tt.expires {
			t.Errorf("%s: expires %s, want %s", tt.rule, got, tt.expires)
		}
	}
	// A credential that lasts longer shows the way on, and no further than the
	// site goes.
	_, longer := x.caller.slice("s1", 60*24*time.Hour)
	a := x.call2("RenewSliver", x.slice, strs(x.cred, longer), s.at(9999*time.Hour), xmlrpc.Struct{opt("geni_extend_alap", true)}).want(t, "with a longer credential", am.Success)
	if want := s.at(30 * 24 * time.Hour); a.output != want || expires() != want {
		t.Errorf("output %q, expires %s, want %s", a.output, expires(), want)
	}
}

// TestTheGraverMistakeIsTold2: of two mistakes in a call of version 2 the
// earlier one is told: shape, right, a slice that is shut down, one that is not
// there, options.
func TestTheGraverMistakeIsTold2(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	made, none, shut := alice.own("s1", 24*time.Hour), alice.own("s2", 24*time.Hour), alice.own("s3", 24*time.Hour)
	made.create(request(node("a"))).want(t, "CreateSliver", am.Success)
	shut.create(request(node("a"))).want(t, "CreateSliver", am.Success)
	shut.v2("Shutdown").want(t, "Shutdown", am.Success)
	good, past := s.at(time.Hour), s.at(-time.Hour)
	maybe := xmlrpc.Struct{opt("geni_extend_alap", "maybe")}
	noVersion := func(x owned) xmlrpc.Struct { return xmlrpc.Struct{opt("geni_slice_urn", x.slice)} }
	nobody := []xmlrpc.Value{}
	for _, tt := range []struct {
		rule   string
		method string
		params []xmlrpc.Value
		want   am.Code
	}{
		{"shape before right", "SliverStatus", []xmlrpc.Value{alice.urn.String(), strs(alice.user), xmlrpc.Struct{}}, am.BadArgs},
		{"shape before right", "RenewSliver", []xmlrpc.Value{made.slice, strs(alice.user), "soon", xmlrpc.Struct{}}, am.BadArgs},
		{"users before right", "CreateSliver", []xmlrpc.Value{none.slice, strs(alice.user), request(node("a")), "alice", xmlrpc.Struct{}}, am.BadArgs},
		{"right before shut down", "SliverStatus", []xmlrpc.Value{shut.slice, strs(made.cred), xmlrpc.Struct{}}, am.Forbidden},
		{"right before absence", "DeleteSliver", []xmlrpc.Value{none.slice, strs(alice.user), xmlrpc.Struct{}}, am.Forbidden},
		{"right before absence", "SliverStatus", []xmlrpc.Value{none.slice, strs(alice.user), xmlrpc.Struct{}}, am.Forbidden},
		{"right before absence", "Shutdown", []xmlrpc.Value{none.slice, strs(made.cred), xmlrpc.Struct{}}, am.Forbidden},
		{"right before absence", "ListResources", []xmlrpc.Value{strs(alice.user), opts(opt("geni_slice_urn", none.slice))}, am.Forbidden},
		{"right before the request", "CreateSliver", []xmlrpc.Value{none.slice, strs(alice.user), "hello", nobody, xmlrpc.Struct{}}, am.Forbidden},
		{"shut down before a time in the past", "RenewSliver", []xmlrpc.Value{shut.slice, strs(shut.cred), past, xmlrpc.Struct{}}, am.Forbidden},
		{"shut down before options", "RenewSliver", []xmlrpc.Value{shut.slice, strs(shut.cred), good, maybe}, am.Forbidden},
		{"shut down before options", "ListResources", []xmlrpc.Value{strs(shut.cred), noVersion(shut)}, am.Forbidden},
		{"shut down before there is one already", "CreateSliver", []xmlrpc.Value{shut.slice, strs(shut.cred), request(node("a")), nobody, xmlrpc.Struct{}}, am.Forbidden},
		{"absence before a time in the past", "RenewSliver", []xmlrpc.Value{none.slice, strs(none.cred), past, xmlrpc.Struct{}}, am.SearchFailed},
		{"absence before options", "RenewSliver", []xmlrpc.Value{none.slice, strs(none.cred), good, maybe}, am.SearchFailed},
		{"there is one already, before what is not to be had", "CreateSliver", []xmlrpc.Value{made.slice, strs(made.cred), request(`<node client_id="a"><sliver_type name="quantum"/></node>`), nobody, xmlrpc.Struct{}}, am.Exists},
	} {
		alice.call2(tt.method, tt.params...).want(t, tt.method+": "+tt.rule, tt.want)
	}
}
