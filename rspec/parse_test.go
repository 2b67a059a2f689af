package rspec

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am/urn"
	"patchbay/rspec/step"
)

var (
	us   = urn.MustParse("urn:publicid:IDN+example.org+authority+cm")
	them = "urn:publicid:IDN+elsewhere.example.net+authority+am"
)

// places ignores positions and unexported fields in a comparison.
var places = cmp.Options{cmpopts.IgnoreUnexported(Node{}), cmpopts.IgnoreFields(Node{}, "Column"), cmpopts.IgnoreFields(Link{}, "Column"), cmpopts.EquateComparable(netip.Prefix{})}

func ours() ReadOptions { return ReadOptions{Managers: []urn.URN{us}, LinkTypes: []string{"lan"}} }

// request wraps the content of a root.
func request(content string) []byte {
	return []byte(`<rspec type="request" xmlns="` + Namespace + `">` + content + `</rspec>`)
}

func mustParse(t testing.TB, b []byte, o ReadOptions) *Request {
	t.Helper()
	r, err := ParseRequest(b, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return r
}

func TestParseRequestRefuses(t *testing.T) {
	node := func(attrs, content string) string { return "<node " + attrs + ">" + content + "</node>" }
	a := node(`client_id="a"`, `<interface client_id="a:0"/>`)
	b := node(`client_id="b"`, `<interface client_id="b:0"/>`)
	foreign := node(`client_id="f" component_manager_id="`+them+`"`, `<interface client_id="f:0"/>`)
	for _, tt := range []struct {
		rule, in string
		kind     Kind
		id       string
		line     int
		msg      []string // place and remedy
	}{
		{"nothing", "", BadArgs, "", 0, []string{"empty"}},
		{"not XML", "node n", BadArgs, "", 1, []string{"not well-formed", "correct the XML there"}},
		{"another document", "\n<html/>", BadArgs, "", 2, []string{"<html>", "<rspec"}},
		{"no namespace", `<rspec type="request"/>`, BadArgs, "", 1, []string{"no namespace", "xmlns=", Namespace}},
		{"ProtoGENI 2", `<rspec type="request" xmlns="http://www.protogeni.net/resources/rspec/2"/>`, BadVersion, "", 1, []string{"rspec/2", Namespace}},
		{"rspec of another namespace's prefix", `<r:rspec type="request" xmlns:r="urn:x" xmlns="` + Namespace + `"/>`, BadVersion, "", 1, []string{"urn:x"}},
		{"no type", `<rspec xmlns="` + Namespace + `"/>`, BadArgs, "", 1, []string{"no type", `type="request"`}},
		{"a manifest", `<rspec type="manifest" xmlns="` + Namespace + `"/>`, BadArgs, "", 1, []string{"manifest", `change type to "request"`}},
		{"an advertisement", `<rspec type="advertisement" xmlns="` + Namespace + `"/>`, BadArgs, "", 1, []string{"advertisement", `type="request"`}},
		{"no client_id", "\n\n<node/>", BadArgs, "", 3, []string{"line 3", "no client_id"}},
		{"empty client_id", `<node client_id=""/>`, BadArgs, "", 1, []string{"no client_id"}},
		{"client_id of another namespace", `<node xmlns:r="` + Namespace + `" r:client_id="a"/>`, BadArgs, "", 1, []string{"no client_id"}},
		{"client_id twice", a + "\n" + `<node client_id="a"/>`, BadArgs, "a", 2, []string{`"a"`, "rename"}},
		{"client_id of a foreign node", foreign + "\n" + `<node client_id="f"/>`, BadArgs, "f", 2, []string{`"f"`, "rename"}},
		{"interface without client_id", node(`client_id="a"`, "<interface/>"), BadArgs, "", 1, []string{"interface", "no client_id"}},
		{"interface twice", a + node(`client_id="c"`, "\n"+`<interface client_id="a:0"/>`), BadArgs, "a:0", 2, []string{`"a:0"`, "rename"}},
		{"exclusive is no boolean", node(`client_id="a" exclusive="maybe"`, ""), BadArgs, "a", 1, []string{`"a"`, `"maybe"`, "true or false"}},
		{"component_id is no URN", node(`client_id="a" component_id="pc1"`, ""), BadArgs, "a", 1, []string{`"a"`, `"pc1"`, "advertisement"}},
		{"component_id is no URN, manager given", node(`client_id="a" component_id="pc1" component_manager_id="`+us.String()+`"`, ""), BadArgs, "a", 1, []string{`"pc1"`}},
		{"sliver_type without a name", node(`client_id="a"`, "<sliver_type/>"), BadArgs, "a", 1, []string{`"a"`, "sliver_type"}},
		{"link without client_id", a + "\n" + `<link><interface_ref client_id="a:0"/></link>`, BadArgs, "", 2, []string{"link", "no client_id"}},
		{"link twice", a + b + `<link client_id="l"><interface_ref client_id="a:0"/></link>` + "\n" + `<link client_id="l"><interface_ref client_id="b:0"/></link>`, BadArgs, "l", 2, []string{`"l"`, "rename"}},
		{"dangling reference", a + "\n" + `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`, BadArgs, "l", 2, []string{`"l"`, `"b:0"`, "interface"}},
		{"all references dangle", a + `<link client_id="l"><interface_ref client_id="b:0"/></link>`, BadArgs, "l", 1, []string{`"b:0"`}},
		{"link without interfaces", a + `<link client_id="l"/>`, BadArgs, "l", 1, []string{`"l"`, "interface_ref"}},
		{"link without interfaces that names us", a + `<link client_id="l"><component_manager name="` + us.String() + `"/></link>`, BadArgs, "l", 1, []string{`"l"`, "interface_ref"}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			in := []byte(tt.in)
			if strings.HasPrefix(strings.TrimSpace(tt.in), "<node") {
				in = request(tt.in)
			}
			r, err := ParseRequest(in, ours())
			e, ok := errors.AsType[*RequestError](err)
			if !ok || r != nil {
				t.Fatalf("got %v, %v", r, err)
			}
			if e.Kind != tt.kind || e.ClientID != tt.id || e.Line != tt.line {
				t.Errorf("got kind %d, client_id %q, line %d; want %d, %q, %d (%s)", e.Kind, e.ClientID, e.Line, tt.kind, tt.id, tt.line, e.Msg)
			}
			for _, m := range tt.msg {
				if !strings.Contains(e.Error(), m) {
					t.Errorf("%q does not say %q", e, m)
				}
			}
			if len(e.Problems) != 1 || e.Problems[0] != e.Problem || e.Remedy == "" || strings.ContainsAny(e.Error(), "\r\n") {
				t.Errorf("not one problem with a remedy on one line: %q", e)
			}
		})
	}
}

