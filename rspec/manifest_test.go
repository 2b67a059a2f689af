package rspec

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am/urn"
)

var update = flag.Bool("update", false, "write the manifests in testdata anew")

var someTime = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func options() ManifestOptions {
	return ManifestOptions{Manager: us, Generated: someTime, Expires: someTime.Add(24 * time.Hour), GeneratedBy: "patchbay"}
}

func facts(i int) NodeFacts {
	return NodeFacts{
		ComponentID:   urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+node+pc%d", i)),
		SliverID:      urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+%d", i)),
		ComponentName: fmt.Sprintf("pc%d", i), Exclusive: true,
	}
}

// fullFacts has a value for every fact.
func fullFacts(i int) NodeFacts {
	f := facts(i)
	f.SliverType, f.DiskImage, f.HardwareType = "raw-pc", "urn:publicid:IDN+example.org+image+debian", "pc3000"
	f.Hosts = []Host{{fmt.Sprintf("pc%d.example.org", i), "192.0.2.10"}, {Name: "alias.example.org"}}
	f.Logins = []Login{{Hostname: "gw.example.org", Username: "alice"}, {"192.0.2.10", 2222, "bob"}}
	f.Users = []User{{"alice", urn.MustParse("urn:publicid:IDN+example.org+user+alice"), []string{"ssh-ed25519 AAAA alice <é>\n"}}, {Login: "bob"}}
	f.Proxies = []Proxy{{"gw@gw.example.org:22", "bob@192.0.2.10:2222"}}
	return f
}

// part returns a Part with the facts f of every own node of r.
func part(r *Request, f func(int) NodeFacts) Part {
	p := Part{Request: r, Nodes: map[string]NodeFacts{}}
	for i, n := range r.Nodes {
		p.Nodes[n.ClientID] = f(i)
	}
	return p
}

// everything is part with full facts, and all facts of lifetimes, interfaces and links.
func everything(r *Request) Part {
	p := part(r, fullFacts)
	p.Links = map[string]LinkFacts{}
	for i, n := range r.Nodes {
		f := p.Nodes[n.ClientID]
		life := withLife(i)
		f.Sliver, f.VNode = life.Sliver, life.VNode
		f.Granted = []Granted{{"cpu.count", "4"}}
		f.Interfaces = map[string]InterfaceFacts{}
		for k, in := range n.Interfaces {
			f.Interfaces[in.ClientID] = InterfaceFacts{
				ComponentID: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+interface+pc%d:eth%d", i, k)),
				MAC:         fmt.Sprintf("02%06x%04x", i, k),
				Addresses: []netip.Prefix{
					netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(1 + k)}), 8),
					netip.MustParsePrefix(fmt.Sprintf("fd00::%x:%x/64", i, 1+k)),
				},
			}
		}
		p.Nodes[n.ClientID] = f
	}
	for i, l := range r.Links {
		p.Links[l.ClientID] = LinkFacts{VLANTag: fmt.Sprint(100 + i)}
	}
	return p
}

