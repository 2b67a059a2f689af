package rspec

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wishing is a request of a node with an interface on a link, each with children.
func wishing(node, in, link string) []byte {
	return request(`<node client_id="a" xmlns:net="` + netSpace + `"><interface client_id="a:0">` + in + `</interface>` + node + `</node>` +
		`<link client_id="l" xmlns:net="` + netSpace + `"><interface_ref client_id="a:0"/>` + link + `</link>`)
}

func TestNetworkExtensionIsRead(t *testing.T) {
	r := mustParse(t, wishing(`<net:nat/>`,
		`<net:public/><net:dns name="WWW.Example.org"/><net:dns name="www.example.org"/><net:dns name="a"/><net:outports ports="80,443/tcp"/><net:proxy user="alice" host="gw.example.org"/>`,
		`<net:cidr range="10.1.0.0/24"/><net:outports ports="9000:9100/udp"/><net:route to="0.0.0.0/0" via="elsewhere"/><net:proxy user="alice" host="::1" port="2222"/>`), ours())
	n, l := r.Nodes[0], r.Links[0]
	if want := []string{"public", "outports", "proxy", "nat"}; !cmp.Equal(n.Wishes, want) || !n.RoutableIP {
		t.Errorf("the node wishes %q, want %q; a public address: %v", n.Wishes, want, n.RoutableIP)
	}
	if in := mustParse(t, wishing("", "<net:nat/><net:outports ports='80'/>", ""), ours()).Nodes[0].Interfaces[0]; in.Public || !n.Interfaces[0].Public {
		t.Errorf("interfaces with and without public: %v, %v", n.Interfaces[0].Public, in.Public)
	}
	if want := []string{"www.example.org", "a"}; !cmp.Equal(n.DNSNames, want) {
		t.Errorf("names %q, want %q", n.DNSNames, want)
	}
	if want := []string{"outports", "route", "proxy"}; !cmp.Equal(l.Wishes, want) || l.Range != netip.MustParsePrefix("10.1.0.0/24") {
		t.Errorf("the link wishes %q and %v, want %q", l.Wishes, l.Range, want)
	}
	if len(r.Notices) > 0 {
		t.Errorf("%v", r.Notices)
	}
}

func TestWrongNetworkElementsAreRefused(t *testing.T) {
	const name, ports, network = `interface "a:0" has a <dns> with name=`, `has wrong outports: `, `link "l" has a <cidr> with range=`
	for _, tt := range []struct{ at, element, want string }{
		{"interface", `<net:dns name="a_b"/>`, name + `"a_b"; write one such as www.example.org`},
		{"interface", `<net:dns name="a..b"/>`, name},
		{"interface", `<net:dns name="-a.b"/>`, name},
		{"interface", `<net:dns name="10.0.0.1"/>`, name},
		{"interface", `<net:dns name="é.example.org"/>`, name},
		{"interface", `<net:dns name="` + strings.Repeat("a", 64) + `"/>`, name},
		{"interface", `<net:dns name="` + strings.Repeat("a.", 126) + `aa"/>`, name},
		{"interface", `<net:dns/>`, name},
		{"interface", `<net:outports ports="10:1"/>`, `interface "a:0" ` + ports + `"10:1" has a range of ports that ends before it begins; write ports`},
		{"link", `<net:outports/>`, ports},
		{"link", `<net:route to="10.0.0.0" via="a"/>`, `link "l" has a <route> with to="10.0.0.0"; write a network`},
		{"link", `<net:route to="10.0.0.0/8"/>`, `with via=""`},
		{"link", `<net:cidr range="10.1.0.1/24"/>`, network + `"10.1.0.1/24"; write one such as 10.1.0.0/24`},
		{"link", `<net:cidr range="10.1.*.0/24"/>`, network},
		{"link", `<net:cidr range="0.0.0.0/0"/>`, network},
		{"link", `<net:cidr range="10.1.0.0/24"/><net:cidr range="10.2.0.0/24"/>`, "has two ranges of addresses"},
		{"link", `<net:proxy user="alice:sesame" host="h"/>`, "write the name of an account, without a password"},
		{"link", `<net:proxy user="alice" host="h" port="0"/>`, `<proxy> with port="0"`},
		{"interface", `<net:proxy user="alice"/>`, `interface "a:0" has a <proxy> with host=""`},
	} {
		in := wishing("", tt.element, "")
		if tt.at == "link" {
			in = wishing("", "", tt.element)
		}
		e := refusalOf(t, in, ours())
		if e.Kind != BadArgs || e.Line == 0 || !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: %d, %v; want %s", tt.element, e.Kind, e, tt.want)
		}
	}
	var many strings.Builder
	for i := range maxNames + 1 {
		fmt.Fprintf(&many, `<net:dns name="n%d"/>`, i)
	}
	if e := refusalOf(t, wishing("", many.String(), ""), ours()); e.Kind != TooBig {
		t.Errorf("too many names: %v", e)
	}
}

func TestMisspelledExtensionsGetRemarks(t *testing.T) {
	const net2 = ` xmlns:x="http://patchbay.example.org/rspec/ext/net/2"`
	for _, tt := range []struct {
		rule, node, in, link, want string
	}{
		{"an element at the wrong place", "", "<net:nat/>", "", `interface "a:0" has an unknown element <nat> about networks; use public, dns, outports, proxy; it is ignored`},
		{"an unknown element", "<net:naat/>", "", "", `node "a" has an unknown element <naat> about networks; use nat`},
		{"no prefix in an interface", "", `<dns name="a"/>`, "", `<dns> has no prefix; write <net:dns> and xmlns:net="` + netSpace},
		{"no prefix in a node", `<nat/>`, "", "", `<nat> has no prefix; write <net:nat>`},
		{"no prefix in a link", "", "", `<cidr range="10.0.0.0/8"/>`, `<cidr> has no prefix; write <net:cidr>`},
		{"a misspelled namespace in an interface", "", `<x:dns` + net2 + `/>`, "", `unknown namespace "http://patchbay.example.org/rspec/ext/net/2"; use ` + netSpace},
		{"a misspelled namespace in a link", "", "", `<x:cidr` + net2 + `/>`, "use " + netSpace},
		{"another misspelled extension", `<x:source xmlns:x="http://patchbay.example.org/rspec/ext/orign/1"/>`, "", "", "use " + originSpace},
	} {
		r := mustParse(t, wishing(tt.node, tt.in, tt.link), ours())
		if got := strings.Join(Lines(r.Notices), "; "); len(r.Notices) != 1 || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.rule, got, tt.want)
		}
	}
	for rule, root := range map[string]string{
		`link "l" has the attribute join without a prefix; write net:join`:  strings.Replace(nodeA+linkTo("l", "", "a:0"), `"l"`, `"l" join="true"`, 1),
		`the attribute join of link "l" is in the unknown namespace`:        strings.Replace(nodeA+linkTo("l", "", "a:0"), `"l"`, `"l" x:join="true"`+net2, 1),
		`<source> is in the unknown namespace "http://patchbay.example.org`: nodeA + `<source xmlns="http://patchbay.example.org/rspec/ext/template/2"/>`,
	} {
		r := mustParse(t, request(root), ours())
		if got := strings.Join(Lines(r.Notices), "; "); !strings.Contains(got, rule) {
			t.Errorf("%s, want %s", got, rule)
		}
	}
}
