package binder

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/rspec"
)

const switched = `
provider: rack
default_sliver_type: pc
link_types: [lan, vlan, gre-tunnel]
hardware_types: [fast]
links: [{name: core, capacity: 1G}, {name: edge, capacity: 100M}, {name: uplink, capacity: 10G}]
vlans: [100..102]
shared_vlans: [{name: exchange, tag: 1750}, {name: closed, tag: 1751, restricted: true}]
link_addresses: 10.128.0.0/22
public_addresses: [192.0.2.10..192.0.2.11]
sliver_types: [{name: pc}, {name: vm}, {name: ap}, {name: island}]
components:
  - names: pc1..pc3
    exclusive: true
    interfaces: [{name: eth0, role: control, link: core}, {name: eth1, link: core}, {name: eth2, link: core}, {name: eth3, link: edge}]
  - names: pc4..pc5
    exclusive: true
    interfaces: [{name: eth1, link: edge}]
  - names: pc6..pc7
    exclusive: true
    hardware_types: [fast]
    interfaces: [{name: eth1, link: uplink}]
  - names: h1..h2
    exclusive: false
    sliver_types: [vm]
    capacity: {slots: 4}
    interfaces: [{name: nic, link: core}]
  - names: ap1..ap2
    exclusive: true
    sliver_types: [ap]
  - names: is1..is2
    exclusive: true
    sliver_types: [island]
    interfaces: [{name: eth0, role: control}]
`

// linked adds links of "NAME INTERFACE… key=value…" words to a request; a word A>B=N is a
// property of N kbit/s, where a side left out is all other interfaces. The interfaces are made
// on the nodes that their first letters name; behind an interface may follow @PORT and
// addresses, each after a comma.
func linked(r *rspec.Request, links ...string) *rspec.Request {
	for line, words := range links {
		l := rspec.Link{Line: 100 + line}
		for i, w := range strings.Fields(words) {
			key, value, isKey := strings.Cut(w, "=")
			from, to, isProperty := strings.Cut(key, ">")
			switch {
			case i == 0:
				l.ClientID = w
			case isProperty:
				n, _ := strconv.ParseInt(value, 10, 64)
				l.Properties = append(l.Properties, rspec.Property{Source: from, Dest: to, Capacity: n})
			case key == "type":
				l.Type = value
			case key == "shared":
				l.SharedVLAN = value
			case key == "tag":
				l.SharedTag = value
			case key == "range":
				l.Range = netip.MustParsePrefix(value)
			case key == "join":
				l.Join = true
			case isKey:
				panic(w)
			default:
				l.Interfaces = append(l.Interfaces, join(r, w))
			}
		}
		r.Links = append(r.Links, l)
	}
	return r
}

// join makes the interface that w describes and gives its client_id.
func join(r *rspec.Request, w string) string {
	f := strings.Split(w, ",")
	id, port, _ := strings.Cut(f[0], "@")
	n := &r.Nodes[slices.IndexFunc(r.Nodes, func(n rspec.Node) bool { return n.ClientID == id[:1] })]
	for _, in := range n.Interfaces {
		if in.ClientID == id {
			return id
		}
	}
	in := rspec.Interface{ClientID: id}
	if port != "" {
		in.Component = urn.URN{Authority: "example.org", Type: urn.Interface, Name: port}
		in.ComponentID = in.Component.String()
	}
	for _, a := range f[1:] {
		in.Addresses = append(in.Addresses, netip.MustParsePrefix(a))
	}
	n.Interfaces = append(n.Interfaces, in)
	return id
}

// wiring prints what interfaces got, or the codes of a refusal.
func wiring(b Binding, err error) string {
	if err != nil {
		return result(b, err)
	}
	var out []string
	for _, n := range b.Nodes {
		for _, i := range n.Interfaces {
			s := i.ClientID + "=" + n.Component.Name
			if !i.Component.IsZero() {
				s = i.ClientID + "=" + i.Component.Name
			}
			if i.Out+i.In > 0 {
				s += fmt.Sprintf(" >%d <%d", i.Out, i.In)
			}
			if i.VLAN != 0 {
				s += fmt.Sprint(" #", i.VLAN)
			}
			for _, a := range i.Addresses {
				s += " " + a.String()
			}
			out = append(out, s)
		}
	}
	return strings.Join(out, "; ")
}

// record is the sliver that a bound node becomes.
func record(id, of string, b Bound) am.Sliver {
	return am.Sliver{
		URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: id}, Slice: slice(of), ClientID: b.Node.ClientID, SliverType: b.SliverType.Name, Image: b.Image,
		Component: b.Component.URN, Amount: b.Amount, Exclusive: b.Exclusive, Status: am.Status{Allocation: am.Allocated},
		Interfaces: b.Interfaces, PublicAddress: b.PublicAddress,
	}
}

