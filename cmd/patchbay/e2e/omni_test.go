package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
)

// TestClientScripts runs the calls of other clients at one site, concurrently: omni's
// acceptance tests in both versions, jFed's automated test, and the forms of geni-lib.
func TestClientScripts(t *testing.T) {
	t.Parallel()
	s := newClientTestSite(t, "timing: {make: 1s, start: 1s, stop: 100ms, restart: 200ms, users: 100ms, remove: 50ms}\njitter: 0\n")
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("OmniVersion%d", version), func(t *testing.T) {
			t.Parallel()
			omniAcceptance(t, s, version)
		})
	}
	t.Run("JFed", func(t *testing.T) {
		t.Parallel()
		v := s.newClient(t, "jfed", 3)
		slice, cred, _ := v.slice("jfed", 3)
		jfedScript(t, v, slice, cred)
	})
	t.Run("GeniLib", func(t *testing.T) {
		t.Parallel()
		geniLibForms(t, s)
	})
}

// omniTest runs omni's acceptance tests with their assertions; its methods are named
// after what they do in both versions.
type omniTest struct {
	*wireClient
	prefix string
}

// omniAcceptance runs the suite for one version of the API.
func omniAcceptance(t *testing.T, s *clientTestSite, version int) {
	o := &omniTest{s.newClient(t, fmt.Sprintf("omni%d", version), version), fmt.Sprintf("v%d-", version)}
	o.getVersion()
	o.listResources()
	o.createSliver()
	o.multiSlice()
	o.delegate()
}

// memberAs returns a member, which must have the type T.
func memberAs[T any](o *wireClient, v xmlrpc.Value, name string) T {
	o.t.Helper()
	x, ok := member(v, name).(T)
	if !ok {
		o.t.Fatalf("%s is a %T", name, member(v, name))
	}
	return x
}

func (o *omniTest) getVersion() {
	a := o.call("GetVersion")
	if member(a.top, "geni_api") != o.version || memberAs[int](o.wireClient, a.value, "geni_api") != o.version {
		o.t.Errorf("geni_api is %v and %v", member(a.top, "geni_api"), member(a.value, "geni_api"))
	}
	versions := memberAs[xmlrpc.Struct](o.wireClient, a.value, "geni_api_versions")
	memberAs[string](o.wireClient, versions, fmt.Sprint(o.version))
	for _, list := range []string{"geni_request_rspec_versions", "geni_ad_rspec_versions"} {
		known := false
		for _, v := range memberAs[[]xmlrpc.Value](o.wireClient, a.value, list) {
			typ, number := memberAs[string](o.wireClient, v, "type"), memberAs[string](o.wireClient, v, "version")
			memberAs[string](o.wireClient, v, "schema")
			memberAs[string](o.wireClient, v, "namespace")
			memberAs[[]xmlrpc.Value](o.wireClient, v, "extensions")
			known = known || strings.EqualFold(typ, "GENI") && number == "3"
		}
		if !known {
			o.t.Errorf("%s lacks GENI 3", list)
		}
	}
	if o.version < 3 {
		return
	}
	if n := memberAs[int](o.wireClient, a.value, "geni_single_allocation"); n != 0 && n != 1 {
		o.t.Errorf("geni_single_allocation is %d", n)
	}
	if w := memberAs[string](o.wireClient, a.value, "geni_allocate"); !slices.Contains([]string{"geni_single", "geni_disjoint", "geni_many"}, w) {
		o.t.Errorf("geni_allocate is %q", w)
	}
	sfa := false
	for _, c := range memberAs[[]xmlrpc.Value](o.wireClient, a.value, "geni_credential_types") {
		typ, number := memberAs[string](o.wireClient, c, "geni_type"), memberAs[string](o.wireClient, c, "geni_version")
		sfa = sfa || typ == "geni_sfa" && (number == "2" || number == "3")
	}
	if !sfa {
		o.t.Error("geni_sfa is not among the types of credentials")
	}
}

func (o *omniTest) user() []xmlrpc.Value { return o.creds(string(o.Credential)) }

