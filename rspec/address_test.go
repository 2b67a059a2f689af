package rspec

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"patchbay/am/urn"
)

// TestOddAddressesGetARemark (S7): an ip without an address, of an unknown type, or with an IPv6
// address and no type is accepted with a remark.
func TestOddAddressesGetARemark(t *testing.T) {
	for _, tt := range []struct{ in, addresses, want string }{
		{`<ip/>`, "[]", `line 1: interface "i" has an ip without an address; write one such as address="10.0.0.1", or leave the choice to the site`},
		{`<ip address=" " netmask="255.255.255.0" type="ipv4"/>`, "[]", `interface "i" has an ip without an address`},
		{`<ip address="10.0.0.1" type="inet"/>`, "[10.0.0.1/24]", `interface "i" has an ip of the unknown type "inet"; write ipv4 or ipv6; the type is ignored`},
		{`<ip address="fd00::1"/>`, "[fd00::1/64]", `interface "i" has the IPv6 address fd00::1 without a type; add type="ipv6", since the default is ipv4; it is read as IPv6`},
		{`<ip address="fd00::1" type="IPv6"/><ip address="10.0.0.1"/><ip address="10.0.0.2" type="ipv4"/><ip address="::ffff:10.0.0.3"/>`, "[fd00::1/64 10.0.0.1/24 10.0.0.2/24 10.0.0.3/24]", ""},
	} {
		r := mustParse(t, request(`<node client_id="n"><interface client_id="i">`+tt.in+`</interface></node>`), ours())
		if got := fmt.Sprint(r.Nodes[0].Interfaces[0].Addresses); got != tt.addresses {
			t.Errorf("%s: addresses %s, want %s", tt.in, got, tt.addresses)
		}
		if got := strings.Join(Lines(r.Notices), "\n"); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: remarks %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestAddressIsRead(t *testing.T) {
	for _, tt := range []struct{ rule, attrs, want string }{
		{"dotted netmask", `address="10.0.0.1" netmask="255.255.255.0" type="ipv4"`, "10.0.0.1/24"},
		{"netmask within a byte", `address="10.0.0.1" netmask="255.255.252.0"`, "10.0.0.1/22"},
		{"length as netmask", `address="10.0.0.1" netmask="16"`, "10.0.0.1/16"},
		{"length with a slash", `address="10.0.0.1" netmask="/16"`, "10.0.0.1/16"},
		{"no netmask", `address="10.0.0.1"`, "10.0.0.1/24"},
		{"empty netmask and type", `address="10.0.0.1" netmask="" type=""`, "10.0.0.1/24"},
		{"blanks around", `address=" 10.0.0.1&#10;" netmask=" 255.0.0.0 " type=" ipv4"`, "10.0.0.1/8"},
		{"type in capitals", `address="10.0.0.1" type="IPv4"`, "10.0.0.1/24"},
		{"one host", `address="10.0.0.1" netmask="255.255.255.255"`, "10.0.0.1/32"},
		{"both ends of a network of two", `address="10.0.0.0" netmask="255.255.255.254"`, "10.0.0.0/31"},
		{".0 without a netmask", `address="10.0.0.0"`, "10.0.0.0/24"},
		{".255 without a netmask", `address="10.0.1.255"`, "10.0.1.255/24"},
		{".0 inside a wide network", `address="10.0.1.0" netmask="255.255.0.0"`, "10.0.1.0/16"},
		{"self-assigned", `address="169.254.1.1"`, "169.254.1.1/24"},
		{"IPv6", `address="fd00::1" type="ipv6"`, "fd00::1/64"},
		{"IPv6 in full and capitals", `address="FD00:0:0:0:0:0:0:0001" netmask="48" type="ipv6"`, "fd00::1/48"},
		{"IPv6 mask in full", `address="fd00::1" netmask="ffff:ffff::" type="ipv6"`, "fd00::1/32"},
		{"IPv6 link-local", `address="fe80::1" type="ipv6"`, "fe80::1/64"},
		{"IPv6 network address", `address="fd00::" netmask="64" type="ipv6"`, "fd00::/64"},
		{"IPv4 written as IPv6", `address="::ffff:10.0.0.1"`, "10.0.0.1/24"},
		{"IPv4 written as IPv6, of that type", `address="::ffff:a00:1" netmask="120" type="ipv6"`, "10.0.0.1/24"},
		{"IPv4 written as IPv6, mask of IPv4", `address="::ffff:10.0.0.1" netmask="255.255.0.0" type="ipv4"`, "10.0.0.1/16"},
	} {
		r := mustParse(t, request(`<node client_id="a"><interface client_id="a:0"><ip `+tt.attrs+`/></interface></node>`), ours())
		want := []netip.Prefix{netip.MustParsePrefix(tt.want)}
		if diff := cmp.Diff(want, r.Nodes[0].Interfaces[0].Addresses, cmpopts.EquateComparable(netip.Prefix{})); diff != "" || len(r.Notices) != 0 {
			t.Errorf("%s: %s %v", tt.rule, diff, r.Notices)
		}
	}
}

func TestAddressIsRefused(t *testing.T) {
	for _, tt := range []struct{ rule, attrs, at, says string }{
		{"a name", `address="provider3"`, "address", "10.0.0.1"},
		{"beyond a byte", `address="10.0.0.256"`, "address", "10.0.0.1"},
		{"leading zeros", `address="10.0.0.01"`, "address", "10.0.0.1"},
		{"with its length", `address="10.0.0.1/24"`, "address", "netmask as a separate attribute"},
		{"with a port", `address="10.0.0.1:80"`, "address", "10.0.0.1"},
		{"in brackets", `address="[fd00::1]"`, "address", "10.0.0.1"},
		{"a zone", `address="fe80::1%eth0"`, "address", "zone"},
		{"none", `address="0.0.0.0"`, "address", "leave out"},
		{"none of IPv6", `address="::"`, "address", "leave out"},
		{"multicast", `address="224.0.0.1"`, "address", "multicast or broadcast"},
		{"multicast of IPv6", `address="ff02::1"`, "address", "multicast or broadcast"},
		{"broadcast to all", `address="255.255.255.255"`, "address", "multicast or broadcast"},
		{"loopback", `address="127.0.0.1"`, "address", "loopback address"},
		{"loopback of IPv6", `address="::1"`, "address", "loopback address"},
		{"loopback written as IPv6", `address="::ffff:127.0.0.1"`, "address", "loopback address"},
		{"its network", `address="10.0.0.0" netmask="255.255.255.0"`, "address", "for example write 10.0.0.1"},
		{"its broadcast address", `address="10.0.0.255" netmask="255.255.255.0"`, "address", "for example write 10.0.0.254"},
		{"broadcast address within a byte", `address="10.0.3.255" netmask="22"`, "address", "10.0.0.0/22"},
		{"type of the other family", `address="10.0.0.1" type="ipv6"`, "type", "ipv6"},
		{"type of the other family, IPv6", `address="fd00::1" type="ipv4"`, "type", "ipv4"},
		{"mask of the other family", `address="10.0.0.1" netmask="ffff::"`, "netmask", "255.255.255.0"},
		{"mask of the other family, IPv6", `address="fd00::1" netmask="255.255.255.0"`, "netmask", "64"},
		{"mask with a hole", `address="10.0.0.1" netmask="255.0.255.0"`, "netmask", "255.255.255.0"},
		{"mask upside down", `address="10.0.0.1" netmask="0.0.0.255"`, "netmask", "255.255.255.0"},
		{"mask that is too long", `address="10.0.0.1" netmask="33"`, "netmask", "255.255.255.0"},
		{"mask of nothing", `address="10.0.0.1" netmask="0"`, "netmask", "255.255.255.0"},
		{"mask of nothing, dotted", `address="10.0.0.1" netmask="0.0.0.0"`, "netmask", "255.255.255.0"},
		{"mask with a sign", `address="10.0.0.1" netmask="+24"`, "netmask", "255.255.255.0"},
		{"mask without end", `address="10.0.0.1" netmask="99999999999999999999999"`, "netmask", "255.255.255.0"},
		{"mask of IPv4 in the wrong half", `address="::ffff:10.0.0.1" netmask="64"`, "netmask", "255.255.255.0"},
	} {
		in := `<node client_id="a"><interface client_id="a:0"><ip ` + tt.attrs + `/></interface></node>`
		e := refusalOf(t, request(in), ours())
		column := strings.LastIndex(string(request(in)), " "+tt.at+"=") + 2
		if len(e.Problems) != 1 || e.Kind != BadArgs || e.ClientID != "a:0" || e.Column != column || !strings.Contains(e.Error(), tt.says) {
			t.Errorf("%s: got %v in column %d, want %q in column %d", tt.rule, e, e.Column, tt.says, column)
		}
	}
}

func TestAddressesOfOneInterface(t *testing.T) {
	in := func(ips string) []byte {
		return request(`<node client_id="a"><interface client_id="a:0">` + ips + `</interface></node>`)
	}
	r := mustParse(t, in(`<ip address="10.0.0.1"/><ip address="fd00::1"/><ip address="fd00:0::1" netmask="64"/><ip address="10.0.0.1" netmask="24"/>`), ours())
	if got := fmt.Sprint(r.Nodes[0].Interfaces[0].Addresses); got != "[10.0.0.1/24 fd00::1/64]" {
		t.Errorf("one spelled in two ways: %s", got)
	}
	if e := refusalOf(t, in(`<ip address="10.0.0.1"/><ip address="10.0.0.1" netmask="25"/>`), ours()); !strings.Contains(e.Msg, "two netmasks") {
		t.Error(e)
	}
	var many strings.Builder
	for i := range 65 {
		fmt.Fprintf(&many, `<ip address="10.0.0.%d"/>`, i+1)
	}
	if e := refusalOf(t, in(many.String()), ours()); e.Kind != TooBig {
		t.Error(e)
	}
}

// lanOf is a link that ends at the interfaces x0, x1, … with these children.
func lanOf(interfaces ...string) []byte {
	var nodes, refs strings.Builder
	for i, content := range interfaces {
		fmt.Fprintf(&nodes, `<node client_id="n%d"><interface client_id="x%d">%s</interface></node>`+"\n", i, i, content)
		fmt.Fprintf(&refs, `<interface_ref client_id="x%d"/>`, i)
	}
	return request("\n" + nodes.String() + `<link client_id="l">` + refs.String() + `</link>`)
}

func ip(attrs string) string { return `<ip ` + attrs + `/>` }

func TestAddressTwiceOnALink(t *testing.T) {
	for _, tt := range []struct{ rule, a, b, address string }{
		{"the same", ip(`address="10.0.0.1"`), ip(`address="10.0.0.1"`), "10.0.0.1"},
		{"whatever the netmask", ip(`address="10.0.0.1" netmask="8"`), ip(`address="10.0.0.1" netmask="16"`), "10.0.0.1"},
		{"IPv6 in two spellings", ip(`address="fd00::1"`), ip(`address="FD00:0000::0:1"`), "fd00::1"},
		{"IPv4 written as IPv6", ip(`address="10.0.0.1"`), ip(`address="::ffff:0a00:0001"`), "10.0.0.1"},
		{"behind others", ip(`address="10.0.0.9"`) + ip(`address="10.0.0.1"`), ip(`address="10.0.0.1"`) + ip(`address="10.0.0.8"`), "10.0.0.1"},
	} {
		e := refusalOf(t, lanOf(tt.a, tt.b), ours())
		if len(e.Problems) != 1 || e.ClientID != "l" || e.Line != 4 {
			t.Errorf("%s: got %v", tt.rule, e)
		}
		for _, want := range []string{tt.address, `"x0"`, `"x1"`} {
			if !strings.Contains(e.Error(), want) {
				t.Errorf("%s: %q does not name %s", tt.rule, e, want)
			}
		}
	}
	if e := refusalOf(t, lanOf(ip(`address="10.0.0.1"`), "", ip(`address="10.0.0.1"`), ip(`address="10.0.0.1"`)), ours()); len(e.Problems) != 2 {
		t.Errorf("thrice: %v", e)
	}
	// If an end occurs twice, addresses are not compared, because there might be any
	// number of ends.
	twice := strings.Replace(string(lanOf(ip(`address="10.0.0.1"`), ip(`address="10.0.0.1"`))), `<interface_ref client_id="x1"/>`, `<interface_ref client_id="x1"/><interface_ref client_id="x1"/>`, 1)
	if e := refusalOf(t, []byte(twice), ours()); len(e.Problems) != 1 || !strings.Contains(e.Error(), "ends twice") {
		t.Errorf("an end twice: %v", e)
	}
	// On two links it is permitted.
	mustParse(t, request(`<node client_id="a"><interface client_id="x">`+ip(`address="10.0.0.1"`)+`</interface><interface client_id="y">`+ip(`address="10.0.0.1"`)+`</interface></node>
		<link client_id="l"><interface_ref client_id="x"/></link><link client_id="m"><interface_ref client_id="y"/></link>`), ours())
}

func TestDifferentNetworksOnALinkAreRemarked(t *testing.T) {
	for _, tt := range []struct {
		rule       string
		interfaces []string
		names      string // the interfaces named; empty for no remark
	}{
		{"one network", []string{ip(`address="10.0.0.1"`), ip(`address="10.0.0.2"`)}, ""},
		{"two networks", []string{ip(`address="10.0.0.1"`), ip(`address="10.0.1.2"`)}, `"x0" "x1"`},
		{"two lengths", []string{ip(`address="10.0.0.1" netmask="24"`), ip(`address="10.0.0.2" netmask="16"`)}, ""},
		{"two lengths, one outside of the shorter network", []string{ip(`address="10.0.0.1" netmask="24"`), ip(`address="10.0.1.2" netmask="16"`)}, `"x0" "x1"`},
		{"two lengths, three interfaces", []string{ip(`address="10.0.0.1" netmask="16"`), ip(`address="10.0.0.2" netmask="24"`), ip(`address="10.0.9.9" netmask="24"`)}, `"x0" "x2"`},
		{"one without an address", []string{ip(`address="10.0.0.1"`), "", ip(`address="10.0.0.2"`)}, ""},
		{"one apart", []string{ip(`address="10.0.0.1"`), ip(`address="10.0.0.2"`), ip(`address="10.0.7.2"`)}, `"x0" "x2"`},
		{"two pairs on one LAN", []string{ip(`address="10.0.0.1"`), ip(`address="10.0.1.1"`), ip(`address="10.0.0.2"`), ip(`address="10.0.1.2"`)}, ""},
		{"IPv4 and IPv6 are two things", []string{ip(`address="10.0.0.1"`), ip(`address="fd00::1" type="ipv6"`)}, ""},
		{"IPv6", []string{ip(`address="fd00::1" type="ipv6"`), ip(`address="fd01::1" type="ipv6"`)}, `"x0" "x1"`},
		{"apart in IPv4, together in IPv6", []string{ip(`address="10.0.0.1"`) + ip(`address="fd00::1" type="ipv6"`), ip(`address="10.0.1.1"`) + ip(`address="fd00::2" type="ipv6"`)}, `"x0" "x1" 10.0.0.1/24 10.0.1.1/24`},
		{"together in both", []string{ip(`address="10.0.0.1"`) + ip(`address="fd00::1" type="ipv6"`), ip(`address="10.0.0.2"`) + ip(`address="fd00::2" type="ipv6"`)}, ""},
		{"a router", []string{ip(`address="10.0.0.1"`) + ip(`address="10.0.1.1"`), ip(`address="10.0.0.2"`), ip(`address="10.0.1.2"`)}, ""},
		{"alone", []string{ip(`address="10.0.0.1"`) + ip(`address="10.0.1.1"`)}, ""},
	} {
		r := mustParse(t, lanOf(tt.interfaces...), ours())
		want := 0
		if tt.names != "" {
			want = 1
		}
		if len(r.Notices) != want {
			t.Errorf("%s: %v", tt.rule, r.Notices)
			continue
		}
		for name := range strings.FieldsSeq(tt.names) {
			if !strings.Contains(r.Notices[0].Msg, name) {
				t.Errorf("%s: %q does not name %s", tt.rule, r.Notices[0], name)
			}
		}
	}
}

func TestInterfaceIsBound(t *testing.T) {
	const eth = "urn:publicid:IDN+example.org+interface+pc1:eth1"
	in := func(id string) []byte {
		return request(`<node client_id="a"><interface client_id="a:0" component_id="` + id + `"/></node>`)
	}
	r := mustParse(t, in(" "+eth+" "), ours())
	if i := r.Nodes[0].Interfaces[0]; i.ComponentID != eth || i.Component != urn.MustParse(eth) {
		t.Errorf("got %+v", i)
	}
	if r := mustParse(t, in(""), ours()); r.Nodes[0].Interfaces[0].ComponentID != "" || len(r.Notices) != 0 {
		t.Errorf("empty: %v", r.Notices)
	}
	r = mustParse(t, in("eth1"), ours()) // real clients write this
	if i := r.Nodes[0].Interfaces[0]; i.ComponentID != "" || len(r.Notices) != 1 || r.Notices[0].ClientID != "a:0" {
		t.Errorf("a plain name: %+v, %v", i, r.Notices)
	}
	for _, id := range []string{"urn:publicid:IDN+example.org+node+pc1", "urn:publicid:IDN+example.org", "URN:x"} {
		if e := refusalOf(t, in(id), ours()); e.ClientID != "a:0" || !strings.Contains(e.Error(), "+interface+") {
			t.Errorf("%s: %v", id, e)
		}
	}
}

// FuzzAddress checks that an accepted address is valid for a node, and the same after writing and
// reading it again.
func FuzzAddress(f *testing.F) {
	for _, s := range [][3]string{{"10.0.0.1", "255.255.255.0", "ipv4"}, {"fd00::1", "64", "ipv6"}, {"::ffff:10.0.0.1", "120", ""}, {"fe80::1%eth0", "", ""}, {"10.0.0.0", "/31", ""}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, address, mask, family string) {
		p, wrong := readAddress(address, mask, family)
		if wrong != nil {
			if wrong.attr == "" || wrong.remedy == "" || !strings.Contains(address+mask+family, "%") && strings.Contains(fmt.Sprintf(wrong.format, wrong.args...), "%!") {
				t.Fatalf("%+v", wrong)
			}
			return
		}
		a := p.Addr()
		if !p.IsValid() || p.Bits() < 1 || a.Zone() != "" || a.Is4In6() || a.IsMulticast() || a.IsLoopback() || a.IsUnspecified() {
			t.Fatalf("%q %q %q is %v", address, mask, family, p)
		}
		if again, wrong := readAddress(a.String(), fmt.Sprint(p.Bits()), ""); again != p && (mask != "" || wrong == nil) {
			t.Fatalf("%v again is %v, %+v", p, again, wrong)
		}
	})
}

func TestLastAddress(t *testing.T) {
	for in, want := range map[string]string{
		"0.0.0.0/0": "255.255.255.255", "10.0.0.0/8": "10.255.255.255", "10.1.2.3/22": "10.1.3.255", "10.1.2.3/30": "10.1.2.3", "10.1.2.3/31": "10.1.2.3", "10.1.2.3/32": "10.1.2.3",
	} {
		if got := LastAddress(netip.MustParsePrefix(in)); got.String() != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
