package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

var bothVersions = []int{Version2, Version3}

func TestTrap01GeniAPITwice(t *testing.T) {
	stranger := &caller{site: newSite(t)}
	for _, v := range bothVersions {
		n := strconv.Itoa(v)
		top := "<member><name>geni_api</name><value><int>" + n + "</int></value></member></struct></value></param>"
		bites(t, stranger.send(v, "GetVersion"), func(e *onWire) error {
			return first(e.is("geni_api", "int", n), e.is("value.geni_api", "int", n))
		},
			bite{"the remnant of version 1 is gone", "</struct></value></param>", top},
			bite{"it is only at the top", "<name>api</name>", "<name>geni_api</name>"},
			bite{"a string", "<string>" + n + "</string>", "<int>" + n + "</int>"},
		)
		// Beside a refusal, too, or clients drop the answer unread.
		bites(t, stranger.send(v, "GetVersion", "no struct"), func(e *onWire) error {
			return first(e.is("code.geni_code", "int", "1"), e.is("geni_api", "int", n))
		},
			bite{"the remnant of version 1 is gone", "</struct></value></param>", top},
		)
	}
}

func TestTrap02VersionsAreAbsoluteURLs(t *testing.T) {
	stranger := &caller{site: newSite(t)}
	check := func(e *onWire) error {
		versions := e.at("value.geni_api_versions")
		if versions == nil || versions.name != "struct" {
			return fmt.Errorf("geni_api_versions is no struct")
		}
		for _, v := range bothVersions {
			path := fmt.Sprintf("value.geni_api_versions.%d", v)
			if err := e.is(path, "string"); err != nil {
				return err
			}
			u, err := url.Parse(e.at(path).text)
			switch {
			case err != nil:
				return err
			case u.Scheme != "https" || u.Hostname() == "" || slices.Contains([]string{"localhost", "127.0.0.1", "::1", "0.0.0.0"}, u.Hostname()):
				return fmt.Errorf("%s cannot be reached from outside", u)
			case !strings.HasSuffix(u.Path, fmt.Sprintf("/am/%d.0", v)):
				return fmt.Errorf("%s is not where version %d is", u, v)
			}
		}
		return nil
	}
	for _, v := range bothVersions {
		bites(t, stranger.send(v, "GetVersion"), check,
			bite{"no string", "<value><int>3</int></value>", "<value><string>https://am.example.org:8443/am/3.0</string></value>"},
			bite{"relative", "<string>/am/", "<string>https://am.example.org:8443/am/"},
			bite{"an own name for the host", "https://localhost", "https://am.example.org"},
			bite{"not encrypted", "<string>http:", "<string>https:"},
			bite{"the other version's", "/am/2.0", "/am/3.0"},
			bite{"a name that is no number", "<name>v3</name>", "<name>3</name>"},
		)
	}
}

func TestTrap04VersionIsAStringAndAPIAnInt(t *testing.T) {
	l := newLab(t)
	for _, v := range bothVersions {
		bites(t, l.send(v, "GetVersion"), func(e *onWire) error {
			for _, list := range []string{"value.geni_request_rspec_versions", "value.geni_ad_rspec_versions"} {
				if err := first(e.is(list+".0.version", "string", "3"), e.is(list+".0.type", "string", "GENI")); err != nil {
					return err
				}
			}
			return first(e.is("geni_api", "int"), e.is("code.geni_code", "int", "0"), e.is("code.am_code", "int"), e.is("code.am_type", "string"))
		},
			bite{"a number for the RSpec version", "<name>version</name><value><int>3</int></value>", "<name>version</name><value><string>3</string></value>"},
			bite{"am_code as text", "<name>am_code</name><value><string>0</string></value>", "<name>am_code</name><value><int>0</int></value>"},
			bite{"am_code left empty", "<name>am_code</name><value><string></string></value>", "<name>am_code</name><value><int>0</int></value>"},
		)
	}
	// The finer reason of an error is an int, too.
	bites(t, l.send(3, "Renew", wire(t, strs(l.slice)), wire(t, creds("junk")), wire(t, "2030-01-01T00:00:00Z"), wire(t, opts())), func(e *onWire) error {
		return first(e.is("code.geni_code", "int", "3"), e.is("code.am_code", "int", strconv.Itoa(int(am.CredentialInvalid))))
	}, bite{"am_code as text", "<string>20</string>", "<int>20</int>"})
}

