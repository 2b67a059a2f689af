package rspec

import (
	"fmt"
	"strings"
	"testing"
)

// An unsupported request gets a remark, such as routable_control_ip; an empty one gets none.
func TestUnsupportedElementsAreRemarked(t *testing.T) {
	const emulab = ` xmlns="http://www.protogeni.net/resources/rspec/ext/emulab/1"`
	node := func(in string) string { return `<node client_id="n">` + in + `</node>` }
	link := func(in string) string {
		return `<node client_id="n"><interface client_id="n:0"/></node><link client_id="l"><interface_ref client_id="n:0"/>` + in + `</link>`
	}
	for _, tt := range []struct{ in, want string }{
		{node(`<blockstore` + emulab + ` name="bs"/>`), `node "n" asks for a blockstore (<blockstore>), which this aggregate does not offer; it is ignored, but copied to the manifest`},
		{node(`<fd` + emulab + ` name="x" weight="1"/>`), ""},
		{link(`<openflow_controller` + emulab + ` url="tcp:x"/>`), `link "l" asks for an OpenFlow controller`},
		{link(`<vlan_tagging` + emulab + ` enabled="true"/>`), `link "l" asks for VLAN tagging`},
		{link(`<vlan_tagging` + emulab + ` enabled="false"/>`), ""},
		{link(`<link_multiplexing` + emulab + ` enabled="1"/>`), `link "l" asks for multiplexing`},
		{node("") + `<stitching xmlns="http://hpn.east.isi.edu/rspec/ext/stitch/0.1/"/>`, "the request asks for stitching"},
		{node("") + `<sliver xmlns="http://www.geni.net/resources/rspec/ext/openflow/3"/>`, "the request asks for an OpenFlow slice"},
		{node(`<blockstore xmlns="urn:other"/>`), ""},
		{node(`<interface client_id="n:0" mac_address="02:00:00:00:00:01"/>`), `interface "n:0" has mac_address="02:00:00:00:00:01", which has no effect; the site chooses it`},
		{`<node client_id="n" sliver_id="urn:x"><interface client_id="n:0" mac_address="02:00:00:00:00:01"/></node>`, ""}, // of a manifest
		{`<node client_id="n" component_name="pc1"/>`, `node "n" has component_name="pc1", which has no effect; write the component_id of the node in the advertisement`},
		{`<node client_id="n" component_name="pc1" component_id="urn:publicid:IDN+example.org+node+pc1"/>`, ""},
		{`<node client_id="n" component_name="pc1" sliver_id="urn:x"/>`, ""}, // of a manifest
		{node(`<location country="BE"/>`), `node "n" has a <location>, which has no effect; write the component_id of a node there`},
		{node(`<location xmlns="urn:canvas" x="1" y="2"/>`), ""},
		{`<node client_id="n" component_id="urn:publicid:IDN+example.org+node+pc1"><location country="BE"/></node>`, ""},
		{node(`<relation type="x"/>`), `node "n" has a <relation>, which this aggregate does not read`},
		{node(`<sliver_type name="vm"><disk_image os="Linux" version="12"/></sliver_type>`), `node "n" has a disk_image with neither name nor url`},
		{node(`<sliver_type name="vm"><xen` + emulab + ` cores="4" ram="4096"/></sliver_type>`), `node "n" asks for an amount by <xen>, which has no effect; require cpu.count`},
		{`<node client_id="n"><interface client_id="n:0"/></node><link client_id="l" vlantag="7"><interface_ref client_id="n:0"/></link>`, `link "l" has vlantag="7", which has no effect; the site chooses the tag`},
		{`<node client_id="n" component_manager_id="urn:publicid:IDN+other.org+authority+cm"><blockstore` + emulab + `/></node>`, ""},
	} {
		remarks := strings.Join(Lines(mustParse(t, request(tt.in), ours()).Notices), "; ")
		if tt.want == "" && remarks != "" || !strings.Contains(remarks, tt.want) {
			t.Errorf("%s: remarks %q, want %q", tt.in, remarks, tt.want)
		}
	}
}

// The end of a lease is an option of the calls. The expires of a manifest that is sent again gets no
// remark.
func TestExpiresIsRemarked(t *testing.T) {
	for _, tt := range []struct{ node, want string }{
		{`<node client_id="n"/>`, "the expires of the rspec has no effect; give the option geni_end_time, or call Renew"},
		{`<node client_id="n" sliver_id="urn:x"/>`, ""},
	} {
		text := strings.Replace(string(request(tt.node)), `type="request"`, `type="request" expires="2030-01-31T12:00:00Z"`, 1)
		if got := strings.Join(Lines(mustParse(t, []byte(text), ours()).Notices), "; "); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: remarks %q, want %q", tt.node, got, tt.want)
		}
	}
}