// plain returns the RSpec of a value, decompressed if it was requested compressed.
func (o *omniTest) plain(v xmlrpc.Value) string {
	o.t.Helper()
	text, ok := v.(string)
	if !ok {
		o.t.Fatalf("the RSpec is a %T", v)
	}
	text, err := client.Unpack(text)
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

func (o *omniTest) listResources() {
	for _, options := range [][]xmlrpc.Member{
		{option("geni_compressed", true), option("arbitrary_option", "x"), option("another", []xmlrpc.Value{1, xmlrpc.Struct{}})},
		{option("geni_compressed", false)},
		{option("geni_compressed", true), option("geni_available", true)},
		{option("geni_compressed", false), option("geni_available", true)},
	} {
		value := o.want("ListResources", am.Success, o.user(), rspec3("geni", options...))
		if packed := !strings.HasPrefix(value.(string), "<"); packed != options[0].Value {
			o.t.Errorf("ListResources with %v is packed: %v", options[0], packed)
		}
		d := o.rspec(o.plain(value), "advertisement")
		if len(d.Nodes) == 0 {
			o.t.Error("nothing is advertised")
		}
		for _, n := range d.Nodes {
			if n.Available == nil || len(options) == 2 && options[1].Name == "geni_available" && strings.EqualFold(n.Available.Now, "false") {
				o.t.Errorf("%s is available: %v", n.Component, n.Available)
			}
		}
	}
}

// options returns the options that omni sends with methods that create slivers.
func (o *omniTest) options(more ...xmlrpc.Member) xmlrpc.Struct {
	return rspec3("GENI", append([]xmlrpc.Member{option("bogus_option", "x")}, more...)...)
}

// create creates the slivers of a request with all assertions; names are those of the
// slivers, in version 3.
func (o *omniTest) create(slice, cred, request string, expires time.Time) (manifest rspecDocument, names []string) {
	o.t.Helper()
	if o.version == 2 {
		v := o.want("CreateSliver", am.Success, slice, o.creds(cred), request, userAccounts(o.User), o.options())
		return o.rspec(v, "manifest"), nil
	}
	v := o.want("Allocate", am.Success, slice, o.creds(cred), request, o.options())
	slivers := o.slivers(v)
	o.wantEvery(slivers, "geni_allocation_status", "geni_allocated")
	if len(slivers) == 0 || len(o.rspec(member(v, "geni_rspec"), "manifest").All)+len(o.rspec(member(v, "geni_rspec"), "manifest").Nodes) == 0 {
		o.t.Error("Allocate answers no sliver, or an empty manifest")
	}
	o.until(slivers, func(t time.Time) bool { return !t.After(expires.Add(time.Second)) })
	names = sliverNames(slivers)

	v = o.want("Provision", am.Success, urns(slice), o.creds(cred), o.options(option("geni_users", userAccounts(o.User))))
	slivers = o.slivers(v)
	o.wantEvery(slivers, "geni_allocation_status", "geni_provisioned")
	o.sameNames("Provision", slivers, names)
	manifest = o.rspec(member(v, "geni_rspec"), "manifest")
	// One after another, without waiting.
	for _, action := range []string{"geni_start", "geni_restart", "geni_stop"} {
		a := o.call("PerformOperationalAction", urns(slice), o.creds(cred), action, o.options())
		if a.code != am.Success && a.code != am.Unsupported {
			o.t.Errorf("%s: code %d %s", action, a.code, a.output)
		}
		if a.code == am.Success && len(o.slivers(a.value)) == 0 {
			o.t.Errorf("%s lists no slivers", action)
		}
	}
	for _, action := range []string{"", "random_action"} {
		o.fails(fmt.Sprintf("action %q", action), "PerformOperationalAction", urns(slice), o.creds(cred), action, o.options())
	}
	return manifest, names
}

func (o *omniTest) sameNames(what string, slivers []xmlrpc.Struct, want []string) {
	o.t.Helper()
	got, want := sliverNames(slivers), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		o.t.Errorf("%s lists %q, want %q", what, got, want)
	}
}

// until checks the ends of leases.
func (o *omniTest) until(slivers []xmlrpc.Struct, ok func(time.Time) bool) {
	o.t.Helper()
	for _, s := range slivers {
		text := member(s, "geni_expires").(string)
		if t, err := time.Parse(time.RFC3339, text); err != nil || !ok(t) {
			o.t.Errorf("%s expires %s", member(s, "geni_sliver_urn"), text)
		}
	}
}

// contents gets the manifest of a slice, by the method of the version.
func (o *omniTest) contents(slice string, credentials []xmlrpc.Value, more ...xmlrpc.Member) wireReply {
	if o.version == 2 {
		return o.call("ListResources", credentials, o.options(append(more, option("geni_slice_urn", slice))...))
	}
	return o.call("Describe", urns(slice), credentials, o.options(more...))
}

// manifest is contents for a call that must succeed.
func (o *omniTest) manifest(slice, cred string, more ...xmlrpc.Member) rspecDocument {
	o.t.Helper()
	a := o.contents(slice, o.creds(cred), more...)
	if a.code != am.Success {
		o.t.Fatalf("the contents of %s: code %d %s", slice, a.code, a.output)
	}
	if o.version == 2 {
		return o.rspec(o.plain(a.value), "manifest")
	}
	if member(a.value, "geni_urn") != slice {
		o.t.Errorf("Describe is of %v", member(a.value, "geni_urn"))
	}
	o.slivers(a.value)
	return o.rspec(o.plain(member(a.value, "geni_rspec")), "manifest")
}

