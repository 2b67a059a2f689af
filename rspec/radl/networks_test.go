package radl_test

import (
	"strings"
	"testing"

	"patchbay/rspec/radl"
)

func TestNetworks(t *testing.T) {
	v := inventoryOf(t, "")
	const s = "system s (net_interface.0.connection = 'n')\n"
	for _, r := range []row{
		{"a network with one interface is a link", "network n ()\n" + s + "deploy s 1", `
			<interface client_id="s-0:0"/>
			<link client_id="n">
			<interface_ref client_id="s-0:0"/>
			no link_type`, ""},
		{"three interfaces are a LAN", "network n ()\n" + s + "deploy s 3", "<link_type name=\"lan\"/>", ""},
		{"a network without nodes is no link", "network n ()\nnetwork m ()\n" + s + "deploy s 2", "<link client_id=\"n\">\nno <link client_id=\"m\">\nno link_type", ""},
		{"outbound asks for public addresses", "network n (outbound = 'yes')\n" + s + "deploy s 1", `
			<emulab:routable_control_ip/>
			<net:public/>
			<link client_id="n">`, ""},
		{"open ports, proxy, and features of clouds", "network n (outports = '8080/tcp,9000:9100' and proxy_host = 'alice:sesame@p.example.org' and sg_name = 'g' and provider_id = 'pool' and create = 'yes')\n" + s + "deploy s 1", `
			<net:outports ports="8080/tcp,9000:9100"/>
			<net:proxy user="alice" host="p.example.org" port="22"/>
			<origin:source language="radl" id="n"/>
			<origin:feature name="sg_name" value="g"/>
			<origin:feature name="provider_id" value="pool"/>
			<origin:feature name="create" value="yes"/>
			no sesame`, "proxy_host"},
		{"a proxy needs a user", "network n (proxy_host = 'p.example.org')\n" + s + "deploy s 1", "", "proxy_host"},
		{"addresses in order", "network n (cidr = '10.1.0.0/24')\n" + s + "deploy s 2", `
			<ip address="10.1.0.1" netmask="255.255.255.0" type="ipv4"/>
			<ip address="10.1.0.2" netmask="255.255.255.0" type="ipv4"/>
			<net:cidr range="10.1.0.0/24"/>`, ""},
		{"fixed addresses are not handed out", "network n (cidr = '10.1.0.0/24')\n" + s + "system f (net_interface.0.connection = 'n' and net_interface.0.ip = '10.1.0.1')\ndeploy s 1\ndeploy f 1", `
			<ip address="10.1.0.2"
			<ip address="10.1.0.1" netmask="255.255.255.0" type="ipv4"/>`, ""},
		{"a fixed address for several nodes", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.ip = '10.1.0.1')\ndeploy s 2", "", "line 3: several nodes would have the address 10.1.0.1"},
		{"a fixed address for two systems", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.ip = '10.1.0.1')\nsystem r (net_interface.0.connection = 'n' and net_interface.0.ip = '10.1.0.1')\ndeploy s 1\ndeploy r 1", "", "line 5: "},
		{"both kinds of addresses", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.ip = '10.1.0.5' and net_interface.0.ipv6 = 'fd00::5')\ndeploy s 1", `
			<ip address="10.1.0.5" netmask="255.255.255.0" type="ipv4"/>
			<ip address="fd00::5" netmask="64" type="ipv6"/>`, ""},
		{"an address outside of the range", "network n (cidr = '10.1.0.0/24')\nsystem s (net_interface.0.connection = 'n' and net_interface.0.ip = '10.2.0.5')\ndeploy s 1", `<ip address="10.2.0.5"`, "line 2: the address 10.2.0.5 is not in the range 10.1.0.0/24"},
		{"the address of the network itself", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.ip = '10.1.0.0')\ndeploy s 1", "", "10.1.0.0 is the address or the broadcast address"},
		{"too few addresses", "network n (cidr = '10.1.0.0/30')\n" + s + "deploy s 3", "", "line 1: network \"n\": 10.1.0.0/30 has too few addresses"},
		{"wildcards: the first range that is free", "network m (cidr = '10.0.0.0/24')\nnetwork n (cidr = '10.0.*.0/24')\n" + s + "deploy s 1", `
			<ip address="10.0.1.1"
			<!-- network n: 10.0.1.0/24 is the first range of 10.0.*.0/24 that no other network uses -->
			<net:cidr range="10.0.1.0/24"/>`, ""},
		{"wildcards: two of them", "network m (cidr = '10.0.0.0/16')\nnetwork n (cidr = '10.*.*.0/24')\n" + s + "deploy s 1", `<ip address="10.1.0.1"`, ""},
		{"wildcards: none is free", "network m (cidr = '10.0.0.0/16')\nnetwork n (cidr = '10.0.*.0/24')\n" + s + "deploy s 1", "", "line 2: network \"n\": other networks use all ranges"},
		{"route over a node", "network n (router = '0.0.0.0/0, gw')\n" + s + "system gw (net_interface.0.connection = 'm' and net_interface.1.connection = 'n')\nnetwork m ()\ndeploy s 1\ndeploy gw 2", `
			<interface client_id="gw-0:1"/>
			<net:route to="0.0.0.0/0" via="gw-0"/>`, ""},
		{"route over a node that is not there", "network n (router = '0.0.0.0/0,gw')\n" + s + "system gw ()\ndeploy s 1\ndeploy gw 1", "", "line 1: router \"0.0.0.0/0,gw\": no node of system \"gw\" is on the network"},
		{"a name that is no DNS name", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.dns_name = '#N#')\ndeploy s 1", "", `line 2: net_interface.0.dns_name: "#N#" is not a DNS name`},
		{"network address translation", "system s (nat_instance = 'yes')\ndeploy s 1", "<net:nat/>", ""},
		{"more DNS names", "network n ()\nsystem s (net_interface.0.connection = 'n' and net_interface.0.dns_name = 's#N#' and net_interface.0.additional_dns_names = ['a.example.org', 'b.example.org'])\ndeploy s 1", `
			<net:dns name="s0"/>
			<net:dns name="a.example.org"/>
			<net:dns name="b.example.org"/>`, ""},
		{"nodes of another aggregate have links of their own", "network n (cidr = '10.1.0.0/24')\n" + s + "deploy s 1\ndeploy s 1 far", `
			<node client_id="s-0">
			<node client_id="s-1" component_manager_id="urn:publicid:IDN+far+authority+cm">
			<link client_id="n">
			<interface_ref client_id="s-0:0"/>
			<link client_id="n-far">
			<component_manager name="urn:publicid:IDN+far+authority+cm"/>
			<interface_ref client_id="s-1:0"/>`, `line 1: network "n": a link does not leave an aggregate
			line 4: this site knows no cloud "far"`},
		{"clouds have names at the site", "system s ()\ndeploy s 1 north\ndeploy s 1 here", `
			system s: the aggregate of cloud north is urn:publicid:IDN+north.example.org+authority+cm
			<node client_id="s-0" component_manager_id="urn:publicid:IDN+north.example.org+authority+cm">
			system s: the aggregate of cloud here is this one
			<node client_id="s-1">`, ""},
		{"a site chooses nothing for other aggregates", "system s (cpu.count >= 2 and disk.0.os.name = 'linux')\ndeploy s 1 far", `
			<node client_id="s-0" component_manager_id="urn:publicid:IDN+far+authority+cm">
			no sliver_type
			<match:require feature="cpu.count"
			<match:require feature="disk.0.os.name"`, `line 2: this site knows no cloud "far"`},
	} {
		t.Run(r.rule, func(t *testing.T) { r.check(t, radl.Options{Site: v}) })
	}
}

// TestIncremental compiles three documents of one slice: two define and deploy, one only defines.
func TestIncremental(t *testing.T) {
	const first = `network net (cidr = '10.0.*.0/24')
system small_node (net_interface.0.connection = 'net')
configure small_node (
@begin
- tasks: []
@end
)
deploy small_node 2
`
	const second = "network other (cidr = '10.0.*.0/24')\nsystem big_node (memory.size >= 3G and net_interface.0.connection = 'net')\nnetwork net\n"
	const third = "system small_node\nsystem big_node\ndeploy small_node 1\ndeploy big_node 1\n"
	parse := func(text string) *radl.Document {
		d, problems := radl.Parse([]byte(text), nil)
		if d == nil {
			t.Fatal(problems)
		}
		return d
	}
	t.Run("R13a the first document", func(t *testing.T) {
		row{"", first, `
			<node client_id="small_node-1">
			<ip address="10.0.0.2"
			<link client_id="net">
			no net:join`, ""}.check(t, radl.Options{})
	})
	t.Run("R13b a document that defines", func(t *testing.T) {
		row{"", second, "</rspec>\nno <node", ""}.check(t, radl.Options{Earlier: []*radl.Document{parse(first)}, Nodes: []string{"small_node-0", "small_node-1"}, Links: []string{"net"}})
	})
	t.Run("R13c numbers go on, and the link is joined", func(t *testing.T) {
		row{"", third, `
			system small_node: the numbers begin at 2, since the slice has small_node-1
			recipe small_node: it runs in step 1
			<node client_id="small_node-2">
			<setup:step name="configure small_node" language="ansible" order="1">
			<node client_id="big_node-0">
			<match:require feature="memory.size" op="ge" value="3G"/>
			<link client_id="net" net:join="true">
			<interface_ref client_id="small_node-2:0"/>
			<interface_ref client_id="big_node-0:0"/>
			<net:cidr range="10.0.0.0/24"/>
			no <ip
			no link_type`, ""}.check(t, radl.Options{Earlier: []*radl.Document{parse(first), parse(second)}, Nodes: []string{"small_node-0", "small_node-1"}, Links: []string{"net"}, GivesAddresses: true})
	})
	t.Run("R13 without the earlier documents", func(t *testing.T) {
		row{"", third, "", "line 1: no document defines system big_node, system small_node; write system small_node () to define it here; without parentheses it is that of an earlier document"}.check(t, radl.Options{})
	})
	t.Run("networks keep the first definition, systems take the latest", func(t *testing.T) {
		row{"", "network net (cidr = '10.7.0.0/24')\nsystem small_node (cpu.count >= 2 and net_interface.0.connection = 'net')\ndeploy small_node 1", `
			<node client_id="small_node-0">
			<match:require feature="cpu.count"
			<ip address="10.0.0.1"`, ""}.check(t, radl.Options{Earlier: []*radl.Document{parse(first)}})
	})
	t.Run("R14 passwords of earlier documents stay there", func(t *testing.T) {
		row{"", "system s\ndeploy s 1", "<node\nno sesame", ""}.check(t, radl.Options{Earlier: []*radl.Document{parse("network n (proxy_host = 'a:sesame@b')\nsystem s (disk.0.os.credentials.password = 'sesame' and net_interface.0.connection = 'n')")}})
	})
	t.Run("mistakes in earlier documents have no place", func(t *testing.T) {
		_, problems := compile(t, "system s\ndeploy s 1", radl.Options{Earlier: []*radl.Document{parse("\n\nsystem s (disk.1.size = 1GB and disk.1.fstype = 'swap')")}})
		if len(problems) != 1 || !strings.HasPrefix(problems[0], "disk 1: fstype = 'swap'") {
			t.Errorf("%q", problems)
		}
	})
}