func mustWrite(t testing.TB, o ManifestOptions, parts ...Part) string {
	t.Helper()
	b, err := WriteManifest(parts, o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReplacedFactsKeepTheTextAroundThem(t *testing.T) {
	for _, tt := range []struct{ before, kept string }{
		{"a >  ", "a >  "}, {"a>", "a>"}, {"a&gt; ", "a&gt; "}, {"&#32; ", "&#32; "}, {"<![CDATA[a]]> ", "<![CDATA[a]]> "},
		{"\n  ", ""}, {"a<b xmlns='u:'/> ", "a<b xmlns='u:'/>"}, {"a > <!-- --> ", "a > <!-- -->"}, {"a > <?p?>\t", "a > <?p?>"},
		{"a > <host name='g'/> ", "a > "},
	} {
		in := request(`<node client_id="a">` + tt.before + `<host name="h"/></node>`)
		got := mustWrite(t, options(), part(mustParse(t, in, ours()), facts))
		_, got, _ = strings.Cut(got, "<node")
		_, got, _ = strings.Cut(got, ">")
		if got, _, _ = strings.Cut(got, "</node>"); got != tt.kept {
			t.Errorf("%q: got %q, want %q", tt.before, got, tt.kept)
		}
	}
}

var manifestType = regexp.MustCompile(`(\stype\s*=\s*["'])manifest(["'])`)

// asRequest changes a manifest to a request, as a user does.
func asRequest(manifest string) string {
	at := manifestType.FindStringSubmatchIndex(manifest)
	return manifest[:at[3]] + "request" + manifest[at[4]:]
}

// TestManifestOfAManifest requests a manifest again. The new manifest has each fact once, and
// further repetitions change nothing.
func TestManifestOfAManifest(t *testing.T) {
	requests, _ := filepath.Glob("testdata/*.request.xml")
	for _, file := range requests {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		again := func(text string) string {
			return mustWrite(t, options(), everything(mustParse(t, []byte(asRequest(text)), reading())))
		}
		once := mustWrite(t, options(), everything(mustParse(t, in, reading())))
		twice := again(once)
		for _, fact := range []string{"<host ", "<login ", "<services_user ", "<proxy ", "<hardware_type ", "<disk_image ", "<services", " sliver_id=",
			"<geni_sliver_info ", "<vnode ", "<ip ", " mac_address=", " vlantag=", " component_id="} {
			if a, b := strings.Count(once, fact), strings.Count(twice, fact); a != b {
				t.Errorf("%s: %d of %s, then %d", file, a, fact, b)
			}
		}
		if thrice := again(twice); thrice != twice {
			t.Errorf("%s: still changes\n%s\n%s", file, twice, thrice)
		}
	}
}

func TestCorrectAttributesAreUnchanged(t *testing.T) {
	in := `<rspec type = 'manifest' xmlns="` + Namespace + `"/>`
	in = strings.Replace(in, "manifest", "request", 1)
	got := mustWrite(t, ManifestOptions{Manager: us, Generated: someTime}, Part{Request: mustParse(t, []byte(in), ours())})
	want := `<rspec type = 'manifest' xmlns="` + Namespace + `" generated="2030-01-02T03:04:05Z" xmlns:xsi="` + xsiSpace + `" xsi:schemaLocation="` + Namespace + ` ` + ManifestSchema + `"/>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestManifestLocations(t *testing.T) {
	const r3 = Namespace
	for _, tt := range []struct {
		rule, in string
		add      []pair
		want     string
	}{
		{"the RSpec's schema is replaced", r3 + " " + RequestSchema, nil, r3 + " " + ManifestSchema},
		{"white space and other pairs stay", "\n urn:x\tx.xsd  " + r3 + "\n" + RequestSchema + " ", nil, "\n urn:x\tx.xsd  " + r3 + "\n" + ManifestSchema + " "},
		{"wherever it is said to be", r3 + " file:///request.xsd", nil, r3 + " " + ManifestSchema},
		{"a pasted advertisement's", r3 + " " + AdSchema, nil, r3 + " " + ManifestSchema},
		{"a schema without its namespace", RequestSchema, nil, ManifestSchema},
		{"none of ours", "urn:x x.xsd", nil, "urn:x x.xsd " + r3 + " " + ManifestSchema},
		{"empty", "", nil, " " + r3 + " " + ManifestSchema},
		{"already a manifest's", r3 + " " + ManifestSchema, nil, r3 + " " + ManifestSchema},
		{"extensions are added once", r3 + " " + RequestSchema + " urn:x x.xsd", []pair{{"urn:x", "y.xsd"}, {"urn:y", "y.xsd"}, {"urn:y", "y.xsd"}, {r3, RequestSchema}},
			r3 + " " + ManifestSchema + " urn:x x.xsd urn:y y.xsd"},
		{"spelled in references", "&#x20;" + strings.ReplaceAll(r3, "/", "&#47;") + "&#10;" + strings.ReplaceAll(RequestSchema, ".", "&#x2e;") + " urn:&amp; x.xsd&#9;",
			[]pair{{"urn:&", "y.xsd"}, {"urn:y&", "y.xsd"}},
			"&#x20;" + strings.ReplaceAll(r3, "/", "&#47;") + "&#10;" + ManifestSchema + " urn:&amp; x.xsd urn:y&amp; y.xsd&#9;"},
		{"references in the RSpec's pair", r3 + "&#x9;" + r3 + "/&#114;equest.xsd&#32;urn:&lt;&gt;&quot;&apos;&#60; x", []pair{{`urn:<>"'<`, "y"}}, r3 + "&#x9;" + ManifestSchema + "&#32;urn:&lt;&gt;&quot;&apos;&#60; x"},
		{"a word within a word", r3 + "/x x.xsd " + r3 + " " + RequestSchema, nil, r3 + "/x x.xsd " + r3 + " " + ManifestSchema},
	} {
		if got := manifestLocations(tt.in, tt.add); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.rule, got, tt.want)
		}
	}
}

func TestSchemaLocationUnderAnyPrefix(t *testing.T) {
	for _, tt := range []struct{ rule, attrs, want string }{
		{"no prefix declared", ``, ` xmlns:xsi="` + xsiSpace + `" xsi:schemaLocation="` + Namespace + ` ` + ManifestSchema + `"`},
		{"prefix declared", ` xmlns:i="` + xsiSpace + `"`, ` i:schemaLocation="` + Namespace + ` ` + ManifestSchema + `"`},
		{"prefix taken", ` xmlns:xsi="urn:x" xmlns:xsi1="urn:y"`, ` xmlns:xsi2="` + xsiSpace + `" xsi2:schemaLocation="` + Namespace + ` ` + ManifestSchema + `"`},
		{"unprefixed schemaLocation is another", ` schemaLocation="x"`, ` xsi:schemaLocation="` + Namespace + ` ` + ManifestSchema + `"`},
	} {
		in := strings.Replace(string(request("")), "<rspec", "<rspec"+tt.attrs, 1)
		got := mustWrite(t, options(), Part{Request: mustParse(t, []byte(in), ours())})
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", tt.rule, got)
		}
		mustParse(t, []byte(asRequest(got)), ours())
	}
}

