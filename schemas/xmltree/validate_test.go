package xmltree

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"patchbay/schemas"
)

const rspec3 = `xmlns="http://www.geni.net/resources/rspec/3"`

// request is a request around parts, which begin in line 2.
func request(parts string) string {
	return "<rspec type='request' " + rspec3 + ">\n" + parts + "\n</rspec>"
}

func TestFindings(t *testing.T) {
	const opened = " and elements of other namespaces"
	for _, tt := range []struct {
		rule, in string
		want     []string // line:column: message
	}{
		{"nothing", request(`<node client_id="n"/>`), nil},
		{"unknown attribute", request(`<node client_id="n" pi_tag="x"/>`),
			[]string{`2:21: the attribute "pi_tag" is not allowed on <node>; allowed: client_id, component_id, component_manager_id, component_name, exclusive, colocate`}},
		{"unknown attribute where there is no room", request(`<link client_id="l"><component_manager name="m" x:y="1" xmlns:x="u:x"/></link>`),
			[]string{`2:49: the attribute "x:y" is not allowed on <component_manager>; allowed: name`}},
		{"no attribute at all", request(`<e:routable_control_ip xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1" x="1"/>`),
			[]string{`2:88: the attribute "x" is not allowed on <e:routable_control_ip>; remove it, because this element has no attributes`}},
		{"attributes of an element that another names so too", request(`<link client_id="l"><interface_ref client_id="i" component_id="c"/></link>`),
			[]string{`2:50: the attribute "component_id" is not allowed on <interface_ref>; allowed: client_id`}},
		{"local declarations go by their parent", request(`<link client_id="l"><component_hop><interface_ref client_id="i" zork=""/></component_hop></link>`),
			[]string{`2:36: <interface_ref> lacks the attribute component_id; add component_id="…"`,
				`2:36: <interface_ref> lacks the attribute component_manager_id; add component_manager_id="…"`,
				`2:65: the attribute "zork" is not allowed on <interface_ref>; allowed: component_id, component_manager_id, client_id`}},
		{"missing attribute", request(`<node/>`), []string{`2:1: <node> lacks the attribute client_id; add client_id="…"`}},
		{"unknown child", request(`<node client_id="n"><zork/></node>`),
			[]string{`2:21: <zork> is not allowed in <node>; allowed: <hardware_type>, <sliver_type>, <interface>, <services>, <location>, <relation>` + opened}},
		{"child of no namespace", request(`<node client_id="n"><zork xmlns=""/></node>`),
			[]string{`2:21: <zork> without a namespace is not allowed in <node>; allowed: <hardware_type>, <sliver_type>, <interface>, <services>, <location>, <relation>` + opened}},
		{"prefixes are those of the document", `<r:rspec xmlns:r="http://www.geni.net/resources/rspec/3" type="request"><r:zork/></r:rspec>`,
			[]string{`1:73: <r:zork> is not allowed in <r:rspec>; allowed: <r:node>, <r:link>` + opened}},
		{"child where only others may be", request(`<hardware_type/><node client_id="n"><hardware_type name="h"><ip address="1"/></hardware_type></node>`),
			[]string{`2:1: <hardware_type> is not allowed in <rspec>; allowed: <node>, <link>` + opened,
				`2:61: <ip> is not allowed in <hardware_type>; allowed: elements of other namespaces`}},
		{"what follows an unknown child is judged, too", request(`<zork/><node><zork/><ip/></node><node zork=""/>`),
			[]string{`2:1: <zork> is not allowed in <rspec>; allowed: <node>, <link>` + opened,
				`2:8: <node> lacks the attribute client_id; add client_id="…"`,
				`2:14: <zork> is not allowed in <node>; allowed: <hardware_type>, <sliver_type>, <interface>, <services>, <location>, <relation>` + opened,
				`2:21: <ip> is not allowed in <node>; allowed: <hardware_type>, <sliver_type>, <interface>, <services>, <location>, <relation>` + opened,
				`2:33: <node> lacks the attribute client_id; add client_id="…"`,
				`2:39: the attribute "zork" is not allowed on <node>; allowed: client_id, component_id, component_manager_id, component_name, exclusive, colocate`}},
		{"text between elements", request(`<node client_id="n">text</node>`), []string{`2:1: <node> contains text, which is not allowed between its elements; remove it`}},
		{"something in what must be empty", request(`<link client_id="l"><component_manager name="m">urn</component_manager></link>`),
			[]string{`2:21: <component_manager> must be empty; remove its content`}},
		{"no boolean", request(`<node client_id="n" exclusive="yes"/>`), []string{`2:21: exclusive="yes" is not a boolean; write true or false`}},
		{"no time", "<rspec generated='2030-01-01 10:00' type='request' " + rspec3 + "/>", []string{`1:8: generated="2030-01-01 10:00" is not a time; write it as 2030-01-31T12:00:00Z`}},
		{"no number", request(`<e:xen ram="1 GB" xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`),
			[]string{`2:8: ram="1 GB" is not a whole number from 0; write digits only`}},
		{"not one of a set", request(`<e:fd name="" weight="" global_operator="x" xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`),
			[]string{`2:25: global_operator="x" is not allowed; allowed: FirstFree, OnceOnly`}},
		{"a set that a value imitates", request(`<e:fd name="" weight="" global_operator="of the set {'a'}." xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`),
			[]string{`2:25: global_operator="of the set {'a'}." is not allowed; allowed: FirstFree, OnceOnly`}},
		{"bounds and patterns", request(`<m:monitoring enabled="1" monitoring_endpoint="e" xmlns:m="http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1"><m:metric id="-"/></m:monitoring>`),
			[]string{`2:129: id="-" is too short; it needs at least 2 characters`, `2:129: id="-" has the wrong form; it must match [A-Za-z][A-Za-z0-9_.\-]*`}},
		{"too small", request(`<e:property name="" value="" penalty="-1" xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`),
			[]string{`2:30: penalty="-1" is too small; the least is 0`}},
		{"order and children of an extension", request(`<m:monitoring enabled="1" monitoring_endpoint="e" xmlns:m="http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1"><m:zork/></m:monitoring>`),
			[]string{`2:123: <m:zork> is not allowed in <m:monitoring>; allowed: <m:metric>`}},
		{"a namespace that imitates what is missing", request(`<m:monitoring enabled="1" monitoring_endpoint="e" xmlns:m="http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1"><a xmlns="u:': Missing child element(s)"/><b xmlns="u:b"/></m:monitoring>`),
			[]string{`2:123: <a> of the namespace "u:': Missing child element(s)" is not allowed in <m:monitoring>; allowed: <m:metric>`,
				`2:165: <b> of the namespace "u:b" is not allowed in <m:monitoring>; allowed: <m:metric>`}},
		{"missing child", request(`<p:rspec_proxy xmlns:p="http://jfed.iminds.be/proxy/1.0"/>`), []string{`2:1: <p:rspec_proxy> lacks a child; add <p:proxy>`}},
		{"a misspelt child is not missing as well", request(`<p:rspec_proxy xmlns:p="http://jfed.iminds.be/proxy/1.0"><p:prox/></p:rspec_proxy>`),
			[]string{`2:58: <p:prox> is not allowed in <p:rspec_proxy>; allowed: <p:proxy>`}},
		{"elements in text", request(`<u:public_key xmlns:u="http://www.geni.net/resources/rspec/ext/user/1">a<b/></u:public_key>`), []string{`2:1: <u:public_key> may contain only text; remove the elements in it`}},
		{"core elements inside unknown ones", request(`<x:y xmlns:x="u:x"><ip/><z xmlns=""><host xmlns="http://www.geni.net/resources/rspec/3"/></z></x:y>`),
			[]string{`2:20: <ip> lacks the attribute address; add address="…"`}},
		{"unknown elements of a known namespace", request(`<e:blockstore zork="1" xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`), nil},
		{"xsi:type", request(`<link client_id="l" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="zork"/>`),
			[]string{`2:75: xsi:type="zork": The QName value 'zork' of the xsi:type attribute does not resolve to a type definition.`}},
		{"schemaLocation is ignored", "<rspec xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='u:x file:///x.xsd " + schemas.Namespace + " patchbay-schema:///rspec/ad.xsd' type='request' " + rspec3 + "/>", nil},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			found, err := Validate([]byte(tt.in), "", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n(-want +got)\n%s", tt.in, diff)
			}
		})
	}
}