// matches fails unless the manifest has the same client_ids, and for bound nodes the same
// component_ids.
func (o *omniTest) matches(what string, request string, manifest rspecDocument, bound bool) {
	o.t.Helper()
	o.asked(request, func(clients, components []string) {
		gotClients, gotComponents := manifest.ids()
		if !slices.Equal(gotClients, clients) {
			o.t.Errorf("%s: client_ids %q, want %q", what, gotClients, clients)
		}
		if bound && !slices.Equal(gotComponents, components) {
			o.t.Errorf("%s: component_ids %q, want %q", what, gotComponents, components)
		}
	})
}

func (o *omniTest) asked(request string, use func(clients, components []string)) {
	var clients, components []string
	for _, m := range regexp.MustCompile(`<node ([^>]*)>`).FindAllStringSubmatch(request, -1) {
		if id := regexp.MustCompile(`client_id="([^"]*)"`).FindStringSubmatch(m[1]); id != nil {
			clients = append(clients, id[1])
		}
		if id := regexp.MustCompile(`component_id="([^"]*)"`).FindStringSubmatch(m[1]); id != nil {
			components = append(components, id[1])
		}
	}
	slices.Sort(clients)
	slices.Sort(components)
	use(clients, components)
}

// status calls SliverStatus or Status with all assertions, and returns the states.
func (o *omniTest) status(slice, cred string) (states []string) {
	o.t.Helper()
	if o.version == 2 {
		v := o.want("SliverStatus", am.Success, slice, o.creds(cred), o.options())
		memberAs[string](o.wireClient, v, "geni_urn")
		states = append(states, memberAs[string](o.wireClient, v, "geni_status"))
		resources := memberAs[[]xmlrpc.Value](o.wireClient, v, "geni_resources")
		if len(resources) == 0 {
			o.t.Error("SliverStatus lists no resources")
		}
		for _, r := range resources {
			for _, name := range []string{"geni_urn", "geni_status", "geni_error"} {
				memberAs[string](o.wireClient, r, name)
			}
		}
		return states
	}
	v := o.want("Status", am.Success, urns(slice), o.creds(cred), o.options())
	if u := memberAs[string](o.wireClient, v, "geni_urn"); u != slice {
		o.t.Errorf("Status is of %s", u)
	}
	for _, s := range o.slivers(v) {
		states = append(states, member(s, "geni_operational_status").(string))
	}
	if len(states) == 0 {
		o.t.Error("Status lists no slivers")
	}
	return states
}

// renew sends a time as omni does, and checks that it is the new end.
func (o *omniTest) renew(slice, cred string, to time.Time) {
	o.t.Helper()
	text := to.UTC().Format("2006-01-02T15:04:05+00:00")
	if o.version == 2 {
		if v := o.want("RenewSliver", am.Success, slice, o.creds(cred), text, o.options()); v != true {
			o.t.Errorf("RenewSliver answers %v", v)
		}
		return
	}
	same := func(t time.Time) bool { return t.Equal(to) }
	o.until(o.slivers(o.want("Renew", am.Success, urns(slice), o.creds(cred), text, o.options())), same)
	o.until(o.slivers(o.want("Status", am.Success, urns(slice), o.creds(cred), o.options())), same)
}

func (o *omniTest) remove(slice, cred string, want int) {
	o.t.Helper()
	if o.version == 2 {
		if v := o.want("DeleteSliver", am.Success, slice, o.creds(cred), o.options()); v != true {
			o.t.Errorf("DeleteSliver answers %v", v)
		}
		return
	}
	slivers := o.slivers(o.want("Delete", am.Success, urns(slice), o.creds(cred), o.options()))
	o.wantEvery(slivers, "geni_allocation_status", "geni_unallocated")
	if len(slivers) != want {
		o.t.Errorf("Delete lists %d slivers, want %d", len(slivers), want)
	}
}

// gone checks the answers about a slice without slivers.
func (o *omniTest) gone(slice, cred string) {
	o.t.Helper()
	if o.version == 2 {
		o.fails("nothing there", "SliverStatus", slice, o.creds(cred), o.options())
		o.fails("nothing there", "DeleteSliver", slice, o.creds(cred), o.options())
	} else {
		o.fails("nothing there", "Status", urns(slice), o.creds(cred), o.options())
		o.fails("nothing there", "Delete", urns(slice), o.creds(cred), o.options())
	}
	a := o.contents(slice, o.creds(cred))
	if a.code != am.Success {
		return
	}
	text := a.value
	if o.version == 3 {
		text = member(a.value, "geni_rspec")
	}
	if d := o.rspec(text, "manifest"); len(d.Nodes)+len(d.All) > 0 {
		o.t.Error("the manifest of nothing has children")
	}
}
