package rspec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/urn"
)

// summary returns a parsed request as one line.
func summary(r *Request) string {
	var b strings.Builder
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "%s[", n.ClientID)
		for _, i := range n.Interfaces {
			b.WriteString(i.ClientID + " ")
		}
		b.WriteString("]")
	}
	for _, l := range r.Links {
		fmt.Fprintf(&b, " %s(%s)", l.ClientID, strings.Join(l.Interfaces, " "))
	}
	if r.Foreign > 0 {
		fmt.Fprintf(&b, " +%d", r.Foreign)
	}
	return b.String()
}

// TestNamesCountNotSpellings reads one request in the spellings that XML allows and clients use.
func TestNamesCountNotSpellings(t *testing.T) {
	const ns = Namespace
	for _, tt := range []struct{ rule, in string }{
		{"default namespace", `<rspec type="request" xmlns="` + ns + `"><node client_id="a"><interface client_id="a:0"/></node><link client_id="l"><interface_ref client_id="a:0"/></link></rspec>`},
		{"prefixed", `<r:rspec type="request" xmlns:r="` + ns + `"><r:node client_id="a"><r:interface client_id="a:0"/></r:node><r:link client_id="l"><r:interface_ref client_id="a:0"/></r:link></r:rspec>`},
		{"a prefix for each level", `<r:rspec type="request" xmlns:r="` + ns + `"><s:node xmlns:s="` + ns + `" client_id="a"><t:interface xmlns:t="` + ns + `" client_id="a:0"/></s:node><link xmlns="` + ns + `" client_id="l"><r:interface_ref client_id="a:0"/></link></r:rspec>`},
		{"the default declared again on each child", `<rspec type="request" xmlns="` + ns + `"><node xmlns="` + ns + `" client_id="a"><interface xmlns="` + ns + `" client_id="a:0"/></node><link xmlns="` + ns + `" client_id="l"><interface_ref xmlns="` + ns + `" client_id="a:0"/></link></rspec>`},
		{"another default namespace at the root", `<r:rspec type="request" xmlns="urn:z" xmlns:r="` + ns + `"><node client_id="z"/><r:node client_id="a"><interface client_id="z"/><r:interface client_id="a:0"/></r:node><r:link client_id="l"><r:interface_ref client_id="a:0"/></r:link></r:rspec>`},
		{"a prefix that means something else inside", `<r:rspec type="request" xmlns:r="` + ns + `"><r:node client_id="a"><x xmlns:r="urn:x"><r:interface client_id="x"/></x><r:interface client_id="a:0"/></r:node><r:link client_id="l"><r:interface_ref client_id="a:0"/></r:link></r:rspec>`},
		{"no namespace inside", `<rspec type="request" xmlns="` + ns + `"><node xmlns="" client_id="x"/><node client_id="a"><interface xmlns="" client_id="x"/><interface client_id="a:0"/><e xmlns=""><node client_id="y"/></e></node><link xmlns=""/><link client_id="l"><interface_ref xmlns="" client_id="x"/><interface_ref client_id="a:0"/></link></rspec>`},
		{"core elements inside extensions", `<rspec type="request" xmlns="` + ns + `"><x:wrap xmlns:x="urn:x"><node client_id="x"/><link client_id="x"/></x:wrap><node client_id="a"><x:wrap xmlns:x="urn:x"><interface client_id="x"/><node client_id="y"/></x:wrap><interface client_id="a:0"><interface client_id="z"/></interface></node><link client_id="l"><x:wrap xmlns:x="urn:x"><interface_ref client_id="x"/></x:wrap><interface_ref client_id="a:0"/></link></rspec>`},
		{"links before nodes, mixed", `<rspec type="request" xmlns="` + ns + `"><link client_id="l"><interface_ref client_id="a:0"/></link><x/><node client_id="a"><interface client_id="a:0"/></node></rspec>`},
		{"single quotes, blanks, references", `<rspec	type = 'request'` + "\r\n" + ` xmlns='` + ns + `' ><node client_id = '&#x61;' ><interface client_id='a&#58;0' /></node ><link client_id="l"><interface_ref client_id="a:0"></interface_ref></link></rspec>`},
		{"CDATA, comments, instructions between", `<rspec type="request" xmlns="` + ns + `"><![CDATA[<node>]]><!-- <node/> --><node client_id="a"><?p <interface/>?><interface client_id="a:0"/><![CDATA[<interface/>]]></node><link client_id="l">text<interface_ref client_id="a:0"/></link></rspec>`},
		{"unqualified unknown attributes and children", `<rspec type="request" xmlns="` + ns + `" pi_tag="1"><node client_id="a" pi_tag="2" public_ipv4="3"><unknown/><interface client_id="a:0" x="4"><unknown/></interface></node><link client_id="l" x="5"><unknown/><interface_ref client_id="a:0" x="6"/></link><unknown/></rspec>`},
		{"attributes of other namespaces", `<rspec type="request" xmlns="` + ns + `" xmlns:x="urn:x" x:type="manifest"><node x:client_id="z" client_id="a" x:component_manager_id="` + them + `" x:exclusive="?"><interface x:client_id="z" client_id="a:0"/></node><link x:client_id="z" client_id="l"><interface_ref client_id="a:0" x:client_id="z"/></link></rspec>`},
	} {
		body := tt.in
		for _, head := range []string{"", "\xef\xbb\xbf", "\r\n\t ", "\xef\xbb\xbf\n", "<?xml version='1.0'?>\n", `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>`, `<?xml version="1.1" encoding="utf-8"?>` + "\r\n", "\xef\xbb\xbf <?xml version='1.1' encoding='Utf-8'?>", "<!-- c --><?p?>"} {
			r := mustParse(t, []byte(head+body+"\n<!-- the end -->\n"), ours())
			if got, want := summary(r), "a[a:0 ] l(a:0)"; got != want || len(r.Notices) != 0 {
				t.Errorf("%s behind %q: got %s, want %s, notices %v", tt.rule, head, got, want, r.Notices)
			}
		}
	}
}