func TestFindingsAreReported(t *testing.T) {
	a, b := Finding{Line: 1, Column: 1, Msg: "a"}, Finding{Line: 2, Column: 1, Msg: "b"}
	incomplete := Finding{Msg: "the document could not be validated to its end: out of memory; try again"}
	for _, tt := range []struct {
		rule   string
		found  []Finding
		more   int
		failed bool
		want   []Finding
	}{
		{"in document order", []Finding{b, a}, 0, false, []Finding{a, b}},
		{"each once, though others are between", []Finding{a, b, a}, 0, false, []Finding{a, b}},
		{"each once, though others are in the same place", []Finding{a, {Line: 1, Column: 1, Msg: "c"}, a}, 0, false, []Finding{a, {Line: 1, Column: 1, Msg: "c"}}},
		{"how many more", []Finding{b, a}, 3, false, []Finding{a, b, {Line: 2, Column: 1, Msg: "3 more findings are not listed; fix those above first"}}},
		{"out of memory", nil, 0, true, []Finding{incomplete}},
		{"out of memory after a finding", []Finding{a}, 0, true, []Finding{a, incomplete}},
	} {
		if diff := cmp.Diff(tt.want, sortedFindings(tt.found, tt.more, tt.failed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.rule, diff)
		}
	}
}

