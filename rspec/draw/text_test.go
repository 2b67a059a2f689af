package draw

import (
	"strings"
	"testing"
)

const sliverInfo = `<geni_sliver_info xmlns="http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1" `

func TestTextContent(t *testing.T) {
	const site = "urn:publicid:IDN+testbed.example.org+"
	for _, c := range []struct {
		name, text string
		want       []string
		not        string
	}{
		{"WhatAnAdvertisementOffers", document("advertisement",
			`<s:rspec_shared_vlan xmlns:s="http://www.geni.net/resources/rspec/ext/shared-vlan/1"><s:available name="exchange" localTag="1750" description="to the others"/><s:available name="lab" localTag="1751" restricted="true"/></s:rspec_shared_vlan>`+
				`<e:rspec_routable_addresses xmlns:e="http://www.protogeni.net/resources/rspec/ext/emulab/1" available="2" configured="3"/>`+
				`<node component_id="`+site+`node+pc1"><hardware_type name="a"/><interface component_id="`+site+`interface+pc1:0"/></node><node component_id="`+site+`node+pc2"><hardware_type name="b"/><interface component_id="`+site+`interface+pc2:0"/></node><node component_id="`+site+`node+pc3"><hardware_type name="c"/><interface component_id="`+site+`interface+pc3:0"/></node>`+
				`<link component_id="`+site+`link+core"><link_type name="ethernet"/><link_type name="ethernet-10000000"/><interface_ref component_id="`+site+`interface+pc1:0"/><interface_ref component_id="`+site+`interface+pc2:0"/><interface_ref component_id="`+site+`interface+pc3:0"/></link>`),
			[]string{"core  ethernet  3     10 Gbit/s  pc1, pc2, pc3", "exchange  VLAN 1750              to the others", "lab       VLAN 1751  restricted", "2 of 3 public addresses free"}, "ethernet-1"},
		{"WhyANodeFailed", document("manifest", `<node client_id="a">`+sliverInfo+`state="geni_failed" error="`+strings.Repeat("word ", 40)+`end"/></node>`),
			[]string{"a     ✕ failed\n", "\n  a: word word ", "    word word word", "word end\n"}, "…"},
		{"OneReasonForMany", document("manifest", `<node client_id="a">`+sliverInfo+`state="geni_failed" error="no disk"/></node><node client_id="b">`+sliverInfo+`state="geni_failed" error="no disk"/></node>`),
			[]string{"  a, b: no disk\n"}, ""},
		{"PublicAddresses", document("manifest", `<node client_id="a"><host name="a" ipv4="192.0.2.7"/><host name="a" ipv4="192.0.2.8"/></node>`),
			[]string{"a     192.0.2.7 192.0.2.8\n"}, "reach it"},
		{"HostsWithNames", document("manifest", `<node client_id="a"><host name="a.example.org"/></node>`),
			[]string{"a     a.example.org\n"}, ""},
		{"NoHostThatRepeatsTheNode", document("manifest", `<node client_id="a"><host name="a"/></node><node client_id="b"><host name="c"/></node>`),
			[]string{"  NODE\n  a\n  b\n"}, "REACH IT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := textOf(t, read(t, c.text), TextOptions{})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
			if c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("%q is in\n%s", c.not, got)
			}
		})
	}
}

func TestDrawingShowsAddressesAndReasons(t *testing.T) {
	p := read(t, document("manifest", `<node client_id="a"><host name="a" ipv4="192.0.2.7"/>`+sliverInfo+`state="geni_failed" error="`+strings.Repeat("word ", 60)+`end"/></node>`))
	svg := svgOf(t, p)
	for _, want := range []string{"error: " + strings.Repeat("word ", 60) + "end", ">192.0.2.7</text>", "…word word"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%q is not in\n%s", want, svg)
		}
	}
}

func TestWrappedTextStaysASCII(t *testing.T) {
	p := read(t, document("manifest", `<node client_id="a">`+sliverInfo+`state="geni_failed" error="`+strings.Repeat("x", 100)+` is cleaned"/></node>`))
	text := textOf(t, p, TextOptions{ASCII: true, Width: 40})
	if !strings.Contains(text, "~") || strings.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
		t.Errorf("not cut, or beyond ASCII: %q", text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if columns(line) > 40 {
			t.Errorf("a line of %d columns: %s", columns(line), line)
		}
	}
}