func TestCRLFChangesNothing(t *testing.T) {
	in := "<node client_id=\"a\">\n<services>\n<execute shell=\"sh\" command=\"a&#10;b\"/>\n</services></node>\n"
	lf, crlf := mustParse(t, request(in), ours()), mustParse(t, request(strings.ReplaceAll(in, "\n", "\r\n")), ours())
	if diff := cmp.Diff(lf.Nodes, crlf.Nodes, places); diff != "" {
		t.Error(diff)
	}
	if c := crlf.Nodes[0].Services.Steps[0].Command; c != "a\nb" {
		t.Errorf("command %q", c)
	}
}

func TestRootAttributesAreNotChecked(t *testing.T) {
	for _, attrs := range []string{
		`generated="2015-01-01 10:00:00.123456"`, `generated="never" expires=""`, `expires="2001-01-01T00:00:00Z"`,
		`xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="odd"`, `valid_until="x" client_id=""`,
	} {
		mustParse(t, []byte(`<rspec type="request" `+attrs+` xmlns="`+Namespace+`"><node client_id="a"/></rspec>`), ours())
	}
}

func TestFurtherManagersAreOurs(t *testing.T) {
	o := ours()
	o.Managers = append(o.Managers, urn.MustParse("urn:publicid:IDN+old.example.org+authority+cm"), urn.MustParse("urn:publicid:IDN+example.org+authority+rack"))
	for _, tt := range []struct {
		attrs string
		own   bool
	}{
		{`component_manager_id="urn:publicid:IDN+OLD.example.org+authority+am"`, true},
		{`component_manager_id="urn:publicid:IDN+example.org+authority+rack"`, true},
		{`component_manager_id="urn:publicid:IDN+old.example.org+authority+rack"`, false},
		{`component_id="urn:publicid:IDN+old.example.org+node+pc1"`, true},
		{`component_id="urn:publicid:IDN+Old.Example.org:rack1+node+pc1"`, true},
		{`component_id="urn:publicid:IDN+older.example.org+node+pc1"`, false},
		{`component_manager_id=" ` + us.String() + "&#10;\"", true},
	} {
		r := mustParse(t, request(`<node client_id="a" `+tt.attrs+`/>`), o)
		if len(r.Nodes) == 1 != tt.own || r.Foreign == 1 == tt.own {
			t.Errorf("%s: %d own, %d foreign", tt.attrs, len(r.Nodes), r.Foreign)
		}
	}
	if r := mustParse(t, request(`<node client_id="a" component_manager_id="`+us.String()+`"/><node client_id="b"/>`), ReadOptions{}); summary(r) != "b[] +1" {
		t.Errorf("without managers: %s", summary(r))
	}
}