func TestClientIDsHaveNoControlCharacters(t *testing.T) {
	for _, id := range []string{"a&#10;b", "a&#9;b", "a&#x85;b", "a&#x2028;b"} {
		for _, text := range []string{`<node client_id="` + id + `"/>`, `<node client_id="n"><interface client_id="` + id + `"/></node>`,
			`<node client_id="n"><interface client_id="i"/></node><link client_id="` + id + `"><interface_ref client_id="i"/></link>`} {
			if e := refusalOf(t, request(text), ours()); e.Kind != BadArgs || !strings.Contains(e.Error(), "has a line break or another control character") {
				t.Errorf("%s: %v", text, e)
			}
		}
	}
}

func TestRequestWithoutOwnNodesIsDescribed(t *testing.T) {
	manager := ours().Managers[0]
	for _, tt := range []struct{ in, want string }{
		{"", "the request is empty; add a <node>"},
		{`<sliver xmlns="urn:of"/><sliver xmlns="urn:of"/><x xmlns="urn:x"/>`, "the request has no nodes, only <sliver>, <x>; add a <node>"},
		{`<node client_id="n-0" component_manager_id="urn:publicid:IDN+cloud1+authority+cm"><source xmlns="` + originSpace + `" language="radl" id="n" ordinal="0"/></node>`,
			"the request has no node for this aggregate, " + manager.String() + ", since its nodes are for urn:publicid:IDN+cloud1+authority+cm; leave the cloud out of the deploy sentence; operators can name this aggregate as a cloud, under clouds in inventory.yaml"},
		{`<node client_id="n" component_manager_id="urn:publicid:IDN+other.org+authority+cm"/>`,
			"the request has no node for this aggregate, " + manager.String() + "; set component_manager_id to that URN, or leave it out"},
	} {
		if got := mustParse(t, request(tt.in), ours()).NoNodesReason(manager); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestProblemsHaveThePlaceOfTheirAttribute(t *testing.T) {
	const text = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
<node client_id="n" exclusive="true">
 <sliver_type name="x">
  <disk_image url="u"/></sliver_type><interface client_id="n:0"/>
 <prefer weight="1" xmlns="http://patchbay.example.org/rspec/ext/match/1"><require feature="a" value="1"/></prefer>
 <require feature="a" op="ge" value="1" xmlns="http://patchbay.example.org/rspec/ext/match/1"/></node>
<link client_id="l"><interface_ref client_id="n:0"/><property source_id="n:0" dest_id="l" capacity="1"/></link></rspec>`
	r := mustParse(t, []byte(text), ours())
	for _, tt := range []struct{ kind, id, what, want string }{
		{"node", "n", "", "2:1"},
		{"node", "n", "exclusive", "2:21"},
		{"node", "n", "component_id", "2:1"},
		{"node", "n", "sliver_type", "3:15"},
		{"node", "n", "disk_image", "4:15"},
		{"node", "n", "a >= 1", "6:2"},
		{"node", "n", "a = 1", "5:75"},
		{"node", "n", "a >= 2", "2:1"},
		{"link", "l", "", "7:1"},
		{"link", "l", "property", "7:53"},
		{"link", "n", "", "0:0"},
		{"node", "m", "", "0:0"},
	} {
		line, column := r.Place(tt.kind, tt.id, tt.what)
		if got := fmt.Sprintf("%d:%d", line, column); got != tt.want {
			t.Errorf("%s %s %s: %s, want %s", tt.kind, tt.id, tt.what, got, tt.want)
		}
	}
}

func TestBadAttributesAreNamedPlainly(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`<node client_id="a"><interface client_id="a:0"><ip address="10.0.0.256"/></interface></node>`, `interface "a:0": "10.0.0.256" is not an IP address; write one such as 10.0.0.1`},
		{`<node client_id="a"><interface client_id="a:0"><ip address="10.0.0.1" netmask="9.9"/></interface></node>`, `interface "a:0": "9.9" is not a netmask for 10.0.0.1`},
		{`<node client_id="a"><interface client_id="a:0"/></node><link client_id="l"><interface_ref client_id="a:0"/><property source_id="a:0" capacity="1"/></link>`, `link "l" has a property that has no dest_id; it is ignored`},
		{`<node client_id="a"><interface client_id="a:0"/></node><link client_id="l"><interface_ref client_id="a:0"/><property source_id="a:0" dest_id="z" capacity="1"/></link>`, `link "l" has a property with the dest_id "z", which is not an interface of the link`},
		{`<node client_id="a"><services><execute shell="zsh" command="x"/></services></node>`, "use sh or bash; this step will be ignored"},
		{`<node client_id="a&b"/>`, "there is an & without a reference; write &amp;"},
		{`<node client_id="a">R & D</node>`, "there is an & without a reference; write &amp;"},
	} {
		_, problems := Check([]byte(request(tt.in)), ours())
		if got := strings.Join(Lines(problems), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.in, got, tt.want)
		}
	}
}