func TestTrap05ExtensionsAreAlwaysThere(t *testing.T) {
	check := func(e *onWire) error {
		for _, list := range []string{"value.geni_request_rspec_versions", "value.geni_ad_rspec_versions"} {
			if err := e.is(list, "array"); err != nil {
				return err
			}
			for i := range e.at(list).items() {
				path := fmt.Sprintf("%s.%d.", list, i)
				if err := first(e.is(path+"extensions", "array"), e.is(path+"schema", "string"), e.is(path+"namespace", "string")); err != nil {
					return err
				}
				if e.at(path+"schema").text == "" || e.at(path+"namespace").text == "" {
					return fmt.Errorf("%s: no schema or namespace", path)
				}
			}
		}
		return nil
	}
	for _, v := range bothVersions {
		bites(t, (&caller{site: newSite(t)}).send(v, "GetVersion"), check,
			bite{"left out", "<name>x</name>", "<name>extensions</name>"},
			bite{"left out where the schema is", "<name>x</name>", "<name>schema</name>"},
			bite{"no namespace", "<name>namespace</name><value><string></string>", "<name>namespace</name><value><string>http://www.geni.net/resources/rspec/3</string>"},
		)
	}
	// An aggregate without any has an empty list, not none.
	values := versionValues(Config{PublicURL: "https://am.example.org"}, withoutExtensions{})
	for _, v := range bothVersions {
		body, err := xmlrpc.AppendResponse(nil, xmlrpc.Struct{{Name: "value", Value: values[v]}})
		if err != nil {
			t.Fatal(err)
		}
		bites(t, string(body), check, bite{"nothing where the list is empty", "<value></value>", "<value><array><data></data></array></value>"})
	}
}

// withoutExtensions is an aggregate that knows no extension.
type withoutExtensions struct{ Aggregate }

func (withoutExtensions) RSpecExtensions() (requests, advertisements []string) { return nil, nil }

func TestTrap06CredentialTypes(t *testing.T) {
	bites(t, (&caller{site: newSite(t)}).send(3, "GetVersion"), func(e *onWire) error {
		const list = "value.geni_credential_types"
		if err := e.is(list, "array"); err != nil {
			return err
		}
		var seen []string
		for i := range e.at(list).items() {
			typ, version := fmt.Sprintf("%s.%d.geni_type", list, i), fmt.Sprintf("%s.%d.geni_version", list, i)
			if err := first(e.is(typ, "string"), e.is(version, "string")); err != nil {
				return err
			}
			seen = append(seen, e.at(typ).text+" "+e.at(version).text)
		}
		for _, want := range []string{"geni_sfa 3", "geni_sfa 2", "geni_abac 1"} {
			if !slices.Contains(seen, want) {
				return fmt.Errorf("%s is not among %q", want, seen)
			}
		}
		if slices.Sort(seen); len(slices.Compact(slices.Clone(seen))) != len(seen) {
			return fmt.Errorf("something is there twice: %q", seen)
		}
		return nil
	},
		bite{"missing", "<name>credential_types</name>", "<name>geni_credential_types</name>"},
		bite{"a number for the version", "<name>geni_version</name><value><int>3</int>", "<name>geni_version</name><value><string>3</string>"},
	)
}

// refusals are calls of every method that takes arguments, each wrong in its
// own way.
func (l *lab) refusals(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(version int, method string, params ...xmlrpc.Value) {
		var list []string
		for _, p := range params {
			list = append(list, wire(t, p))
		}
		all[fmt.Sprintf("%s of version %d", method, version)] = l.send(version, method, list...)
	}
	nobody := creds("junk")
	add(2, "ListResources", nobody, opts())
	add(2, "CreateSliver", l.slice, nobody, request(node("a")), []xmlrpc.Value{}, opts())
	add(2, "SliverStatus", l.slice, creds(l.cred), opts())
	add(2, "RenewSliver", l.slice, creds(l.cred), "tomorrow", opts())
	add(2, "DeleteSliver", l.slice, creds(l.cred), opts())
	add(2, "Shutdown", "no URN", creds(l.cred), opts())
	add(3, "ListResources", nobody, opts())
	add(3, "Describe", strs(l.slice), creds(l.cred), xmlrpc.Struct{})
	add(3, "Allocate", l.slice, creds(l.cred), "<rspec", opts())
	add(3, "Provision", strs(l.slice), creds(l.cred), opts())
	add(3, "Renew", strs(l.slice), creds(l.cred), "2000-01-01T00:00:00Z", opts())
	add(3, "Status", []xmlrpc.Value{}, creds(l.cred), opts())
	add(3, "PerformOperationalAction", strs(l.slice), creds(l.cred), "", opts())
	add(3, "Delete", strs(l.slice), creds(l.cred), opts())
	add(3, "Shutdown", l.slice, nobody, opts())
	return all
}