func TestFindingsNameTheirElement(t *testing.T) {
	in := "\xef\xbb\xbf\n\n" + request("<!-- é -->é<node\n\tclient_id='n'\n  é='x'\r\n exclusive = 'no'/>")
	found, err := Validate([]byte(in), schemas.Request, Limits{})
	want := []Finding{
		{3, 1, "rspec", "", "<rspec> contains text, which is not allowed between its elements; remove it"},
		{6, 3, "node", "é", `the attribute "é" is not allowed on <node>; allowed: client_id, component_id, component_manager_id, component_name, exclusive, colocate`},
		{7, 2, "node", "exclusive", `exclusive="no" is not a boolean; write true or false`},
	}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestKindOfADocument(t *testing.T) {
	for _, tt := range []struct{ in, msg string }{
		{"<rspec type='request'/>", "of the namespace"},
		{"<rspec type='request' xmlns='http://www.protogeni.net/resources/rspec/2'/>", "rspec/2"},
		{"<a/>", "<a>"},
		{"<rspec " + rspec3 + "/>", "no type"},
		{"<rspec type='zork' " + rspec3 + "/>", "zork"},
	} {
		_, err := Validate([]byte(tt.in), "", Limits{})
		if e, ok := errors.AsType[*UnknownKindError](err); !ok || !strings.Contains(e.Msg, tt.msg) || e.Line != 1 || e.Column != 1 {
			t.Errorf("%s: got %v, want %q", tt.in, err, tt.msg)
		}
		if found, err := Validate([]byte(tt.in), schemas.Request, Limits{}); len(found) == 0 || err != nil {
			t.Errorf("%s as a request: %v, %v", tt.in, found, err)
		}
	}
	for _, k := range schemas.Kinds() {
		if found, err := Validate([]byte("<rspec type=' "+string(k)+"\n' "+rspec3+"/>"), "", Limits{}); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", k, found, err)
		}
	}
	if _, err := Validate([]byte("<rspec"), "", Limits{}); err == nil {
		t.Error("a broken text was judged")
	}
	if Core("zork") != nil || Known("zork") != nil {
		t.Error("there is a schema for no kind")
	}
}