// allocate binds a request and publishes its slivers, named NAME-0, NAME-1, ….
func allocate(t *testing.T, x *holdings, name, of string, r *rspec.Request) []am.Sliver {
	t.Helper()
	b, err := bind(r, x, slice(of))
	if err != nil {
		t.Fatal(err)
	}
	var all []am.Sliver
	for i, n := range b.Nodes {
		all = append(all, record(fmt.Sprint(name, "-", i), of, n))
	}
	x.put(all...)
	return all
}

func TestBindLinks(t *testing.T) {
	const ap, vm = "type=ap", "type=vm"
	for _, tt := range []struct {
		rule  string
		nodes []string
		links []string
		want  string
		text  string // in the error
	}{
		{"over the first physical link", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0"},
			"a:0=pc1:eth1 #100 10.128.0.1/24; b:0=pc2:eth1 #100 10.128.0.2/24", ""},
		{"a property takes of both its ends", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0 a:0>b:0=5 b:0>a:0=7"},
			"a:0=pc1:eth1 >5 <7 #100 10.128.0.1/24; b:0=pc2:eth1 >7 <5 #100 10.128.0.2/24", ""},
		{"of the properties of a LAN the largest counts", []string{"on=pc1", "on=pc2", "on=h1"}, []string{"l a:0 b:0 c:0 a:0>b:0=5 a:0>c:0=5"},
			"a:0=pc1:eth1 >5 <0 #100 10.128.0.1/24; b:0=pc2:eth1 >0 <5 #100 10.128.0.2/24; c:0=h1:nic >0 <5 #100 10.128.0.3/24", ""},
		{"out of an interface to all others", []string{"on=pc1", "on=pc2", "on=h1"}, []string{"l a:0 b:0 c:0 a:0>=5"},
			"a:0=pc1:eth1 >5 <0 #100 10.128.0.1/24; b:0=pc2:eth1 #100 10.128.0.2/24; c:0=h1:nic #100 10.128.0.3/24", ""},
		{"into an interface from all others", []string{"on=pc1", "on=pc2", "on=h1"}, []string{"l a:0 b:0 c:0 >b:0=7"},
			"a:0=pc1:eth1 #100 10.128.0.1/24; b:0=pc2:eth1 >0 <7 #100 10.128.0.2/24; c:0=h1:nic #100 10.128.0.3/24", ""},
		{"… each way for itself, in any order", []string{"on=pc1", "on=pc2", "on=h1"}, []string{"l a:0 b:0 c:0 a:0>b:0=5 a:0>c:0=9 b:0>a:0=7 c:0>a:0=3 c:0>b:0=4"},
			"a:0=pc1:eth1 >9 <7 #100 10.128.0.1/24; b:0=pc2:eth1 >7 <5 #100 10.128.0.2/24; c:0=h1:nic >4 <9 #100 10.128.0.3/24", ""},
		{"a speed written for every pair is that of each interface", []string{"on=pc1", "on=pc2", "on=h1"}, []string{"l a:0 b:0 c:0 a:0>b:0=600000 a:0>c:0=600000 b:0>a:0=600000 b:0>c:0=600000 c:0>a:0=600000 c:0>b:0=600000"},
			"a:0=pc1:eth1 >600000 <600000 #100 10.128.0.1/24; b:0=pc2:eth1 >600000 <600000 #100 10.128.0.2/24; c:0=h1:nic >600000 <600000 #100 10.128.0.3/24", ""},
		{"different links on one interface add up", []string{"on=pc4", "on=pc5"}, []string{"l a:0 b:0 a:0>b:0=60000", "m a:1 b:1 a:1>b:1=40000"},
			"a:0=pc4:eth1 >60000 <0 #100 10.128.0.1/24; a:1=pc4:eth1 >40000 <0 #101 10.128.1.1/24; b:0=pc5:eth1 >0 <60000 #100 10.128.0.2/24; b:1=pc5:eth1 >0 <40000 #101 10.128.1.2/24", ""},
		{"… to more than it carries", []string{"on=pc4", "on=pc5"}, []string{"l a:0 b:0 a:0>b:0=60000", "m a:1 b:1 a:1>b:1=40001"}, "m:101 6/25",
			"which has 40000 of 100000 left; ask for at most 40000, or leave capacity out, or take another component"},
		{"… beside what goes to all others", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0 a:0>b:0=5 a:0>=6 >b:0=7 >a:0=8"},
			"a:0=pc1:eth1 >6 <8 #100 10.128.0.1/24; b:0=pc2:eth1 >0 <7 #100 10.128.0.2/24", ""},
		{"… and are more than an interface carries", []string{"on=pc4", "on=pc5"}, []string{"l a:0 b:0 >b:0=100001"}, "l:100 6/25",
			`its interface "b:0" asks for 100001 kbit/s into eth1 of pc5 (edge), which carries 100000`},
		{"all others on the same component", []string{"on=h1", "on=h1"}, []string{"l a:0 b:0 a:0>=9000000 >a:0=9000000"}, "a:0=h1 10.128.0.1/24; b:0=h1 10.128.0.2/24", ""},
		{"some of them on another", []string{"on=h1", "on=h1", "on=h2"}, []string{"l a:0 b:0 c:0 a:0>=9 >c:0=8"},
			"a:0=h1:nic >9 <0 #100 10.128.0.1/24; b:0=h1:nic #100 10.128.0.2/24; c:0=h2:nic >0 <8 #100 10.128.0.3/24", ""},
		{"no others at all", []string{"on=pc1"}, []string{"l a:0 a:0>=9000000"}, "a:0=pc1 10.128.0.1/24", ""},
		{"others of a shared VLAN", []string{"on=pc1"}, []string{"l a:0,10.9.9.9/24 shared=exchange a:0>=5 >a:0=6"}, "a:0=pc1:eth1 >5 <6 #1750 10.9.9.9/24", ""},
		{"from all to all is nothing", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0 >=5"},
			"a:0=pc1:eth1 #100 10.128.0.1/24; b:0=pc2:eth1 #100 10.128.0.2/24", ""},
		{"one direction is no other", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0 b:0>a:0=7"},
			"a:0=pc1:eth1 >0 <7 #100 10.128.0.1/24; b:0=pc2:eth1 >7 <0 #100 10.128.0.2/24", ""},
		{"each link its own interface and tag", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0", "m a:1 b:1"},
			"a:0=pc1:eth1 #100 10.128.0.1/24; a:1=pc1:eth2 #101 10.128.1.1/24; b:0=pc2:eth1 #100 10.128.0.2/24; b:1=pc2:eth2 #101 10.128.1.2/24", ""},
		{"the less used physical link", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0", "m a:1 b:1", "n a:2 b:2"},
			"a:0=pc1:eth1 #100 10.128.0.1/24; a:1=pc1:eth2 #101 10.128.1.1/24; a:2=pc1:eth3 #102 10.128.2.1/24; b:0=pc2:eth1 #100 10.128.0.2/24; b:1=pc2:eth2 #101 10.128.1.2/24; b:2=pc2:eth3 #102 10.128.2.2/24", ""},
		{"room before that", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0", "m a:1 b:1", "n a:2 b:2 a:2>b:2=200000"},
			"a:0=pc1:eth1 #100 10.128.0.1/24; a:1=pc1:eth2 #101 10.128.1.1/24; a:2=pc1:eth1 >200000 <0 #102 10.128.2.1/24; b:0=pc2:eth1 #100 10.128.0.2/24; b:1=pc2:eth2 #101 10.128.1.2/24; b:2=pc2:eth1 >0 <200000 #102 10.128.2.2/24", ""},
		{"a physical link that joins all", []string{"on=pc1", "on=pc4"}, []string{"l a:0 b:0"},
			"a:0=pc1:eth3 #100 10.128.0.1/24; b:0=pc4:eth1 #100 10.128.0.2/24", ""},
		{"none joins them", []string{"on=h1", "on=pc4"}, []string{"l a:0 b:0"},
			"l:100 13/0", `link "l": no physical link joins its nodes: node "a" is on h1 (core), node "b" is on pc4 (edge); take components that are on one, such as core, which joins pc1, pc2, pc3, h1, h2`},
		{"more than an interface carries", []string{"on=pc4", "on=pc5"}, []string{"l a:0 b:0 a:0>b:0=100001"},
			"l:100 6/25", `link "l": its interface "a:0" asks for 100001 kbit/s out of eth1 of pc4 (edge), which carries 100000; ask for at most 100000, or leave capacity out, or take another component`},
		{"more than it receives", []string{"on=pc1", "on=pc5"}, []string{"l a:0@pc1:eth3 b:0 b:0>a:0=60000", "m b:1 a:1@pc1:eth3 b:1>a:1=60000"},
			"m:101 6/25", `its interface "b:1" asks for 60000 kbit/s out of eth1 of pc5 (edge), which has 40000 of 100000 left`},
		{"beyond all bounds", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0 a:0>b:0=9223372036854775807 a:0>b:0=9223372036854775807"}, "l:100 6/25", ""},

		{"on one component nothing is taken", []string{"on=h1", "on=h1"}, []string{"l a:0 b:0 a:0>b:0=9000000"}, "a:0=h1 10.128.0.1/24; b:0=h1 10.128.0.2/24", ""},
		{"what leaves it is", []string{"on=h1", "on=h1", "on=h2"}, []string{"l a:0 b:0 c:0 a:0>b:0=9000000 a:0>c:0=4"},
			"a:0=h1:nic >4 <0 #100 10.128.0.1/24; b:0=h1:nic #100 10.128.0.2/24; c:0=h2:nic >0 <4 #100 10.128.0.3/24", ""},
		{"the network of others is their provider's affair", []string{ap, ap}, []string{"l a:0 b:0 a:0>b:0=9000000"}, "a:0=ap1 10.128.0.1/24; b:0=ap2 10.128.0.2/24", ""},
		{"… also on the other side", []string{"on=pc1", ap}, []string{"l a:0 b:0 a:0>b:0=9000000"}, "a:0=pc1 10.128.0.1/24; b:0=ap1 10.128.0.2/24", ""},
		{"… also with interfaces on no physical link", []string{"type=island", "type=island"}, []string{"l a:0 b:0"}, "a:0=is1 10.128.0.1/24; b:0=is2 10.128.0.2/24", ""},
		{"tunnels need no physical link", []string{"on=h1", "on=pc4"}, []string{"l a:0 b:0 type=GRE-Tunnel a:0>b:0=9000000"}, "a:0=h1 10.128.0.1/24; b:0=pc4 10.128.0.2/24", ""},
		{"a link of one", []string{"on=pc1"}, []string{"l a:0"}, "a:0=pc1 10.128.0.1/24", ""},

		{"interface by URN", []string{"on=pc1", "on=pc2"}, []string{"l a:0@pc1:eth3 b:0"}, "a:0=pc1:eth3 #100 10.128.0.1/24; b:0=pc2:eth3 #100 10.128.0.2/24", ""},
		{"interface of a bound node", []string{"on=pc1", ""}, []string{"l a:0@pc1:eth2 b:0"}, "a:0=pc1:eth2 #100 10.128.0.1/24; b:0=pc2:eth1 #100 10.128.0.2/24", ""},
		{"interface names the component", []string{"", ""}, []string{"l a:0@pc3:eth1 b:0"}, "a:0=pc3:eth1 #100 10.128.0.1/24; b:0=pc1:eth1 #100 10.128.0.2/24", ""},
		{"interface of another component", []string{"on=pc1", ""}, []string{"l a:0@pc3:eth1 b:0"}, "a:1 1/0", `its interface "a:0" asks for eth1 of pc3, but the node is on pc1`},
		{"unknown interface", []string{"on=pc1", ""}, []string{"l a:0@pc1:eth9 b:0"}, "a:1 12/0", `there is no physical interface urn:publicid:IDN+example.org+interface+pc1:eth9, which its interface "a:0" names; pc1 has urn:publicid:IDN+example.org+interface+pc1:eth0, `},
		{"interface for control", []string{"on=pc1", "on=pc2"}, []string{"l a:0@pc1:eth0 b:0"}, "l:100 13/0", `eth0 of pc1 carries no links; leave out the component_id of interface "a:0", or name one of eth1, eth2, eth3`},
		{"interfaces that the inventory does not name", []string{"on=ap1", ap}, []string{"l a:0@ap1:eth9 b:0"}, "a:0=ap1 10.128.0.1/24; b:0=ap2 10.128.0.2/24", ""},
		{"interfaces apart", []string{"on=pc1", "on=pc2"}, []string{"l a:0@pc1:eth1 b:0@pc2:eth3"}, "l:100 13/0", `node "a" is on pc1 (core), node "b" is on pc2 (edge)`},
		{"an asked interface counts where the other end does not", []string{"on=pc1", ap}, []string{"l a:0@pc1:eth3 b:0 a:0>b:0=100001"}, "l:100 6/25", "out of eth3 of pc1 (edge)"},
		{"interface on two links", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0", "m a:0 b:1"}, "m:101 1/0", `its interface "a:0" is on link "l" already`},
		{"interface twice on a link", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0 a:0"}, "a:0=pc1:eth1 #100 10.128.0.1/24; b:0=pc2:eth1 #100 10.128.0.2/24", ""},

		{"more links than VLANs", []string{"on=pc1", "on=pc2"}, []string{"l a:0 b:0", "m a:1 b:1", "n a:2 b:2", "o a:3 b:3"}, "o:103 24/24", "the request asks for 4 VLANs; this aggregate has 3, of which 3 free; put its nodes on one component or into fewer links"},
		{"shared VLAN", []string{"on=h1", "on=pc4"}, []string{"l a:0 b:0 shared=exchange tag=1750 a:0>b:0=3"}, "a:0=h1:nic >3 <0 #1750; b:0=pc4:eth1 >0 <3 #1750", ""},
		{"shared VLAN from one interface", []string{"on=pc1"}, []string{"l a:0,10.9.9.9/24 shared=exchange"}, "a:0=pc1:eth1 #1750 10.9.9.9/24", ""},
		{"shared VLAN where the network is the provider's affair", []string{ap}, []string{"l a:0 shared=exchange"}, "a:0=ap1 #1750", ""},
		{"unknown shared VLAN", []string{"on=pc1"}, []string{"l a:0 shared=exchnge"}, "l:100 12/0", `there is no shared VLAN "exchnge"; did you mean "exchange"?`},
		{"unknown shared VLAN, nothing near", []string{"on=pc1"}, []string{"l a:0 shared=zz"}, "l:100 12/0", "there are exchange, closed"},
		{"shared VLAN with another tag", []string{"on=pc1"}, []string{"l a:0 shared=exchange tag=7"}, "l:100 1/0", `the shared VLAN exchange has the tag 1750, not "7"`},
		{"restricted shared VLAN", []string{"on=pc1"}, []string{"l a:0 shared=closed"}, "l:100 7/0", "ask the operators"},

		{"components are chosen so that a physical link joins them", []string{"on=pc4", "", ""}, []string{"l a:0 b:0 c:0"},
			"a:0=pc4:eth1 #100 10.128.0.1/24; b:0=pc1:eth3 #100 10.128.0.2/24; c:0=pc2:eth3 #100 10.128.0.3/24", ""},
		{"… for hosts, too", []string{"on=pc6", "", vm, vm}, []string{"l a:0 b:0", "m c:0 d:0"},
			"a:0=pc6:eth1 #100 10.128.0.1/24; b:0=pc7:eth1 #100 10.128.0.2/24; c:0=h1 10.128.1.1/24; d:0=h1 10.128.1.2/24", ""},
		{"… so that there is room", []string{"", ""}, []string{"l a:0 b:0 a:0>b:0=2000000"},
			"a:0=pc6:eth1 >2000000 <0 #100 10.128.0.1/24; b:0=pc7:eth1 >0 <2000000 #100 10.128.0.2/24", ""},
		{"… for what all others send, too", []string{"", ""}, []string{"l a:0 b:0 >b:0=2000000"},
			"a:0=pc6:eth1 #100 10.128.0.1/24; b:0=pc7:eth1 >0 <2000000 #100 10.128.0.2/24", ""},
		{"… group by group", []string{"", "", "on=pc4", ""}, []string{"l a:0 b:0 a:0>b:0=2000000", "m c:0 d:0"},
			"a:0=pc6:eth1 >2000000 <0 #100 10.128.0.1/24; b:0=pc7:eth1 >0 <2000000 #100 10.128.0.2/24; c:0=pc4:eth1 #101 10.128.1.1/24; d:0=pc1:eth3 #101 10.128.1.2/24", ""},
		{"no choice helps", []string{"on=pc4", "hw=fast"}, []string{"l a:0 b:0"}, "l:100 13/0", `node "a" is on pc4 (edge), node "b" is on pc6 (uplink)`},
		{"a node with two interfaces is told once", []string{"on=pc4", "on=pc6"}, []string{"l a:0 a:1 b:0"}, "l:100 13/0", `its nodes: node "a" is on pc4 (edge), node "b" is on pc6 (uplink); `},
		{"no choice has room", []string{"", ""}, []string{"l a:0 b:0 a:0>b:0=20000000"}, "l:100 6/25", "out of eth1 of pc1 (core), which carries 1000000; ask for at most 1000000, or leave capacity out"},
		{"nodes come before links", []string{"on=pc99", "on=pc4"}, []string{"l a:0 b:0"}, "a:1 12/0", ""},

		{"in the network of the others", []string{vm, vm, vm}, []string{"l a:0,10.0.0.2/29 b:0 c:0"}, "a:0=h1 10.0.0.2/29; b:0=h1 10.0.0.1/29; c:0=h1 10.0.0.3/29", ""},
		{"in the IPv4 network of the others", []string{vm, vm}, []string{"l a:0,fd00::5/64,10.0.0.2/29 b:0"}, "a:0=h1 fd00::5/64 10.0.0.2/29; b:0=h1 10.0.0.1/29", ""},
		{"in the IPv6 network of the others", []string{vm, vm, vm}, []string{"l a:0,fd00::1/64 b:0 c:0"}, "a:0=h1 fd00::1/64; b:0=h1 fd00::2/64; c:0=h1 fd00::3/64", ""},
		{"two hosts", []string{vm, vm}, []string{"l a:0,10.0.0.1/31 b:0"}, "a:0=h1 10.0.0.1/31; b:0=h1 10.0.0.0/31", ""},
		{"a network too small", []string{vm, vm, vm}, []string{"l a:0,10.0.0.1/30 b:0 c:0"}, "l:100 1/0", "the network 10.0.0.0/30 of its addresses has no room for 2 interfaces more; write a wider netmask or range"},
		{"an address that no other link of the slice has", []string{vm, vm}, []string{"l a:0,10.0.0.1/24 b:0", "m a:1,10.0.0.9/24 b:1"},
			"a:0=h1 10.0.0.1/24; a:1=h1 10.0.0.9/24; b:0=h1 10.0.0.2/24; b:1=h1 10.0.0.3/24", ""},
		{"… unless its network has no other", []string{vm, vm}, []string{"l a:0,10.0.0.1/30 b:0", "m a:1,10.0.0.1/30 b:1"},
			"a:0=h1 10.0.0.1/30; a:1=h1 10.0.0.1/30; b:0=h1 10.0.0.2/30; b:1=h1 10.0.0.2/30", ""},
		{"an address that hosts can have", []string{vm, vm}, []string{"l a:0,10.0.0.1/1 b:0"}, "a:0=h1 10.0.0.1/1; b:0=h1 1.0.0.0/1", ""},
		{"a network of one host", []string{vm, vm}, []string{"l a:0,10.0.0.1/32 b:0"}, "l:100 1/0", "10.0.0.1/32"},
		{"at the end of all addresses", []string{vm, vm, vm}, []string{"l a:0,255.255.255.255/31 b:0 c:0"}, "l:100 1/0", ""},
		{"a new network overlaps no other", []string{vm, vm}, []string{"l a:0 b:0", "m a:1,10.128.0.9/25 b:1"}, "a:0=h1 10.128.1.1/24; a:1=h1 10.128.0.9/25; b:0=h1 10.128.1.2/24; b:1=h1 10.128.0.1/25", ""},
		{"no network left", []string{vm, vm}, []string{"l a:0 b:0", "m a:1,10.128.0.9/16 b:1"}, "l:100 6/0", "no network for its 2 interfaces is left in 10.128.0.0/22; give them addresses"},
		{"in the range of the link", []string{vm, vm}, []string{"l a:0,10.1.0.1/24 b:0 range=10.1.0.0/24", "m a:1 b:1"}, "a:0=h1 10.1.0.1/24; a:1=h1 10.128.0.1/24; b:0=h1 10.1.0.2/24; b:1=h1 10.128.0.2/24", ""},
		{"ranges with a common part", []string{vm, vm}, []string{"l a:0 b:0 range=10.1.0.0/16", "m a:1 b:1 range=10.1.0.0/24"}, "a:0=h1 10.1.0.1/16; a:1=h1 10.1.0.3/24; b:0=h1 10.1.0.2/16; b:1=h1 10.1.0.4/24", ""},
		{"two links with one range", []string{vm, vm}, []string{"l a:0 b:0 range=10.1.0.0/24", "m a:1 b:1 range=10.1.0.0/24"}, "a:0=h1 10.1.0.1/24; a:1=h1 10.1.0.3/24; b:0=h1 10.1.0.2/24; b:1=h1 10.1.0.4/24", ""},
		{"no chosen network is in a range", []string{vm, vm}, []string{"l a:0 b:0 range=10.128.0.0/24", "m a:1 b:1"}, "a:0=h1 10.128.0.1/24; a:1=h1 10.128.1.1/24; b:0=h1 10.128.0.2/24; b:1=h1 10.128.1.2/24", ""},
		{"a range too small", []string{vm, vm}, []string{"l a:0 b:0 range=10.1.0.4/32"}, "l:100 1/0", "the network 10.1.0.4/32 of its addresses has no room"},
		{"an IPv6 range", []string{vm, vm}, []string{"l a:0 b:0 range=fd00::/64"}, "a:0=h1 fd00::1/64; b:0=h1 fd00::2/64", ""},
		{"more links than networks", []string{vm, vm}, []string{"l a:0 b:0", "m a:1 b:1", "n a:2 b:2", "o a:3 b:3", "p a:4 b:4"}, "p:104 6/0", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := newHoldings(site(t, switched))
			b, err := bind(linked(request(tt.nodes...), tt.links...), x, slice("mine"))
			if diff := cmp.Diff(tt.want, wiring(b, err)); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if (err == nil) != (tt.text == "") && !strings.Contains(tt.want, "/") {
				t.Error("an error without a text, or the other way round")
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error is\n%v\nand lacks\n%s", err, tt.text)
			}
		})
	}
}

// lan is n nodes of one sliver type on a link with a property from each of its
// interfaces to each other; without capacity, with none.
func lan(n int, sliverType string, capacity int64) *rspec.Request {
	r := &rspec.Request{}
	l := rspec.Link{ClientID: "l"}
	for i := range n {
		id := fmt.Sprint("n", i)
		r.Nodes = append(r.Nodes, rspec.Node{ClientID: id, SliverType: sliverType, Interfaces: []rspec.Interface{{ClientID: id + ":0"}}})
		l.Interfaces = append(l.Interfaces, id+":0")
	}
	for _, from := range l.Interfaces {
		for _, to := range l.Interfaces {
			if from != to && capacity > 0 {
				l.Properties = append(l.Properties, rspec.Property{Source: from, Dest: to, Capacity: capacity})
			}
		}
	}
	r.Links = []rspec.Link{l}
	return r
}

// TestPropertiesOfALANTakeTheLargest fills the interfaces of a LAN in both directions, with a
// property for each pair, then requests one kbit/s more.
func TestPropertiesOfALANTakeTheLargest(t *testing.T) {
	text := strings.Replace(switched, "names: pc6..pc7", "names: pc100..pc120", 1) // on uplink, of 10 Gbit/s
	bind := func(capacity int64) (Binding, error) {
		r := lan(21, "pc", capacity)
		for i := range r.Nodes {
			r.Nodes[i].HardwareType = "fast"
		}
		return bind(r, newHoldings(site(t, text)), slice("mine"))
	}
	b, err := bind(10_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range b.Nodes {
		if i := n.Interfaces[0]; i.Out != 10_000_000 || i.In != 10_000_000 {
			t.Errorf("%s: %d out, %d in", i.ClientID, i.Out, i.In)
		}
	}
	if b, err = bind(10_000_001); wiring(b, err) != "l:0 6/25" {
		t.Errorf("more than there is: %s, %v", wiring(b, err), err)
	}
}

// TestAssignedAddressesAreNewToTheSlice requests a network that the slice already uses.
func TestAssignedAddressesAreNewToTheSlice(t *testing.T) {
	used := []netip.Prefix{netip.MustParsePrefix("10.128.0.1/24"), netip.MustParsePrefix("10.128.0.2/24")}
	r := linked(request("type=vm", "type=vm"), "l a:0,10.128.0.9/24 b:0")
	b, err := bind(r, newHoldings(site(t, switched)), slice("mine"), used...)
	if got := wiring(b, err); got != "a:0=h1 10.128.0.9/24; b:0=h1 10.128.0.3/24" {
		t.Error(got, err)
	}
}

func TestPublicAddresses(t *testing.T) {
	x := newHoldings(site(t, switched))
	r := request("", "", "")
	r.Nodes[0].RoutableIP, r.Nodes[2].RoutableIP = true, true
	held := allocate(t, x, "x", "s", r)
	if x.freePublicAddresses() != 0 {
		t.Errorf("%d public addresses are left", x.freePublicAddresses())
	}
	if held[0].PublicAddress.String() != "192.0.2.10" || held[1].PublicAddress.IsValid() || held[2].PublicAddress.String() != "192.0.2.11" {
		t.Errorf("%v, %v, %v", held[0].PublicAddress, held[1].PublicAddress, held[2].PublicAddress)
	}
	one := request("")
	one.Nodes[0].RoutableIP = true
	_, err := bind(one, x, slice("mine"))
	if got := result(Binding{}, err); got != "a:1 6/26" || !strings.Contains(err.Error(), "none of the 2 public addresses of this aggregate is free") {
		t.Errorf("%s: %v", got, err)
	}
	_, err = bind(r, newHoldings(site(t, strings.Replace(switched, "..192.0.2.11", "..192.0.2.10", 1))), slice("mine"))
	if want := "the request asks for 2 public addresses; this aggregate has 1, of which 1 free; leave routable_control_ip out"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("asking for more than there are: %v", err)
	}
	held[0].Status.Allocation = am.Unallocated
	x.put(held[0])
	if _, err := bind(one, x, slice("mine")); err == nil {
		t.Error("an address is given again before its sliver is gone")
	}
	x.remove(held[0])
	if b, err := bind(one, x, slice("mine")); err != nil || b.Nodes[0].PublicAddress.String() != "192.0.2.10" || x.freePublicAddresses() != 1 {
		t.Errorf("%v, %v", b, err)
	}
	x = newHoldings(site(t, testbed))
	if b, err := bind(one, x, slice("mine")); err != nil || b.Nodes[0].PublicAddress.IsValid() {
		t.Errorf("without a pool: %v, %v", b, err)
	}
}

// TestLinksHoldUntilTheirRecordsAreDeleted uses the whole capacity of an interface. It is free
// again only when the records are deleted.
func TestLinksHoldUntilTheirRecordsAreDeleted(t *testing.T) {
	x := newHoldings(site(t, switched))
	full := func() *rspec.Request {
		return linked(request("on=h1", "on=h2"), "l a:0 b:0 a:0>b:0=600000")
	}
	held := allocate(t, x, "x", "s", full())
	refused := func(when string) {
		t.Helper()
		if got := wiring(bind(full(), x, slice("mine"))); got != "l:100 6/25" {
			t.Errorf("%s: %s", when, got)
		}
	}
	refused("while it is held")
	if got := wiring(bind(linked(request("on=h1", "on=h2"), "l a:0 b:0 a:0>b:0=400000"), x, slice("mine"))); !strings.Contains(got, "#101") {
		t.Errorf("the remaining capacity with another tag: %s", got)
	}
	for i := range held {
		held[i].Status.Allocation = am.Unallocated
	}
	x.put(held...)
	refused("while it is being cleaned")
	x.inv = site(t, strings.Replace(switched, "[100..102]", "[101..103]", 1))
	refused("after the inventory was read again")
	for _, s := range held {
		x.remove(s)
	}
	if got := wiring(bind(full(), x, slice("mine"))); !strings.Contains(got, "a:0=h1:nic >600000 <0 #101") {
		t.Errorf("after it is gone: %s", got)
	}
}

func TestAddressesOfTheSliceAreNotUsedAgain(t *testing.T) {
	x := newHoldings(site(t, switched))
	r := linked(request("type=vm"), "l a:0")
	used := []netip.Prefix{netip.MustParsePrefix("10.128.0.7/24"), netip.MustParsePrefix("10.128.2.1/23"), netip.MustParsePrefix("fd00::1/64")}
	if got := wiring(bind(r, x, slice("mine"), used...)); got != "a:0=h1 10.128.1.1/24" {
		t.Error(got)
	}
	used = append(used, netip.MustParsePrefix("10.128.1.200/25"))
	if got := wiring(bind(r, x, slice("mine"), used...)); got != "l:100 6/0" {
		t.Error(got)
	}
}

func TestLargeLANGetsALargeNetwork(t *testing.T) {
	for n, want := range map[int]string{254: "10.128.0.254/24", 255: "10.128.0.255/23", 1022: "10.128.3.254/22", 1023: ""} {
		x := newHoldings(site(t, strings.Replace(switched, "slots: 4", "slots: 2000", 1)))
		r := lan(n, "vm", 0)
		b, err := bind(r, x, slice("mine"))
		if (err == nil) != (want != "") || err == nil && b.Nodes[n-1].Interfaces[0].Addresses[0].String() != want {
			t.Errorf("%d interfaces: %v, want the last to be %s", n, err, want)
		}
	}
}

// If the inventory changes, a tag in use by a link does not become the tag of a shared VLAN, and
// vice versa.
func TestTagsInUseStayWhenTheInventoryChanges(t *testing.T) {
	alone := func() *rspec.Request { return linked(request("on=h1", "on=h2"), "l a:0 b:0") }
	shared := func() *rspec.Request { return linked(request("on=h1", "on=h2"), "l a:0 b:0 shared=exchange") }
	swapped := strings.NewReplacer("[100..102]", "[1750]", "tag: 1750", "tag: 100").Replace(switched)

	x := newHoldings(site(t, switched))
	held := allocate(t, x, "x", "s", alone())
	x.inv = site(t, swapped)
	if got := wiring(bind(shared(), x, slice("mine"))); got != "l:100 24/24" {
		t.Errorf("a shared VLAN with the tag of a link: %s", got)
	}
	for _, s := range held {
		x.remove(s)
	}
	if got := wiring(bind(shared(), x, slice("mine"))); !strings.Contains(got, "#100") {
		t.Errorf("when the link is gone: %s", got)
	}

	x = newHoldings(site(t, switched))
	allocate(t, x, "x", "s", shared())
	if got := wiring(bind(shared(), x, slice("mine"))); !strings.Contains(got, "#1750") {
		t.Errorf("two slices on a shared VLAN: %s", got)
	}
	x.inv = site(t, swapped)
	if got := wiring(bind(alone(), x, slice("mine"))); got != "l:100 24/24" {
		t.Errorf("a link with the tag of a shared VLAN: %s", got)
	}
}

// TestOverBookedInterfaceAcceptsLinksWithoutCapacity lowers the capacity of an interface below the
// amount in use. Links without a capacity still fit.
func TestOverBookedInterfaceAcceptsLinksWithoutCapacity(t *testing.T) {
	x := newHoldings(site(t, switched))
	allocate(t, x, "x", "s", linked(request("on=h1", "on=h2"), "l a:0 b:0 a:0>b:0=600000"))
	x.inv = site(t, strings.Replace(switched, "capacity: 1G", "capacity: 500M", 1))
	for link, want := range map[string]string{
		"m a:0 b:0":             "a:0=h1:nic #101 10.128.0.1/24; b:0=h2:nic #101 10.128.0.2/24",
		"m a:0 b:0 b:0>a:0=9":   "a:0=h1:nic >0 <9 #101 10.128.0.1/24; b:0=h2:nic >9 <0 #101 10.128.0.2/24",
		"m a:0 b:0 a:0>b:0=100": "m:100 6/25",
	} {
		if got := wiring(bind(linked(request("on=h1", "on=h2"), link), x, slice("mine"))); got != want {
			t.Errorf("%s: %s, want %s", link, got, want)
		}
	}
}