func TestNodeIsRead(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		rule, attrs, in string
		want            Node
	}{
		{"image by name", "", `<sliver_type name="vm"><disk_image name="debian"/></sliver_type>`, Node{SliverType: "vm", DiskImage: "debian"}},
		{"image by URN, of another authority", "", `<sliver_type name="vm"><disk_image name="urn:publicid:IDN+elsewhere.example.net+image+x//y" version="1" os="Linux"/></sliver_type>`, Node{SliverType: "vm", DiskImage: "urn:publicid:IDN+elsewhere.example.net+image+x//y"}},
		{"image by URL as name", "", `<sliver_type name="vm"><disk_image name="https://example.org/i?a=1&amp;b=2"/></sliver_type>`, Node{SliverType: "vm", DiskImage: "https://example.org/i?a=1&b=2"}},
		{"image by URL", "", `<sliver_type name="vm"><disk_image url="https://example.org/i"/></sliver_type>`, Node{SliverType: "vm", DiskImageURL: "https://example.org/i"}},
		{"image by both", "", `<sliver_type name="vm"><disk_image url="https://example.org/i" name="debian"/></sliver_type>`, Node{SliverType: "vm", DiskImage: "debian", DiskImageURL: "https://example.org/i"}},
		{"the first image counts", "", `<sliver_type name="vm"><disk_image name="a"/><disk_image name="b"/></sliver_type>`, Node{SliverType: "vm", DiskImage: "a"}},
		{"an image outside of sliver_type is not read", "", `<disk_image name="a"/>`, Node{}},
		{"sliver_type that is a URL", "", `<sliver_type name="http://example.org/types#vm"/>`, Node{SliverType: "http://example.org/types#vm"}},
		{"hardware_type with Emulab's slots", "", `<hardware_type name="pcvm"><emulab:node_type xmlns:emulab="` + emulabSpace + `" type_slots="1"/></hardware_type>`, Node{HardwareType: "pcvm"}},
		{"colocate", `colocate="g"`, "", Node{Colocate: "g"}},
		{"exclusive as 1", `exclusive="1"`, "", Node{Exclusive: &yes}},
		{"several services", "", `<services><install url="http://u" install_path="/p"/></services><services/><services><execute shell="sh" command="1"/><execute shell="bash" command="2"/></services>`, Node{Services: services(install("http://u", "/p"), execute("sh", "1"), execute("bash", "2"))}},
		{"routable_control_ip", "", `<e:routable_control_ip xmlns:e="` + emulabSpace + `"/>`, Node{RoutableIP: true}},
		{"routable_control_ip before others", "", `<e:routable_control_ip xmlns:e="` + emulabSpace + `"/><e:fd xmlns:e="` + emulabSpace + `"/>`, Node{RoutableIP: true}},
		{"routable_control_ip of another namespace", "", `<routable_control_ip/><e:routable_control_ip xmlns:e="urn:x"/>`, Node{}},
		{"routable_control_ip deeper down", "", `<services><e:routable_control_ip xmlns:e="` + emulabSpace + `"/></services>`, Node{}},
		{"other Emulab elements are copied", "", `<e:vnode xmlns:e="` + emulabSpace + `" name="x" hardware_type="y"/><e:fd xmlns:e="` + emulabSpace + `" name="x" weight="1"/>`, Node{}},
		{"location of another namespace", "", `<j:location xmlns:j="http://jfed.iminds.be/rspec/ext/jfed/1" x="1" y="2"/><location/>`, Node{}},
		{"facts of an earlier manifest", `sliver_id="urn:publicid:IDN+example.org+sliver+1"`, `<host name="h"/><services><login authentication="ssh-keys"/><services_user xmlns="` + oldUserSpace + `" login="l"><public_key>k</public_key></services_user><services_user xmlns="` + userSpace + `" login="l"/><p:proxy xmlns:p="` + proxySpace + `"/></services>`, Node{}},
		{"user extension in the wrong place", "", `<services_user xmlns="` + userSpace + `" login="l"/>`, Node{}},
	} {
		r := mustParse(t, request(`<node client_id="a" `+tt.attrs+`>`+tt.in+`</node>`), ours())
		tt.want.ClientID, tt.want.Line = "a", 1
		if diff := cmp.Diff([]Node{tt.want}, r.Nodes, places); diff != "" || len(r.Notices) != 0 {
			t.Errorf("%s: %s %v", tt.rule, diff, r.Notices)
		}
	}
}

