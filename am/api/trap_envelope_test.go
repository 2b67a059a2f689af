package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

var bothVersions = []int{Version2, Version3}

// TestTrap01GeniAPITwice checks that GetVersion has geni_api in the value and beside it, also in a
// refusal. Clients discard answers without it.
func TestTrap01GeniAPITwice(t *testing.T) {
	newWorld(t).play(`
		nobody GetVersion -> geni_api=<int>3 value.geni_api=<int>3
		nobody GetVersion2 -> geni_api=<int>2 value.geni_api=<int>2
		nobody GetVersion 'no struct' -> BADARGS geni_api=<int>3
		nobody GetVersion2 'no struct' -> BADARGS geni_api=<int>2
	`)
}

func TestTrap02VersionsAreAbsoluteURLs(t *testing.T) {
	for _, call := range []string{"GetVersion", "GetVersion2"} {
		e := newWorld(t).play("nobody " + call).answer
		for _, v := range bothVersions {
			path := fmt.Sprintf("value.geni_api_versions.%d", v)
			if err := first(e.is("value.geni_api_versions", "struct"), e.is(path, "string")); err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(e.at(path).text)
			if err != nil || u.Scheme != "https" || u.Host != "am.example.org:8443" || u.Path != fmt.Sprintf("/am/%d.0", v) {
				t.Errorf("%s is not where version %d is, %v", u, v, err)
			}
		}
	}
}

func TestTrap04VersionIsAStringAndAPIAnInt(t *testing.T) {
	for _, call := range []string{"GetVersion", "GetVersion2"} {
		newWorld(t).play("nobody " + call + " -> geni_api=<int> code.geni_code=<int>0 code.am_code=<int>0 code.am_type=<string>patchbay " +
			"value.geni_request_rspec_versions.0.version=<string>3 value.geni_ad_rspec_versions.0.version=<string>3 value.geni_request_rspec_versions.0.type=<string>GENI value.geni_ad_rspec_versions.0.type=<string>GENI")
	}
	// am_code is an int, too.
	newWorld(t).play("alice owns s1 1h\nalice Renew s1 +1m with=junk -> FORBIDDEN code.geni_code=<int>3 code.am_code=<int>20")
}

