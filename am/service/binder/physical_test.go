package binder

import (
	"fmt"
	"strings"
	"testing"
)

// TestLinkNamesItsPhysicalLink proves that the component_id and the advertised type of a link
// determine its physical link.
func TestLinkNamesItsPhysicalLink(t *testing.T) {
	const physical = `
provider: rack
vlans: [100..109]
link_types: [lan]
sliver_types: [{name: raw-pc}]
links: [{name: core}, {name: fast, type: fibre}, {name: far, type: fibre}]
components:
  - {names: pc1..pc2, exclusive: true, interfaces: [{name: eth0, link: core}]}
  - {names: pc3..pc4, exclusive: true, interfaces: [{name: eth0, link: core}, {name: eth1, link: fast}]}
  - {names: pc5..pc6, exclusive: true, interfaces: [{name: eth0, link: far}]}
  - {names: pc7..pc8, exclusive: true}
`
	id := func(name string) string { return "urn:publicid:IDN+example.org+link+" + name }
	for _, tt := range []struct {
		rule, component, kind string
		nodes                 []string
		want                  string
	}{
		{"any", "", "", []string{"", ""}, "a:0=pc1:eth0 #100 10.128.0.1/24; b:0=pc2:eth0 #100 10.128.0.2/24"},
		{"unbound nodes go to the link", id("fast"), "", []string{"", ""}, "a:0=pc3:eth1 #100 10.128.0.1/24; b:0=pc4:eth1 #100 10.128.0.2/24"},
		{"bound nodes use the link", id("fast"), "", []string{"on=pc4", "on=pc3"}, "a:0=pc4:eth1 #100 10.128.0.1/24; b:0=pc3:eth1 #100 10.128.0.2/24"},
		{"of bound nodes that are not on it", id("fast"), "", []string{"on=pc1", "on=pc2"}, "13 no physical link that it allows (fast) joins its nodes: node \"a\" is on pc1 (core), node \"b\" is on pc2 (core); take components that are on one, such as pc3, pc4"},
		{"an unknown link", id("slow"), "", []string{"", ""}, "12 there is no physical link urn:publicid:IDN+example.org+link+slow; there are core, fast, far"},
		{"no URN", "fast", "", []string{"", ""}, `1 its component_id is not a URN: "fast"`},
		{"a type of physical links", "", "Fibre", []string{"", ""}, "a:0=pc3:eth1 #100 10.128.0.1/24; b:0=pc4:eth1 #100 10.128.0.2/24"},
		{"a type and its link", id("far"), "fibre", []string{"", ""}, "a:0=pc5:eth0 #100 10.128.0.1/24; b:0=pc6:eth0 #100 10.128.0.2/24"},
		{"a type and another link", id("core"), "fibre", []string{"", ""}, `13 the physical link core is `},
		{"a type that the site makes anywhere", "", "lan", []string{"", ""}, "a:0=pc1:eth0 #100 10.128.0.1/24; b:0=pc2:eth0 #100 10.128.0.2/24"},
		{"components without physical links", id("core"), "", []string{"on=pc7", "on=pc8"}, "13 it asks for a physical link (core), but its nodes are on one component, or on components without one; "},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			r := linked(request(tt.nodes...), "l a:0 b:0")
			r.Links[0].ComponentID, r.Links[0].Type = tt.component, tt.kind
			b, err := bind(r, newHoldings(site(t, physical)), slice("mine"))
			got := ""
			if err != nil {
				e := err.(*UnsatisfiedError)
				got = fmt.Sprint(int(e.Reasons[0].Code), " ", e.Reasons[0].Text)
			} else {
				got = wiring(b, err)
			}
			if got != tt.want && !(err != nil && strings.HasPrefix(got, tt.want)) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