func TestTrap07ErrorsHaveOutputAndValue(t *testing.T) {
	for name, body := range newLab(t).refusals(t) {
		t.Run(name, func(t *testing.T) {
			bites(t, body, func(e *onWire) error {
				if err := first(e.is("code", "struct"), e.is("code.geni_code", "int"), e.is("output", "string"), e.is("value", "string")); err != nil {
					return err
				}
				switch output := e.at("output").text; {
				case e.code() == am.Success:
					return fmt.Errorf("it succeeded")
				case strings.TrimSpace(output) == "" || strings.ContainsAny(output, "\r\n"):
					return fmt.Errorf("output %q", output)
				}
				return nil
			},
				bite{"no value", "", "<member><name>value</name><value><string></string></value></member>"},
				bite{"nil for the value", "<name>value</name><value><nil/></value>", "<name>value</name><value><string></string></value>"},
				bite{"no output", "<name>put</name>", "<name>output</name>"},
			)
		})
	}
}

// TestTrap08OldCodesOnly: whatever goes wrong and however finely it is told,
// geni_code is one of the numbers that the first clients of version 3 know.
func TestTrap08OldCodesOnly(t *testing.T) {
	old := func(n int) bool { return n >= 0 && n <= 17 || n == 24 || n == -32001 }
	for n := range 200 {
		e, err := xmlrpc.AppendResponse(nil, envelope(am.Refused, am.Detail(n), "", "x", nil))
		if err != nil {
			t.Fatal(err)
		}
		bites(t, string(e), func(e *onWire) error {
			if c := int(e.code()); !old(c) {
				return fmt.Errorf("geni_code %d", c)
			}
			return nil
		}, bite{"the finer reason as the code", "<int>19</int>", "<int>7</int>"})
	}
	// Every code that has a name is one of them; so is what each refusal answers.
	for n := -40000; n < 1000; n++ {
		if am.Code(n).String() != "UNKNOWN" && !old(n) {
			t.Errorf("%s is %d, which old clients throw at", am.Code(n), n)
		}
	}
	l := newLab(t)
	for name, body := range l.refusals(t) {
		if c := int(l.read(body).code()); !old(c) {
			t.Errorf("%s: geni_code %d", name, c)
		}
	}
	// The reasons that came later are told beside it.
	until := l.site.clock().Add(20 * 24 * time.Hour).Format(time.RFC3339)
	l.allocate(t, node("a"))
	if e := l.ask(3, "Renew", strs(l.slice), creds(l.cred), until, opts()).want(t, "beyond the limits", am.Refused); e.is("code.am_code", "int", "19") != nil {
		t.Errorf("am_code of a time out of range: %v", e.is("code.am_code", "int", "19"))
	}
}

func TestTrap09SingleAllocationIsAnInt(t *testing.T) {
	bites(t, (&caller{site: newSite(t)}).send(3, "GetVersion"), func(e *onWire) error {
		if err := first(e.is("value.geni_single_allocation", "int"), e.is("value.geni_allocate", "string")); err != nil {
			return err
		}
		if n := e.at("value.geni_single_allocation").text; n != "0" && n != "1" {
			return fmt.Errorf("geni_single_allocation is %s", n)
		}
		if w := e.at("value.geni_allocate").text; !slices.Contains([]string{"geni_single", "geni_disjoint", "geni_many"}, w) {
			return fmt.Errorf("geni_allocate is %q", w)
		}
		return nil
	},
		bite{"a boolean, as the text says", "<name>geni_single_allocation</name><value><boolean>0</boolean>", "<name>geni_single_allocation</name><value><int>0</int>"},
		bite{"a string, as one server has it", "<name>geni_single_allocation</name><value><string>0</string>", "<name>geni_single_allocation</name><value><int>0</int>"},
		bite{"missing", "<name>single_allocation</name>", "<name>geni_single_allocation</name>"},
		bite{"no geni_allocate", "<name>allocate</name>", "<name>geni_allocate</name>"},
		bite{"a misspelled word", "<string>geni_multiple</string>", "<string>geni_many</string>"},
	)
}