func TestOwnNodes(t *testing.T) {
	for _, tt := range []struct {
		rule, attrs string
		own         bool
	}{
		{"no manager", ``, true},
		{"empty manager", `component_manager_id=""`, true},
		{"our manager", `component_manager_id="` + us.String() + `"`, true},
		{"am instead of cm", `component_manager_id="urn:publicid:IDN+example.org+authority+am"`, true},
		{"authority without case", `component_manager_id="urn:publicid:IDN+EXAMPLE.org+authority+am"`, true},
		{"prefix without case", `component_manager_id="URN:publicid:IDN+example.org+authority+cm"`, true},
		{"another's manager", `component_manager_id="` + them + `"`, false},
		{"a sub-authority is another", `component_manager_id="urn:publicid:IDN+example.org:site+authority+cm"`, false},
		{"our authority, but no manager", `component_manager_id="urn:publicid:IDN+example.org+authority+sa"`, false},
		{"a manager that is no URN", `component_manager_id="example.org"`, false},
		{"our component", `component_id="urn:publicid:IDN+example.org+node+pc1"`, true},
		{"a component of our sub-authority", `component_id="urn:publicid:IDN+example.org:rack+node+pc1"`, true},
		{"another's component", `component_id="urn:publicid:IDN+elsewhere.example.net+node+pc1"`, false},
		{"our manager, another's component", `component_manager_id="` + us.String() + `" component_id="urn:publicid:IDN+elsewhere.example.net+node+pc1"`, true},
		{"another's manager, our component", `component_manager_id="` + them + `" component_id="urn:publicid:IDN+example.org+node+pc1"`, false},
	} {
		r := mustParse(t, request(`<node client_id="a" `+tt.attrs+`/>`), ours())
		if len(r.Nodes) == 1 != tt.own || r.Foreign == 1 == tt.own {
			t.Errorf("%s: %d own, %d foreign", tt.rule, len(r.Nodes), r.Foreign)
		}
	}
}

func TestForeignPartsAreNotChecked(t *testing.T) {
	foreign := `component_manager_id="` + them + `"`
	r := mustParse(t, request(`
		<node `+foreign+`/>
		<node client_id="x" exclusive="maybe" component_id="?" `+foreign+`><interface/><interface client_id="i"><ip address="?"/></interface></node>
		<node client_id="x" `+foreign+`><interface client_id="i"/></node>
		<link/>
		<link client_id="l"><interface_ref client_id="i"/><interface_ref client_id="nobody"/><link_type name="gre-tunnel"/></link>
		<link client_id="l"><interface_ref client_id="i"/></link>
		<link client_id="m"><component_manager name="`+them+`"/></link>`), ours())
	if len(r.Nodes) != 0 || len(r.Links) != 0 || r.Foreign != 3 {
		t.Errorf("%d nodes, %d links, %d foreign", len(r.Nodes), len(r.Links), r.Foreign)
	}
}