// TestTrap05ExtensionsAreAlwaysThere checks that GetVersion has the list of extensions, also if it
// is empty, and names each extension once.
func TestTrap05ExtensionsAreAlwaysThere(t *testing.T) {
	none, err := xmlrpc.AppendResponse(nil, xmlrpc.Struct{{Name: "value", Value: versionValues(Config{PublicURL: "https://am.example.org"}, nil, nil)[Version3]}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for what, e := range map[string]*onWire{"none": w.who("nobody").read(string(none)), "2": w.play("nobody GetVersion2").answer, "3": w.play("nobody GetVersion").answer} {
		for list, want := range map[string][]string{
			"value.geni_request_rspec_versions.0.": {"http://www.geni.net/resources/rspec/ext/user/1", "http://jfed.iminds.be/proxy/1.0", "http://www.protogeni.net/resources/rspec/ext/emulab/1", "http://patchbay.example.org/rspec/ext/match/1"},
			"value.geni_ad_rspec_versions.0.":      {"http://www.geni.net/resources/rspec/ext/opstate/1", "http://www.protogeni.net/resources/rspec/ext/emulab/1"},
		} {
			if err := first(e.is(list+"extensions", "array"), e.is(list+"schema", "string"), e.is(list+"namespace", "string", "http://www.geni.net/resources/rspec/3")); err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, x := range e.at(list + "extensions").items() {
				if told = append(told, x.text); !strings.HasPrefix(x.text, "http://") {
					t.Errorf("an extension %q", x.text)
				}
			}
			for _, x := range want {
				if what != "none" && !slices.Contains(told, x) {
					t.Errorf("version %s: %s is not among %q", what, x, told)
				}
			}
			if slices.Sort(told); len(slices.Compact(slices.Clone(told))) != len(told) || e.at(list+"schema").text == "" {
				t.Errorf("version %s: %q, schema %q", what, told, e.at(list+"schema").text)
			}
		}
	}
}

func TestTrap06CredentialTypes(t *testing.T) {
	newWorld(t).play(`
		nobody GetVersion -> value.geni_credential_types.0.geni_type=<string>geni_sfa value.geni_credential_types.0.geni_version=<string>3 value.geni_credential_types.1.geni_type=<string>geni_sfa value.geni_credential_types.1.geni_version=<string>2 value.geni_credential_types.2.geni_type=<string>geni_abac value.geni_credential_types.2.geni_version=<string>1 3*"geni_type"
	`)
}

// refusals are calls of every method with arguments, each wrong in its own way.
const refusals = `
	alice ListResources2 with=junk
	alice CreateSliver s1 a with=junk
	alice SliverStatus s1
	alice RenewSliver s1 tomorrow
	alice DeleteSliver s1
	alice Shutdown2 $node with=s1
	alice ListResources with=junk
	alice Describe s1 version=
	alice Allocate s1 $broken
	alice Provision s1
	alice Renew s1 -1h
	alice Status $urnnode with=s1
	alice PerformOperationalAction s1 ''
	alice Delete s1
	alice Shutdown s1 with=junk
`

// refused makes those calls and returns their answers.
func refused(t *testing.T) (all []*onWire) {
	t.Helper()
	w := newWorld(t, "node", "hello", "broken", "<rspec", "urnnode", "hello").play("alice owns s1 24h")
	for _, line := range strings.Split(strings.TrimSpace(refusals), "\n") {
		all = append(all, w.play(line+" -> BADARGS|FORBIDDEN|SEARCHFAILED|UNSUPPORTED").answer)
	}
	return all
}

func TestTrap07ErrorsHaveOutputAndValue(t *testing.T) {
	for _, e := range refused(t) {
		err := first(e.is("code", "struct"), e.is("code.geni_code", "int"), e.is("output", "string"), e.is("value", "string"))
		if output := e.member("output"); err != nil || strings.TrimSpace(output) == "" || strings.ContainsAny(output, "\r\n") {
			t.Errorf("%v, output %q", err, output)
		}
	}
}

// TestTrap08OldCodesOnly checks that every geni_code is a number that the first clients of version
// 3 know. Newer reasons are only in am_code.
func TestTrap08OldCodesOnly(t *testing.T) {
	old := func(n int) bool { return n >= 0 && n <= 17 || n == 24 || n == -32001 }
	for n := -40000; n < 1000; n++ {
		if am.Code(n).String() != "UNKNOWN" && !old(n) {
			t.Errorf("%s is %d, which old clients throw at", am.Code(n), n)
		}
	}
	newWorld(t).play("alice owns s1 30d\nalice Allocate s1 a\nalice Renew s1 +20d -> REFUSED code.geni_code=<int>7 code.am_code=<int>19")
}

func TestTrap09SingleAllocationIsAnInt(t *testing.T) {
	newWorld(t).play(`
		nobody GetVersion -> value.geni_single_allocation=<int>0 value.geni_allocate=<string>geni_many
		nobody GetVersion2 -> !"geni_single_allocation" !"geni_allocate" !"geni_credential_types"
	`)
}

// TestTrap10BareArrays checks the type of the value of each method.
func TestTrap10BareArrays(t *testing.T) {
	newWorld(t).play(`
		nobody GetVersion -> value=<struct>
		alice ListResources -> value=<string>
		alice owns s1 24h
		alice Allocate s1 a -> value=<struct>
		alice Provision s1 -> value=<struct>
		alice Describe s1 -> value=<struct>
		alice Status s1 -> value=<struct>
		settle
		alice Renew s1 +1h -> value=<array> value.0.geni_sliver_urn=<string>s1.a
		alice PerformOperationalAction s1 geni_start -> value=<array> value.0.geni_sliver_urn=<string>s1.a
		alice Delete s1 -> value=<array> value.0.geni_sliver_urn=<string>s1.a
		nobody GetVersion2 -> value=<struct>
		alice ListResources2 -> value=<string>
		alice CreateSliver s1 b -> value=<string>
		alice ListResources2 s1 -> value=<string>
		alice SliverStatus s1 -> value=<struct>
		alice RenewSliver s1 +1h -> value=<boolean>1
		alice DeleteSliver s1 -> value=<boolean>1
		alice CreateSliver s1 c
		alice Shutdown2 s1 -> value=<boolean>1
		alice Shutdown s1 -> value=<boolean>1
	`)
}

// TestTrap31GetVersionWithAndWithoutParameters calls GetVersion in every form that XML-RPC encoders
// write. Two parameters get a Fault.
func TestTrap31GetVersionWithAndWithoutParameters(t *testing.T) {
	stranger := &caller{site: newSite(t)}
	for _, v := range bothVersions {
		for _, params := range []string{
			"", "<params></params>", "<params/>", "<params><param><value><struct></struct></value></param></params>", "<params>\n<param>\n<value><struct/></value>\n</param>\n</params>",
			"<params><param><value><struct><member><name>trustroots</name><value><boolean>1</boolean></value></member><member><name>random</name><value>x</value></member></struct></value></param></params>",
		} {
			e := stranger.read(stranger.post(v, "<?xml version='1.0'?>\n<methodCall>\n<methodName>GetVersion</methodName>\n"+params+"\n</methodCall>\n")).want(t, params, am.Success)
			if err := e.is("geni_api", "int", fmt.Sprint(v)); err != nil {
				t.Errorf("%s: %v", params, err)
			}
		}
		if e := stranger.read(stranger.send(v, "GetVersion", "<struct/>", "<struct/>")); e.child("fault") == nil {
			t.Error("two parameters are no Fault")
		}
	}
}

// TestTrap34StringOrArray sends an array where a method takes one URN as a string, and a string
// where it takes an array. The answer is an envelope with BADARGS.
func TestTrap34StringOrArray(t *testing.T) {
	w := newWorld(t).play("alice owns s1 24h")
	for version, rows := range tables {
		for _, m := range rows {
			var urns, third xmlrpc.Value = w.urns["s1"], "x"
			switch {
			case m.args[0].name == argSlice.name:
				urns = strs(w.urns["s1"])
			case m.args[0].name != argURNs.name:
				continue
			}
			params := []xmlrpc.Value{urns, creds(w.creds["s1"]), third, strs(), opts()}[:len(m.args)-1]
			e := w.who("alice").ask(version, m.name, append(params, opts())...).want(t, m.name, am.BadArgs)
			if !strings.Contains(e.member("output"), "string") {
				t.Errorf("%s: %q does not say what it must be", m.name, e.member("output"))
			}
		}
	}
}

// TestErrorBody checks that an error body is an envelope with geni_api, or a Fault if its text
// cannot be sent.
func TestErrorBody(t *testing.T) {
	v, err := xmlrpc.DecodeResponse(ErrorBody(3, am.ServerBusy, "come back"), xmlrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if code := get(v, "code"); get(v, "geni_api") != 3 || get(v, "output") != "come back" || get(v, "value") != "" || get(code, "geni_code") != int(am.ServerBusy) || get(code, "am_code") != int(am.ServerBusy) {
		t.Errorf("%v", v)
	}
	if !IsMethod("Allocate") || !IsMethod("SliverStatus") || IsMethod("allocate") {
		t.Error("methods are not those of the tables")
	}
}