// TestTrap10BareArrays has every method answer, and looks what its value is.
func TestTrap10BareArrays(t *testing.T) {
	l := newLab(t)
	later := l.site.clock().Add(time.Hour).Format(time.RFC3339)
	value := func(version int, method, typ string, params ...xmlrpc.Value) {
		t.Helper()
		e := l.ask(version, method, params...).want(t, method, am.Success)
		if err := e.is("value", typ); err != nil {
			t.Errorf("%s of version %d: %v", method, version, err)
		}
		if typ == "array" {
			for i := range e.at("value").items() {
				if err := e.is(fmt.Sprintf("value.%d.geni_sliver_urn", i), "string"); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
		}
		l.site.settle()
	}
	urns, cred := strs(l.slice), creds(l.cred)
	value(3, "GetVersion", "struct")
	value(3, "ListResources", "string", cred, opts())
	value(3, "Allocate", "struct", l.slice, cred, request(node("a")), opts())
	value(3, "Provision", "struct", urns, cred, opts())
	value(3, "Describe", "struct", urns, cred, opts())
	value(3, "Status", "struct", urns, cred, opts())
	value(3, "Renew", "array", urns, cred, later, opts())
	value(3, "PerformOperationalAction", "array", urns, cred, "geni_start", opts())
	value(3, "Delete", "array", urns, cred, opts())

	value(2, "GetVersion", "struct")
	value(2, "ListResources", "string", strs(l.cred), opts())
	value(2, "CreateSliver", "string", l.slice, strs(l.cred), request(node("b")), []xmlrpc.Value{}, xmlrpc.Struct{})
	value(2, "ListResources", "string", strs(l.cred), opts(opt("geni_slice_urn", l.slice)))
	value(2, "SliverStatus", "struct", l.slice, strs(l.cred), xmlrpc.Struct{})
	value(2, "RenewSliver", "boolean", l.slice, strs(l.cred), later, xmlrpc.Struct{})
	value(2, "DeleteSliver", "boolean", l.slice, strs(l.cred), xmlrpc.Struct{})
	value(2, "CreateSliver", "string", l.slice, strs(l.cred), request(node("c")), []xmlrpc.Value{}, xmlrpc.Struct{})
	value(2, "Shutdown", "boolean", l.slice, strs(l.cred), xmlrpc.Struct{})
	value(3, "Shutdown", "boolean", l.slice, cred, opts())
}

// TestTrap31GetVersionWithAndWithoutParameters sends it in every way that
// writers of XML-RPC have.
func TestTrap31GetVersionWithAndWithoutParameters(t *testing.T) {
	stranger := &caller{site: newSite(t)}
	for _, v := range bothVersions {
		for name, params := range map[string]string{
			"no params element":    "",
			"params without param": "<params></params>",
			"params closed":        "<params/>",
			"an empty struct":      "<params><param><value><struct></struct></value></param></params>",
			"a struct closed":      "<params>\n<param>\n<value><struct/></value>\n</param>\n</params>",
			"options nobody knows": "<params><param><value><struct><member><name>trustroots</name><value><boolean>1</boolean></value></member><member><name>random</name><value>x</value></member></struct></value></param></params>",
		} {
			e := stranger.read(stranger.post(v, "<?xml version='1.0'?>\n<methodCall>\n<methodName>GetVersion</methodName>\n"+params+"\n</methodCall>\n"))
			e.want(t, name, am.Success)
			if err := e.is("geni_api", "int", strconv.Itoa(v)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Two are a wrong number, which XML-RPC itself has a word for.
		if e := stranger.read(stranger.send(v, "GetVersion", "<struct/>", "<struct/>")); e.child("fault") == nil {
			t.Error("two parameters are no Fault")
		}
	}
}

// TestTrap34StringOrArray: which methods take one URN as a string and which an
// array; the other form is a mistake that is told in the envelope.
func TestTrap34StringOrArray(t *testing.T) {
	l := newLab(t)
	urn, urns := wire(t, l.slice), wire(t, strs(l.slice))
	later := wire(t, l.site.clock().Add(time.Hour).Format(time.RFC3339))
	for _, tt := range []struct {
		version     int
		method      string
		right, left string // the URN as it must be, and as it must not
		rest        []string
	}{
		{3, "Allocate", urn, urns, []string{wire(t, request(node("a")))}},
		{3, "Describe", urns, urn, nil},
		{3, "Provision", urns, urn, nil},
		{3, "Status", urns, urn, nil},
		{3, "Renew", urns, urn, []string{later}},
		{3, "PerformOperationalAction", urns, urn, []string{wire(t, "geni_start")}},
		{3, "Delete", urns, urn, nil},
		{2, "CreateSliver", urn, urns, []string{wire(t, request(node("b"))), "<array><data/></array>"}},
		{2, "SliverStatus", urn, urns, nil},
		{2, "RenewSliver", urn, urns, []string{later}},
		{2, "DeleteSliver", urn, urns, nil},
		{2, "CreateSliver", urn, urns, []string{wire(t, request(node("c"))), "<array><data/></array>"}},
		{2, "Shutdown", urn, urns, nil},
		{3, "Shutdown", urn, urns, nil},
	} {
		params := func(u string) []string {
			return append(append([]string{u, wire(t, creds(l.cred))}, tt.rest...), wire(t, opts()))
		}
		e := l.read(l.send(tt.version, tt.method, params(tt.left)...)).want(t, tt.method+" the other way", am.BadArgs)
		if !strings.Contains(e.at("output").text, "string") {
			t.Errorf("%s: %q does not say what it must be", tt.method, e.at("output").text)
		}
		l.read(l.send(tt.version, tt.method, params(tt.right)...)).want(t, tt.method, am.Success)
		l.site.settle()
	}
}

// TestErrorBody is an envelope like any other, with geni_api for those who look for it
// first, or a fault if its text cannot be sent.
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
