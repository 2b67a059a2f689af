package api

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// call2 calls a method of version 2.
func (c *caller) call2(method string, params ...xmlrpc.Value) answer {
	c.site.t.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		c.site.t.Fatal(err)
	}
	return c.site.serveVersion(Version2, Request{ID: "r2", Chain: c.chain, Body: body})
}

// owned is a slice in the hands of its owner, who calls in both versions.
type owned struct {
	*caller
	slice, cred string
}

func (c *caller) own(name string, lasts time.Duration) owned {
	c.site.t.Helper()
	slice, cred := c.slice(name, lasts)
	return owned{c, slice, cred}
}

// v2 calls a method about the slice, with no options but those given at the end.
func (o owned) v2(method string, args ...xmlrpc.Value) answer {
	o.site.t.Helper()
	params := append([]xmlrpc.Value{o.slice, strs(o.cred)}, args...)
	if len(args) == 0 {
		params = append(params, xmlrpc.Struct{})
	} else if _, ok := args[len(args)-1].(xmlrpc.Struct); !ok {
		params = append(params, xmlrpc.Struct{})
	}
	return o.call2(method, params...)
}

// create makes the slice of a request, without users.
func (o owned) create(rspec string) answer {
	o.site.t.Helper()
	return o.v2("CreateSliver", rspec, []xmlrpc.Value{})
}

// list2 is ListResources about the slice.
func (o owned) list2(options ...xmlrpc.Member) answer {
	o.site.t.Helper()
	return o.call2("ListResources", strs(o.cred), opts(append(options, opt("geni_slice_urn", o.slice))...))
}

// v3 calls a method about the whole slice, or about slivers instead.
func (o owned) v3(method string, args ...xmlrpc.Value) answer {
	o.site.t.Helper()
	return o.v3On(method, strs(o.slice), args...)
}

func (o owned) v3On(method string, urns []xmlrpc.Value, args ...xmlrpc.Value) answer {
	o.site.t.Helper()
	return o.call(method, append(append([]xmlrpc.Value{urns, creds(o.cred)}, args...), opts())...)
}

func (o owned) allocate(rspec string) answer {
	o.site.t.Helper()
	return o.call("Allocate", o.slice, creds(o.cred), rspec, xmlrpc.Struct{})
}

// words are the states that SliverStatus tells, by client_id, and the whole
// slice's under "". It checks what clients insist on.
func (o owned) words(t testing.TB) map[string]string {
	t.Helper()
	a := o.v2("SliverStatus").want(t, "SliverStatus", am.Success)
	text := func(v xmlrpc.Value, name string) string {
		t.Helper()
		s, ok := get(v, name).(string)
		if !ok {
			t.Fatalf("SliverStatus: %s is %T: %v", name, get(v, name), v)
		}
		return s
	}
	if got := text(a.value, "geni_urn"); got != o.slice {
		t.Errorf("geni_urn %s, want %s", got, o.slice)
	}
	if e := text(a.value, "geni_expires"); e != text(a.value, "pg_expires") || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(e) {
		t.Errorf("geni_expires %q, pg_expires %q", e, text(a.value, "pg_expires"))
	}
	list, ok := get(a.value, "geni_resources").([]xmlrpc.Value)
	if !ok || len(list) == 0 {
		t.Fatalf("geni_resources: %v", get(a.value, "geni_resources"))
	}
	out := map[string]string{"": text(a.value, "geni_status")}
	for _, v := range list {
		if u, err := urn.Parse(text(v, "geni_urn")); err != nil || u.Type != urn.Sliver {
			t.Errorf("geni_urn of a resource: %v", v)
		}
		text(v, "geni_error")
		out[text(v, "geni_client_id")] = text(v, "geni_status")
	}
	return out
}

func (o owned) wantWords(t testing.TB, what, overall string, nodes ...string) {
	t.Helper()
	got := o.words(t)
	if got[""] != overall || len(got) != len(nodes)/2+1 {
		t.Errorf("%s: %v, want %s over all of %d nodes", what, got, overall, len(nodes)/2)
	}
	for i := 0; i < len(nodes); i += 2 {
		if got[nodes[i]] != nodes[i+1] {
			t.Errorf("%s: node %s is %s, want %s", what, nodes[i], got[nodes[i]], nodes[i+1])
		}
	}
}

func (s *site) at(d time.Duration) string { return formatTime(s.clock().Add(d)) }

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
