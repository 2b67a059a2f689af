package rspec

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/urn"
)

func TestAddressOf(t *testing.T) {
	for _, tt := range []struct {
		rule, in string
		want     address
	}{
		{"IPv4 has a dotted mask", "10.0.0.7/20", address{"10.0.0.7", "255.255.240.0", "ipv4"}},
		{"a network of one", "10.0.0.7/32", address{"10.0.0.7", "255.255.255.255", "ipv4"}},
		{"IPv6 has a length", "2001:db8::7/64", address{"2001:db8::7", "64", "ipv6"}},
		{"IPv4 in the clothes of IPv6", "::ffff:10.0.0.7/120", address{"10.0.0.7", "255.255.255.0", "ipv4"}},
		{"and with a mask of neither", "::ffff:10.0.0.7/64", address{"10.0.0.7", "0.0.0.0", "ipv4"}},
	} {
		if got := addressOf(netip.MustParsePrefix(tt.in)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, got, tt.want)
		}
	}
}

func TestAssignedAddressesAreInTheManifest(t *testing.T) {
	const ip4, ip6 = `<ip xmlns="` + Namespace + `" address="10.0.0.7" netmask="255.255.255.0" type="ipv4"/>`, `<ip xmlns="` + Namespace + `" address="fd00::7" netmask="64" type="ipv6"/>`
	for _, tt := range []struct{ rule, in, want string }{
		{"none", ``, ip4 + ip6},
		{"an address and an open one", `<ip/><ip address="10.9.9.9"/>`, `<ip/><ip address="10.9.9.9"/>`},
		{"an open one takes the first", `<ip/>`, `<ip address="10.0.0.7" netmask="255.255.255.0" type="ipv4"/>` + ip6},
		{"or the first of its type", `<ip type="IPv6"/>`, `<ip type="ipv6" address="fd00::7" netmask="64"/>` + ip4},
		{"two take two", `<ip/><ip/>`, `<ip address="10.0.0.7" netmask="255.255.255.0" type="ipv4"/><ip address="fd00::7" netmask="64" type="ipv6"/>`},
		{"the third stays open", `<ip/><ip/><ip a="b"/>`, `<ip address="10.0.0.7" netmask="255.255.255.0" type="ipv4"/><ip address="fd00::7" netmask="64" type="ipv6"/><ip a="b"/>`},
		{"another's element names nothing", `<x:ip xmlns:x="urn:x" address="1"/>`, `<x:ip xmlns:x="urn:x" address="1"/>` + ip4 + ip6},
	} {
		p := part(mustParse(t, request(`<node client_id="a"><interface client_id="i">`+tt.in+`</interface></node>`), ours()), facts)
		f := p.Nodes["a"]
		f.Interfaces = map[string]InterfaceFacts{"i": {Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/24"), {}, netip.MustParsePrefix("fd00::7/64")}}}
		p.Nodes["a"] = f
		_, got, _ := strings.Cut(mustWrite(t, options(), p), `<interface client_id="i">`)
		got, _, _ = strings.Cut(got, `</interface>`)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.rule, diff)
		}
	}
}

// TestIncompleteExtensionsAreOmitted checks that an extension without its required facts is omitted, and
// that the extension of the request then stays.
func TestIncompleteExtensionsAreOmitted(t *testing.T) {
	alice := urn.MustParse("urn:publicid:IDN+example.org+user+alice")
	const old = `<s:geni_sliver_info xmlns:s="` + sliverSpace + `"/><e:vnode xmlns:e="` + emulabSpace + `"/>`
	in := mustParse(t, request(`<node client_id="a">`+old+`</node>`), ours())
	for rule, change := range map[string]func(*NodeFacts){
		"no facts":    func(*NodeFacts) {},
		"no creator":  func(f *NodeFacts) { f.Sliver = &SliverInfo{Created: someTime, Expires: someTime} },
		"no creation": func(f *NodeFacts) { f.Sliver = &SliverInfo{Creator: alice, Expires: someTime} },
		"no end":      func(f *NodeFacts) { f.Sliver = &SliverInfo{Creator: alice, Created: someTime} },
		"no name":     func(f *NodeFacts) { f.VNode = &VNode{HardwareType: "pc"} },
	} {
		f := facts(0)
		change(&f)
		if got := mustWrite(t, options(), Part{Request: in, Nodes: map[string]NodeFacts{"a": f}}); !strings.Contains(got, ">"+old+"</node>") || strings.Contains(got, "sliver_info.xsd") {
			t.Errorf("%s: %s", rule, got)
		}
	}
	f := facts(0)
	f.VNode = &VNode{Name: "pcvm1"}
	if got := mustWrite(t, options(), Part{Request: in, Nodes: map[string]NodeFacts{"a": f}}); !strings.Contains(got, `><s:geni_sliver_info xmlns:s="`+sliverSpace+`"/><vnode xmlns="`+emulabSpace+`" name="pcvm1"/></node>`) {
		t.Errorf("one of the two: %s", got)
	}
	f.VNode = nil
	f.Sliver = &SliverInfo{Creator: alice, Created: someTime.In(time.FixedZone("", 3600)), Expires: someTime.Add(time.Hour)}
	want := `><e:vnode xmlns:e="` + emulabSpace + `"/><geni_sliver_info xmlns="` + sliverSpace + `" creator_urn="` + alice.String() + `" creation_time="2030-01-02T03:04:05Z" expiration_time="2030-01-02T04:04:05Z"/></node>`
	if got := mustWrite(t, options(), Part{Request: in, Nodes: map[string]NodeFacts{"a": f}}); !strings.Contains(got, want) {
		t.Errorf("without optional facts: %s", got)
	}
}
