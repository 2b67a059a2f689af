package service

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	setup "patchbay/rspec/step"
)

func TestImagesMustHaveAnsible(t *testing.T) {
	const images = `
provider: local
default_sliver_type: vm
sliver_types: [{name: vm, images: [plain, ansible], default_image: plain, needs: {slots: 1}}]
images: [{name: plain, os: Linux}, {name: ansible, os: Linux, capabilities: {software.ansible: 2.14.18}}]
components: [{name: host, exclusive: false, sliver_types: [vm], capacity: {slots: 9}}]
outbound: `
	for _, tt := range []struct {
		rule, image, version, outbound string
		install                        bool
		want                           string
	}{
		{"image without Ansible", "plain", "", "yes", false, `node "a" has playbooks, but its image "plain" does not list Ansible`},
		{"any version", "ansible", "", "no", false, ""},
		{"the beginning of the version", "ansible", "2.14", "no", false, ""},
		{"no part of a number", "ansible", "2.1", "no", false, `needs 2.1, which nodes cannot install (only 2.11 or newer)`},
		{"another version with outside access", "ansible", "2.15", "yes", true, ""},
		{"another version without outside access", "ansible", "2.15", "no", false, `has Ansible 2.14.18, and the plan needs 2.15, which the node cannot install without outside access`},
		{"outside access that is unknown", "ansible", "2.15", "unknown", false, "cannot install without outside access"},
	} {
		inv, err := inventory.Parse([]byte(images+tt.outbound), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		step := setup.Requested{Step: setup.Step{Kind: setup.Execute}, IsPlaybook: true, Relation: &setup.Relation{ClientID: "a", OnTarget: true}}
		req := &rspec.Request{AnsibleVersion: tt.version, Nodes: []rspec.Node{{ClientID: "a"}, {ClientID: "b", Services: setup.Services{Steps: []setup.Requested{step}}}}}
		install, err := checkPlaybooks(inv, req, []binder.Bound{{Node: &req.Nodes[0], Image: tt.image}, {Node: &req.Nodes[1], Image: "plain"}})
		if install != tt.install || (err != nil) != (tt.want != "") || err != nil && (am.CodeOf(err) != am.Unsupported || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, %v", tt.rule, install, err)
		}
	}
}

// playbookNode returns a sliver with interfaces on the links, of which out is an outbound network.
func playbookNode(clientID, public string, links ...string) am.Sliver {
	x := am.Sliver{URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: "id-" + clientID}, ClientID: clientID, Hostname: clientID, System: "web"}
	if public != "" {
		x.PublicAddress = netip.MustParseAddr(public)
	}
	for i, l := range links {
		x.Interfaces = append(x.Interfaces, am.Interface{Link: l, Public: l == "out", Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), 24)}})
	}
	return x
}

func TestMasterOfPlaybooks(t *testing.T) {
	node := playbookNode
	for _, tt := range []struct {
		rule    string
		slivers []am.Sliver
		want    string
	}{
		{"the first without public addresses", []am.Sliver{node("a", ""), node("b", "", "l")}, "a"},
		{"the first Linux node", []am.Sliver{node("windows", "192.0.2.1", "l"), node("b", "", "l")}, "b"},
		{"no Linux node", []am.Sliver{node("windows", "")}, "windows"},
		{"a public address", []am.Sliver{node("a", "", "l"), node("b", "192.0.2.1")}, "b"},
		{"the one that shares most", []am.Sliver{node("a", "192.0.2.1", "l"), node("b", "192.0.2.2", "l", "m"), node("c", "", "m")}, "b"},
		{"an outbound network without public addresses", []am.Sliver{node("worker", "", "l"), node("front", "", "out", "l")}, "front"},
		{"the first of equals", []am.Sliver{node("a", "192.0.2.1", "l"), node("b", "192.0.2.2", "l")}, "a"},
	} {
		if i := masterOf(tt.slivers, func(x *am.Sliver) bool { return x.ClientID != "windows" }); tt.slivers[i].ClientID != tt.want {
			t.Errorf("%s: %s", tt.rule, tt.slivers[i].ClientID)
		}
	}
}

