package binder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/rspec"
)

// endsOf are the ends of the links of slivers, by the client_ids of the links.
func endsOf(slivers []am.Sliver) map[string][]LinkEnd {
	all := map[string][]LinkEnd{}
	for _, s := range slivers {
		for _, in := range s.Interfaces {
			all[in.Link] = append(all[in.Link], LinkEnd{in, s.Component})
		}
	}
	return all
}

// joinLink binds a request whose links join those of a first one.
func joinLink(t *testing.T, first, second *rspec.Request) (Binding, error) {
	t.Helper()
	x := newHoldings(site(t, switched))
	r := &Request{Request: second, Slice: slice("mine"), Existing: endsOf(allocate(t, x, "s", "mine", first))}
	return bindFor(r, x)
}

func TestBindJoiningLinks(t *testing.T) {
	pair := []string{"on=pc1", "on=pc2"}
	for _, tt := range []struct {
		rule        string
		nodes       []string // of the first request
		link        string
		node, joins string // of the second one; the interface is a:9
		want        string
		text        string // in the error
	}{
		{"over the same physical link, with the same tag and network", pair, "l a:0 b:0", "", "", "a:9=pc3:eth1 #100 10.128.0.3/24", ""},
		{"… although another one is used less", pair, "l a:0@pc1:eth3 b:0", "on=pc3", "", "a:9=pc3:eth3 #100 10.128.0.3/24", ""},
		{"… and other components are first", []string{"on=pc4", "on=pc5"}, "l a:0 b:0", "", "", "a:9=pc1:eth3 #100 10.128.0.3/24", ""},
		{"a component that the physical link does not reach", pair, "l a:0 b:0", "on=pc6", "", "l:100 13/0", `no physical link that it allows (core) joins its nodes: node "a" is on pc6 (uplink)`},
		{"two nodes on one host", []string{"on=h1", "on=h1"}, "l a:0 b:0", "on=h1", "", "a:9=h1 10.128.0.3/24", ""},
		{"from another host", []string{"on=h1", "on=h1"}, "l a:0 b:0", "on=h2", "", "l:100 13/0", "in the slice it is on h1, without a physical link; bind its new nodes there by component_id, or use another link"},
		{"between two hosts, from one of them", []string{"on=h1", "on=h2"}, "l a:0 b:0", "on=h1", "", "a:9=h1:nic #100 10.128.0.3/24", ""},
		{"where the provider knows the network", []string{"type=ap", "type=ap"}, "l a:0 b:0", "type=island", "", "a:9=is1 10.128.0.3/24", ""},
		{"a tunnel", []string{"on=h1", "on=pc4"}, "l a:0 b:0 type=gre-tunnel", "on=pc6", "", "a:9=pc6 10.128.0.3/24", ""},
		{"the same type in other letters", []string{"on=h1", "on=pc4"}, "l a:0 b:0 type=gre-tunnel", "on=pc6", "type=GRE-Tunnel", "a:9=pc6 10.128.0.3/24", ""},
		{"a type where there was none", pair, "l a:0 b:0", "on=pc3", "type=lan", "a:9=pc3:eth1 #100 10.128.0.3/24", ""},
		{"another type", pair, "l a:0 b:0 type=lan", "on=pc3", "type=vlan", "l:100 1/0", `it has the type "lan" in the slice, not "vlan"; leave link_type out`},
		{"a tunnel of what is none", pair, "l a:0 b:0", "on=pc3", "type=gre-tunnel", "l:100 1/0", `it is no tunnel in the slice; leave the link_type "gre-tunnel" out`},
		{"on the shared VLAN of the link", pair, "l a:0 b:0 shared=exchange", "on=pc4", "", "a:9=pc4:eth1 #1750", ""},
		{"… which it may name", pair, "l a:0 b:0 shared=exchange", "on=pc4", "shared=exchange", "a:9=pc4:eth1 #1750", ""},
		{"another shared VLAN", pair, "l a:0 b:0 shared=exchange", "on=pc4", "shared=closed", "l:100 1/0", `it is on the shared VLAN "exchange" in the slice, not "closed"; leave link_shared_vlan out`},
		{"a shared VLAN where there was none", pair, "l a:0 b:0", "on=pc3", "shared=exchange", "l:100 1/0", "it is on no shared VLAN in the slice; leave link_shared_vlan out"},
		{"capacity of the new interface", pair, "l a:0 b:0", "on=pc3", "a:9>=5", "a:9=pc3:eth1 >5 <0 #100 10.128.0.3/24", ""},
		{"more than it carries", []string{"on=pc4", "on=pc5"}, "l a:0 b:0", "on=pc3", "a:9>=100001", "l:100 6/25", "out of eth3 of pc3 (edge), which carries 100000"},
		{"the lowest address that is free", pair, "l a:0,10.0.0.1/29 b:0,10.0.0.3/29", "on=pc3", "", "a:9=pc3:eth1 #100 10.0.0.2/29", ""},
		{"an address of its own", pair, "l a:0,10.0.0.1/29 b:0,10.0.0.3/29", "on=pc3", "a:9,10.0.0.6/29", "a:9=pc3:eth1 #100 10.0.0.6/29", ""},
		{"an address that is taken", pair, "l a:0,10.0.0.1/29 b:0,10.0.0.3/29", "on=pc3", "a:9,10.0.0.3/29", "l:100 1/0", `its interface "a:9" has the address 10.0.0.3 of the interface "b:0" in the slice; write another`},
		{"an address of another network", pair, "l a:0,10.0.0.1/29 b:0", "on=pc3", "a:9,10.0.0.9/29", "l:100 1/0", `its interface "a:9" has the address 10.0.0.9/29, but in the slice the link has 10.0.0.0/29`},
		{"an address of another family", pair, "l a:0,10.0.0.1/29 b:0", "on=pc3", "a:9,fd00::9/64", "a:9=pc3:eth1 #100 fd00::9/64", ""},
		{"a range that the link does not have", pair, "l a:0,10.0.0.1/29 b:0", "on=pc3", "range=10.9.0.0/24", "a:9=pc3:eth1 #100 10.0.0.3/29", ""},
		{"no address left", pair, "l a:0,10.0.0.1/30 b:0", "on=pc3", "", "l:100 1/0", "the network 10.0.0.0/30 of its addresses has no room for 1 interface more"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			word := "a:9"
			if strings.HasPrefix(tt.joins, "a:9,") {
				word = ""
			}
			b, err := joinLink(t, linked(request(tt.nodes...), tt.link), linked(request(tt.node), "l join=true "+word+" "+tt.joins))
			if diff := cmp.Diff(tt.want, wiring(b, err)); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if err != nil && (tt.text == "" || !strings.Contains(err.Error(), tt.text)) {
				t.Errorf("the error is\n%v\nand lacks\n%s", err, tt.text)
			}
		})
	}
}

// A new interface gets the link's earlier properties towards the other interfaces.
func TestJoiningLinksAreShapedTowardsTheOthers(t *testing.T) {
	first := linked(request("type=vm", "type=vm", "type=vm"), "l a:0 b:0 c:0")
	first.Links[0].Properties = []rspec.Property{wish("", "a:0", 1000, 5, 0)}
	second := linked(request("type=vm"), "l a:9 join=true")
	second.Links[0].Properties = []rspec.Property{wish("a:9", "", 0, 20, 0)}
	b, err := joinLink(t, first, second)
	if err != nil {
		t.Fatal(err)
	}
	want := []am.Property{{Latency: 20e6}, {To: []string{"a:0"}, Capacity: 1000, Latency: 20e6}}
	if diff := cmp.Diff(want, b.Nodes[0].Interfaces[0].Properties); diff != "" {
		t.Error(diff)
	}
}