// TestTheFirstOfSeveralTypesCounts (S5). The manifest of rule07-sliver-types-after-the-first-go has
// only the first sliver_type.
func TestTheFirstOfSeveralTypesCounts(t *testing.T) {
	r := mustParse(t, request(`<node client_id="a"><sliver_type name="x"/><sliver_type name="y"><disk_image name="i"/></sliver_type><hardware_type name="h"/><hardware_type name="g"/><hardware_type name="f"/></node>`), ours())
	if n := r.Nodes[0]; n.SliverType != "x" || n.DiskImage != "" || n.HardwareType != "h" || len(r.Notices) != 2 ||
		r.Notices[0].Text() != `node "a" has several sliver_types; the first one counts, and the manifest leaves out the others` {
		t.Errorf("got %+v, %v", n, r.Notices)
	}
}

func TestManyNodesAreFoundByName(t *testing.T) {
	r := mustParse(t, wide(2000), ours())
	for i := range r.Nodes {
		if n, ok := r.Node(r.Nodes[i].ClientID); !ok || n != &r.Nodes[i] {
			t.Fatalf("node %d is not found", i)
		}
	}
	byHand := Request{Nodes: r.Nodes}
	if n, ok := byHand.Node("node7"); !ok || n != &r.Nodes[7] {
		t.Error("not found in a request made by hand")
	}
	if _, ok := byHand.Node("nobody"); ok {
		t.Error("found a missing node")
	}
}

func TestStoredRequestsAreReadDespiteNewRules(t *testing.T) {
	o := ours()
	o.Limits = Limits{Nodes: 1, ClientID: 1, Elements: 3}
	o.Stored = true
	r := mustParse(t, request(`
		<node client_id="aa" exclusive="?" component_id="?"><sliver_type/><interface/><interface client_id="aa:0"><ip address="?"/><ip address="10.0.0.1"/></interface><interface client_id="aa:1"><ip address="10.0.0.1"/></interface></node>
		<node client_id="f" component_manager_id="`+them+`"><interface client_id="f:0"/></node>
		<node client_id="b"><interface client_id="b:0"/></node>
		<link client_id="l"><interface_ref client_id="aa:0"/><interface_ref client_id="aa:0"/><interface_ref client_id="nobody"/><interface_ref client_id="aa:1"/><link_type name="odd"/><property capacity="?"/></link>
		<link client_id="m"><interface_ref client_id="aa:0"/><interface_ref client_id="f:0"/></link>
		<link client_id="n"/>`), o)
	if got := summary(r); got != "aa[ aa:0 aa:1 ]b[b:0 ] l(aa:0 aa:0 aa:1) n() +1" {
		t.Errorf("got %s", got)
	}
	if n, ok := r.Node("b"); !ok || n.ClientID != "b" {
		t.Error("b is not found")
	}
	mustWrite(t, options(), part(r, fullFacts))
	if _, err := ParseRequest([]byte("<rspec"), o); err == nil {
		t.Error("an invalid document was read")
	}
}

// encoding/xml accepts the names of the first editions of XML 1.0 only, libxml2 those of the fifth
// edition. Names that only one of them accepts are refused with their position.
func TestNamesThatReadersDisagreeOnAreRefused(t *testing.T) {
	for _, name := range []string{"\u2c00", "\u037f", "a\u203f", "\U00010000"} {
		e := refusalOf(t, request("<node client_id='a'/>\n  <x:"+name+" xmlns:x='urn:x'/>"), ours())
		if e.Kind != BadArgs || e.Line != 2 || e.Column != 3 || !strings.Contains(e.Msg, "XML readers disagree") {
			t.Errorf("%q: %d:%d %v", name, e.Line, e.Column, e)
		}
	}
}