// TestAddressesOfPlaybooks has the addresses of nodes by the networks they are on, as the Infrastructure
// Manager chooses them.
func TestAddressesOfPlaybooks(t *testing.T) {
	on := func(public bool, addresses ...string) am.Interface {
		in := am.Interface{Public: public}
		for _, a := range addresses {
			in.Addresses = append(in.Addresses, netip.MustParsePrefix(a))
		}
		return in
	}
	site := netip.MustParseAddr("192.0.2.1")
	for _, tt := range []struct {
		rule            string
		interfaces      []am.Interface
		site            netip.Addr
		private, public string
	}{
		{"no network", nil, netip.Addr{}, "", ""},
		{"no network, but a public address", nil, site, "", "192.0.2.1"},
		{"an inner network", []am.Interface{on(false, "10.0.0.1/24")}, netip.Addr{}, "10.0.0.1", ""},
		{"an outbound network first", []am.Interface{on(true, "10.0.0.1/24"), on(false, "10.0.1.1/24")}, netip.Addr{}, "10.0.1.1", ""},
		{"an outbound network last", []am.Interface{on(false, "10.0.0.1/24"), on(true, "10.0.1.1/24")}, netip.Addr{}, "10.0.0.1", ""},
		{"only an outbound network", []am.Interface{on(true, "10.0.0.1/24")}, netip.Addr{}, "10.0.0.1", ""},
		{"an outbound network and a public address", []am.Interface{on(true, "10.0.0.1/24"), on(false, "10.0.1.1/24")}, site, "10.0.1.1", "192.0.2.1"},
		{"public addresses of an outbound network", []am.Interface{on(true, "198.51.100.1/24"), on(false, "10.0.1.1/24")}, netip.Addr{}, "10.0.1.1", "198.51.100.1"},
		{"an inner network without private addresses", []am.Interface{on(false, "100.64.0.1/24")}, netip.Addr{}, "100.64.0.1", ""},
		{"an inner network without addresses", []am.Interface{on(false), on(false, "10.0.1.1/24")}, netip.Addr{}, "10.0.1.1", ""},
		{"IPv6 first", []am.Interface{on(false, "2001:db8::1/64", "10.0.0.1/24")}, netip.Addr{}, "10.0.0.1", ""},
		{"only IPv6", []am.Interface{on(false, "fd00::1/64")}, netip.Addr{}, "fd00::1", ""},
	} {
		x := &am.Sliver{Interfaces: tt.interfaces, PublicAddress: tt.site}
		if private, public := privateAddress(x), publicAddress(x); private != tt.private || public != tt.public {
			t.Errorf("%s: private %q, public %q", tt.rule, private, public)
		}
	}
}

// TestMasterStays checks that a later request gets no other master while the first one lives.
func TestMasterStays(t *testing.T) {
	s := &Service{cfg: Config{Inventory: new(atomic.Pointer[inventory.Inventory])}}
	s.cfg.Inventory.Store(&inventory.Inventory{})
	master := playbookNode("first", "", "l")
	master.IsMaster = true
	for _, tt := range []struct {
		rule string
		live []am.Sliver
		want bool // the new node is the master
	}{
		{"the first request", nil, true},
		{"the master lives", []am.Sliver{playbookNode("other", "192.0.2.1", "l"), master}, false},
		{"the master was deleted", []am.Sliver{playbookNode("other", "192.0.2.1", "l")}, true},
	} {
		added := []am.Sliver{playbookNode("new", "192.0.2.2", "l")}
		if _, err := s.playbooks(&rspec.Request{}, []binder.Bound{{Node: &rspec.Node{}}}, tt.live, added); err != nil || added[0].IsMaster != tt.want {
			t.Errorf("%s: new master %v, %v", tt.rule, added[0].IsMaster, err)
		}
	}
}

func TestVariablesOfPlaybooks(t *testing.T) {
	s := &Service{cfg: Config{URL: func() string { return "https://am.example.org:8443" }}}
	all := []am.Sliver{playbookNode("a", "192.0.2.1", "l", "m"), playbookNode("b", "", "l")}
	all[0].Slice = urn.MustParse("urn:publicid:IDN+example.org+slice+s")
	all[0].Hostname, all[0].DNSName, all[1].Number = "front", "front.example.org", 1
	bound := []binder.Bound{{Node: &rspec.Node{Services: setup.Services{Properties: []setup.Parameter{{Name: "db.name", Value: "x"}}}}}}
	hosts := s.hosts(bound, all, &all[0])
	for _, tt := range []struct {
		node int
		name string
		want any
	}{
		{0, "IM_NODE_HOSTNAME", "front"}, {0, "IM_NODE_DOMAIN", "example.org"}, {0, "IM_NODE_FQDN", "front.example.org"},
		{1, "IM_NODE_HOSTNAME", "b"}, {1, "IM_NODE_DOMAIN", ""}, {1, "IM_NODE_FQDN", "b"},
		{0, "IM_NODE_PRIVATE_IP", "10.0.0.1"}, {0, "IM_NODE_PUBLIC_IP", "192.0.2.1"}, {1, "IM_NODE_PUBLIC_IP", ""},
		{0, "IM_NODE_NET_1_IP", "10.0.1.1"}, {1, "IM_NODE_NET_1_IP", nil},
		{0, "IM_NODE_NUM", 0}, {1, "IM_NODE_NUM", 1}, {0, "IM_NODE_VMID", "id-a"},
		{1, "IM_NODE_CLOUD_TYPE", "GENI"}, {1, "IM_NODE_CLOUD_SERVER", "am.example.org"},
		{1, "IM_MASTER_HOSTNAME", "front"}, {1, "IM_MASTER_FQDN", "front.example.org"},
		{1, "IM_INFRASTRUCTURE_ID", "urn:publicid:IDN+example.org+slice+s"}, {1, "IM_WEB_NUM_VMS", 2},
		{0, "db_name", nil}, {1, "db_name", "x"}, // the first existed before
	} {
		if got := hosts[tt.node].Variables[tt.name]; got != tt.want {
			t.Errorf("%s of node %d: %v, want %v", tt.name, tt.node, got, tt.want)
		}
	}
}