func TestOnlyDirectRSpecChildrenCount(t *testing.T) {
	r := mustParse(t, []byte(`<r:rspec type="request" xmlns:r="`+Namespace+`" xmlns:j="urn:jfed">
		<j:node client_id="x"/> <node client_id="y"/> <j:wrap><r:node client_id="z"/></j:wrap>
		<r:node client_id="a">
			<j:sliver_type name="no"/><j:hardware_type name="no"/><j:interface client_id="no"/>
			<j:wrap><r:sliver_type name="no"/></j:wrap>
			<node xmlns="`+Namespace+`" client_id="nested"/>
			<r:services><j:execute shell="no"/></r:services>
		</r:node>
	</r:rspec>`), ours())
	want := []Node{{ClientID: "a", Line: 3}}
	if diff := cmp.Diff(want, r.Nodes, places); diff != "" {
		t.Error(diff)
	}
}

func TestParseRequestReads(t *testing.T) {
	in := []byte("\xef\xbb\xbf\n" + `<?xml version="1.1" encoding="utf-8"?>
<rspec type='request' generated_by="a client" xmlns="` + Namespace + `">
  <node client_id="n&#48;" component_id="urn:publicid:IDN+example.org+node+pc1" exclusive=" 1 " colocate="c">
    <sliver_type name="raw-pc"><disk_image name="img" url="http://example.org/i"/></sliver_type>
    <hardware_type name="pc3000"/>
    <interface client_id="n0:0"><ip address="10.0.0.1" netmask="255.255.255.0" type="ipv4"/><ip address="fd00::1" netmask="64" type="ipv6"/></interface>
    <interface client_id="n0:1"/>
    <services><install url="http://example.org/x.tar.gz" install_path="/opt"/><execute shell="bash" command="echo &quot;hi&quot;&#10;true"/></services>
    <services><execute shell="sh" command="b"/></services>
  </node>
  <node client_id="n1" exclusive="false"><interface client_id="n1:0"/></node>
  <link client_id="l">
    <component_manager name="` + us.String() + `"/>
    <interface_ref client_id="n0:1"/><interface_ref client_id="n1:0"/>
    <link_type name="LAN"/>
    <property source_id="n0:1" dest_id="n1:0" capacity="1000" latency="2" packet_loss="0.01"/>
  </link>
  <link client_id="m"><interface_ref client_id="n0:0"/></link>
</rspec>`)
	r := mustParse(t, in, ours())
	yes, no := true, false
	wantNodes := []Node{{
		ClientID: "n0", ComponentID: "urn:publicid:IDN+example.org+node+pc1", Component: urn.MustParse("urn:publicid:IDN+example.org+node+pc1"),
		Exclusive: &yes, SliverType: "raw-pc", DiskImage: "img", DiskImageURL: "http://example.org/i", HardwareType: "pc3000", Colocate: "c",
		Interfaces: []Interface{
			{ClientID: "n0:0", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64")}, Line: 7},
			{ClientID: "n0:1", Line: 8},
		},
		Services: services(install("http://example.org/x.tar.gz", "/opt"), execute("bash", "echo \"hi\"\ntrue"), execute("sh", "b")),
		Line:     4,
	}, {ClientID: "n1", Exclusive: &no, Interfaces: []Interface{{ClientID: "n1:0", Line: 12}}, Line: 12}}
	wantLinks := []Link{
		{ClientID: "l", Type: "LAN", Interfaces: []string{"n0:1", "n1:0"}, Properties: []Property{{"n0:1", "n1:0", 1000, 2 * time.Millisecond, 0.0001}}, Line: 13},
		{ClientID: "m", Interfaces: []string{"n0:0"}, Line: 19},
	}
	if diff := cmp.Diff(wantNodes, r.Nodes, places); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantLinks, r.Links, places); diff != "" {
		t.Error(diff)
	}
	if string(r.Text()) != string(in) || r.GeneratedBy != "a client" {
		t.Errorf("text or generated_by were changed: %q", r.GeneratedBy)
	}
	if n, ok := r.Node("n1"); !ok || n.Line != 12 {
		t.Errorf("Node(n1) = %v, %v", n, ok)
	}
	if _, ok := r.Node("n2"); ok {
		t.Error("found a node that is not there")
	}
}

func TestNoticesAreBounded(t *testing.T) {
	r := mustParse(t, request(strings.Repeat(`<node component_manager_id="x"/>`, 500)), ours())
	if len(r.Notices) != maxRemarks {
		t.Errorf("%d notices", len(r.Notices))
	}
}

func ExampleParseRequest() {
	_, err := ParseRequest([]byte(`<rspec type="manifest" xmlns="http://www.geni.net/resources/rspec/3"/>`), ReadOptions{})
	fmt.Println(err)
	// Output: line 1: this is a manifest; to request the same again, change type to "request"
}

// services, install and execute are services of a node.
func services(steps ...step.Step) (s step.Services) {
	for _, x := range steps {
		s.Steps = append(s.Steps, step.Requested{Step: x})
	}
	return s
}

func install(url, path string) step.Step {
	return step.Step{Kind: step.Install, URL: url, InstallPath: path}
}

func execute(shell, command string) step.Step {
	return step.Step{Kind: step.Execute, Shell: shell, Command: command}
}