// TestTheTwoWiderPlaces checks the two places where our schema for manifests allows more than the
// published one.
func TestTheTwoWiderPlaces(t *testing.T) {
	in := "<rspec type='manifest' " + rspec3 + "><node client_id='n'><host name='h' ipv4='192.0.2.1'/></node><link client_id='l'/></rspec>"
	if found, err := Validate([]byte(in), "", Limits{}); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestCoreSchemaIgnoresExtensions(t *testing.T) {
	in := request("<e:fd zork='' xmlns:e='http://www.protogeni.net/resources/rspec/ext/emulab/1'/>")
	if err := Parse([]byte(in), Limits{}, func(d *Doc) error {
		if n := len(d.Validate(Core(schemas.Request))); n != 0 {
			t.Errorf("the core finds %d", n)
		}
		if n := len(d.Validate(Known(schemas.Request))); n != 3 {
			t.Errorf("with extensions %d are found, want 3", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	huge := strings.Repeat("x", 20_000)
	for rule, in := range map[string]string{
		"20 kB where a boolean is wanted":      request("<node client_id='n' exclusive='" + huge + "'/>"),
		"2 kB, which a known library fails on": request("<node client_id='n' exclusive='" + huge[:2000] + "'/>"),
		"1 kB":                                 request("<node client_id='n' exclusive='" + huge[:1024] + "'/>"),
		"4 MB":                                 request("<node client_id='n' exclusive='" + strings.Repeat(huge, 200) + "'/>"),
		"a long name of an attribute":          request("<node client_id='n' " + huge + "=''/>"),
		"a long name of an element":            request("<" + huge + "/>"),
		"a long name that holds others":        request("<node client_id='n'><" + huge + " xmlns='u:x'/><zork/></node>"),
		"a long namespace":                     request("<zork xmlns='http://www.geni.net/resources/rspec/3' p:zork='' xmlns:p='u:" + huge + "'/>"),
		"a long prefix":                        "<" + huge + ":rspec xmlns:" + huge + "='http://www.geni.net/resources/rspec/3' type='request'><" + huge + ":zork/></" + huge + ":rspec>",
		"a long text":                          request(huge),
		"a text with line ends":                request("<node client_id='n' exclusive='a&#10;&#13;b\nc'/>"),
		"characters of four bytes":             request("<node client_id='n' exclusive='" + strings.Repeat("😀", 3000) + "'/>"),
		"many findings":                        request(strings.Repeat("<node exclusive='x' zork='"+huge[:100]+"'/>\n", 5000)),
		"many unexpected elements":             request("<node client_id='n'>" + strings.Repeat("<zork/>", 5000) + "</node>"),
		"unexpected ones in each":              request(strings.Repeat("<node client_id='n'><zork/><zork/></node>", 200)),
	} {
		found, err := Validate([]byte(in), "", Limits{})
		if err != nil || len(found) == 0 || len(found) > MaxFindings+1 {
			t.Errorf("%s: %d findings, %v", rule, len(found), err)
		}
		for _, f := range found {
			if len(f.Msg) > maxMessage+4 || len(f.Element) > maxQuoted+4 || len(f.Attribute) > maxQuoted+4 || strings.ContainsAny(f.Msg, "\n\r") || !utf8.ValidString(f.Msg+f.Element+f.Attribute) {
				t.Errorf("%s: %+v", rule, f)
			}
		}
	}
	found, err := Validate([]byte(request(strings.Repeat("<node/>\n", 250))), "", Limits{})
	if err != nil || len(found) != MaxFindings+1 {
		t.Fatalf("%d findings, %v", len(found), err)
	}
	if last, want := found[MaxFindings], (Finding{Line: 101, Column: 1, Msg: "150 more findings are not listed; fix those above first"}); last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

func TestTextInManyPiecesIsNotJudged(t *testing.T) {
	in := func(n int) string {
		return request("<u:public_key xmlns:u='http://www.geni.net/resources/rspec/ext/user/1'>" + strings.Repeat("a<!---->", n) + "</u:public_key>")
	}
	if found, err := Validate([]byte(in(maxPieces)), "", Limits{}); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	found, err := Validate([]byte(in(100_000)), "", Limits{})
	if err != nil || len(found) != 1 || found[0].Line != 2 || !strings.Contains(found[0].Msg, "pieces") {
		t.Errorf("%v, %v", found, err)
	}
	comments := "<rspec type='request' " + rspec3 + ">" + strings.Repeat("<node client_id='n'/>\n<!-- c -->\n", 5000) + "<zork/></rspec>"
	if found, err := Validate([]byte(comments), "", Limits{}); err != nil || len(found) != 1 || found[0].Element != "zork" {
		t.Errorf("comments between elements: %v, %v", found, err)
	}
}

// TestNamesOfNamespacesCostInProportion checks that the validation passes handle at most maxRepeated
// bytes of namespace names for each byte of a document.
func TestNamesOfNamespacesCostInProportion(t *testing.T) {
	in := func(name int, parts string) []byte {
		return []byte("<rspec type='request' " + rspec3 + " xmlns:z='" + strings.Repeat("u", name) + "'>\n" + parts + "</rspec>")
	}
	zorks := strings.Repeat("<zork/>", 2*passes) // of which each pass finds one
	elements, attributes := strings.Repeat("<z:a/>", 5000), strings.Repeat("<link client_id='l' z:a='' z:b=''/>", 1000)
	for _, tt := range []struct {
		rule  string
		in    []byte
		found int
		msg   string
	}{
		{"short names", in(20, elements+zorks), passes, "<zork> is not allowed"},
		{"long names seldom used", in(20_000, "<z:a/>"+zorks), passes, "<zork> is not allowed"},
		{"names that are too long for two passes", in(150, elements+zorks), 1, "<zork> is not allowed"},
		{"names that are too long for one", in(20_000, elements+zorks), 1, "<z:a> has 20000 bytes"},
		{"names of attributes", in(20_000, zorks+attributes), 1, "<link> has 20000 bytes"},
	} {
		found, err := Validate(tt.in, "", Limits{})
		if err != nil || len(found) != tt.found || found[0].Line != 2 || !strings.Contains(found[0].Msg, tt.msg) {
			t.Errorf("%s: %v, %v", tt.rule, found, err)
		}
	}
}

func TestFindingsBeyondLine65535(t *testing.T) {
	in := request(strings.Repeat("\n", 70_000) + "<node client_id='n'\n  zork=''/><zork/>")
	found, err := Validate([]byte(in), "", Limits{})
	if err != nil || len(found) != 2 || found[0].Line != 70_003 || found[0].Column != 3 || found[1].Line != 70_003 || found[1].Column != 12 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestTheDocumentIsAsItWas validates documents, which removes elements temporarily, and compares their
// canonical form afterwards.
func TestTheDocumentIsAsItWas(t *testing.T) {
	in := request("<zork><a/></zork>t<node client_id='n'>x<zork/>y<zork/><!-- c --><ip/></node><zork/>")
	if err := Parse([]byte(in), Limits{}, func(d *Doc) error {
		before, err := d.Canonical(d.Root, C14N10, nil)
		if err != nil {
			return err
		}
		first := d.Validate(Known(schemas.Request))
		if len(first) < 6 {
			t.Errorf("only %v", first)
		}
		if diff := cmp.Diff(first, d.Validate(Known(schemas.Request))); diff != "" {
			t.Errorf("judged again:\n%s", diff)
		}
		after, err := d.Canonical(d.Root, C14N10, nil)
		if string(before) != string(after) {
			t.Errorf("the document was changed:\n%s\n%s", before, after)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestValidateAfterParseIsRefused(t *testing.T) {
	var doc *Doc
	if err := Parse([]byte("<a/>"), Limits{}, func(d *Doc) error { doc = d; return nil }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a closed document was judged")
		}
	}()
	doc.Validate(Core(schemas.Request))
}

// TestOneSchemaManyGoroutines shares the compiled schemas.
func TestOneSchemaManyGoroutines(t *testing.T) {
	valid := []byte(request(`<node client_id="n" exclusive="true"/>`))
	invalid := []byte(request(`<node exclusive="maybe"/><zork/>`))
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 200 {
				if (g+i)%2 == 0 {
					if found, err := Validate(valid, "", Limits{}); err != nil || len(found) != 0 {
						t.Errorf("%v, %v", found, err)
					}
				} else if found, err := Validate(invalid, "", Limits{}); err != nil || len(found) != 3 {
					t.Errorf("%v, %v", found, err)
				}
			}
		})
	}
	all.Wait()
}

// TestSchemasAreServedToTheirCompilerOnly checks that documents cannot load schemas by their names.
func TestSchemasAreServedToTheirCompilerOnly(t *testing.T) {
	Known(schemas.Request).compile()
	dir := t.TempDir()
	other := filepath.Join(dir, "other.xsd")
	// It would allow the root, if it were loaded.
	if err := os.WriteFile(other, []byte(`<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="u:x"><xs:element name="y"/></xs:schema>`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{other, "file://" + other, schemaURL + "request.xsd", "http://127.0.0.1:1/x.xsd"} {
		in := "<x:y xmlns:x='u:x' xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='u:x " + where + "'/>"
		if found, err := Validate([]byte(in), schemas.Request, Limits{}); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", where, found, err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		for range 20 {
			newSchema(schemas.Known(schemas.Manifest)).compile()
		}
	})
	for range 200 {
		if isLoadable(schemaURL + "request.xsd") {
			t.Error("a document's loader gets schemas")
		}
		if isLoadable(other) {
			t.Error("a document's loader gets files")
		}
	}
	all.Wait()
}

func TestValidatingKeepsMemoryFlat(t *testing.T) {
	runtime.LockOSThread() // one thread has one heap in C
	defer runtime.UnlockOSThread()
	valid := []byte(request(strings.Repeat(`<node client_id="n" exclusive="true"><interface client_id="i"/></node>`, 20)))
	invalid := []byte(request(strings.Repeat(`<node exclusive="maybe"><zork/>text</node>`, 60)))
	round := func(n int) {
		for range n {
			_, _ = Validate(valid, "", Limits{})
			_, _ = Validate(valid, "", Limits{})
			_, _ = Validate(valid, "", Limits{})
			_, _ = Validate(invalid, "", Limits{})
		}
		debug.FreeOSMemory()
	}
	round(200)
	before := resident(t)
	round(500)
	grown := resident(t) - before
	t.Logf("grew by %d kB", grown)
	if grown > 4<<10 {
		t.Errorf("grew by %d kB over 2000 documents", grown)
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(request(`<node client_id="n" exclusive="maybe" zork=''><zork/>t<ip/></node><x:y xmlns:x='u:x' x:a="1" b='>'/>`))
	f.Add("\xef\xbb\xbf " + request("<link\tclient_id\n=\r\n'é'  vlantag = \"&lt;\"><component_manager>x</component_manager></link >"))
	f.Add(request(`<m:monitoring enabled="1" xmlns:m="http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1"><m:metric id="-"/></m:monitoring>`))
	f.Fuzz(func(t *testing.T, in string) {
		err := Parse([]byte(in), Limits{Bytes: 1 << 16}, func(d *Doc) error {
			for _, e := range d.elements {
				places := d.attributePlaces(e)
				for i, p := range places {
					line := strings.Split(in, "\n")[p.line-1]
					if p.line == 1 {
						line = strings.TrimPrefix(line, byteOrderMark)
					}
					want := prefixedName(e.Attrs[i].Prefix, e.Attrs[i].Local)
					if got := string([]rune(line)[p.column-1:]); !strings.HasPrefix(got, want) {
						t.Fatalf("%d:%d is %q, not the attribute %s", p.line, p.column, got, want)
					}
				}
			}
			for _, k := range schemas.Kinds() {
				core, known := d.Validate(Core(k)), d.Validate(Known(k))
				if len(core) > 0 && len(known) == 0 {
					t.Fatalf("with extensions less is found than %v", core)
				}
				for _, f := range append(core, known...) {
					if f.Msg == "" || len(f.Msg) > maxMessage+4 || f.Element != "" && (f.Line < 1 || f.Column < 1) {
						t.Fatalf("%+v", f)
					}
				}
			}
			return nil
		})
		_ = err
	})
}