func TestASCII(t *testing.T) {
	in := `<?xml version="1.0"?><!-- é --><rspec type="request" xmlns="` + Namespace + `"><é:x xmlns:é="urn:é" a='é>"é' b="1"/>é&#233;<![CDATA[a<é€>b]]><?p é?>` + "\U0001F600" + `</rspec>`
	r := mustParse(t, []byte(in), ours())
	o := options()
	o.ASCII = true
	got := mustWrite(t, o, Part{Request: r})
	for _, want := range []string{
		"<!--   -->", `a='&#xE9;>"&#xE9;' b="1"/>`, `&#xE9;&#233;<![CDATA[a<]]>&#xE9;&#x20AC;<![CDATA[>b]]><?p  ?>&#x1F600;</rspec>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwithout %s", got, want)
		}
	}
	plain := mustWrite(t, options(), Part{Request: r})
	a, b := mustParse(t, []byte(asRequest(got)), ours()), mustParse(t, []byte(asRequest(plain)), ours())
	if a.doc.elements[0].Text() != b.doc.elements[0].Text() {
		t.Error("the text means something else")
	}
	if !strings.Contains(plain, in[strings.Index(in, "<é"):]) {
		t.Errorf("without the option the characters do not stay: %s", plain)
	}
}

// TestASCIILeavesNames checks that the option ASCII leaves a manifest with names that are not ASCII
// unchanged, because XML has no references in names.
func TestASCIILeavesNames(t *testing.T) {
	o := options()
	o.ASCII = true
	for _, in := range []string{"<é:ü xmlns:é='urn:x' é:ä='1'/>", "<?é?>", "<?é b?>", "<?pé?><?p?>"} {
		got := mustWrite(t, o, Part{Request: mustParse(t, request(in), ours())})
		if !strings.Contains(got, in) {
			t.Errorf("%s: became %s", in, got)
		}
		mustParse(t, []byte(asRequest(got)), ours())
	}
}

func TestSplicedTextIsASCIIAndEscaped(t *testing.T) {
	f := facts(0)
	nasty := "<&>\"'é\n\x01\U0001F600\xff"
	f.Hosts = []Host{{nasty, nasty}}
	f.Logins = []Login{{nasty, 1, nasty}}
	f.Users = []User{{nasty, urn.URN{}, []string{nasty}}}
	f.Proxies = []Proxy{{nasty, nasty}}
	f.ComponentName, f.SliverType, f.DiskImage, f.HardwareType = nasty, nasty, nasty, nasty
	o := options()
	o.GeneratedBy = nasty
	for _, in := range []string{`<node client_id="a"/>`, `<node client_id='a' component_name='x'><sliver_type name="x"/><services/></node>`} {
		got := mustWrite(t, o, Part{Request: mustParse(t, request(in), ours()), Nodes: map[string]NodeFacts{"a": f}})
		if !isASCII(got) {
			t.Errorf("not ASCII: %s", got)
		}
		r := mustParse(t, []byte(asRequest(got)), ours())
		read := strings.ReplaceAll(strings.ReplaceAll(nasty, "\x01", "\uFFFD"), "\xff", "\uFFFD")
		if host := children(r.doc.elements[1], "host")[0]; value(host, "name") != read {
			t.Errorf("host reads %q, want %q", value(host, "name"), read)
		}
		if r.Nodes[0].HardwareType != read || r.Nodes[0].DiskImage != read || r.GeneratedBy != read {
			t.Errorf("%+v", r.Nodes[0])
		}
	}
}

// manyNodes is a request of n nodes of some 400 bytes.
func manyNodes(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`<rspec type="request" xmlns="` + Namespace + `">` + "\n")
	for i := range n {
		fmt.Fprintf(&b, `  <node client_id="n%d" exclusive="true" component_manager_id="urn:publicid:IDN+example.org+authority+cm">
    <sliver_type name="raw-pc"><disk_image name="urn:publicid:IDN+example.org+image+debian"/></sliver_type>
    <interface client_id="n%d:0"><ip address="10.0.%d.%d" netmask="255.255.0.0" type="ipv4"/></interface>
    <services><execute shell="sh" command="true"/></services>
  </node>
`, i, i, i/250%250, i%250+1)
	}
	b.WriteString("</rspec>\n")
	return b.Bytes()
}

func BenchmarkParseRequest(b *testing.B) {
	for _, n := range []int{4, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := manyNodes(n)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				mustParse(b, in, ours())
			}
		})
	}
}

// pairs is manyNodes with a link in each pair of nodes.
func pairs(n int) []byte {
	b := bytes.TrimSuffix(manyNodes(n), []byte("</rspec>\n"))
	for i := 0; i+1 < n; i += 2 {
		b = fmt.Appendf(b, `  <link client_id="l%d"><interface_ref client_id="n%d:0"/><interface_ref client_id="n%d:0"/><link_type name="lan"/></link>`+"\n", i, i, i+1)
	}
	return append(b, "</rspec>\n"...)
}

func BenchmarkWriteManifest(b *testing.B) {
	for _, n := range []int{4, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := pairs(n)
			p := everything(mustParse(b, in, ours()))
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				mustWrite(b, options(), p)
			}
		})
	}
}
