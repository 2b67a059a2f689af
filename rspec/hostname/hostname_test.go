package hostname

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var (
	l57, l63, l64 = strings.Repeat("l", 57), strings.Repeat("l", 63), strings.Repeat("l", 64)
	dotted        = strings.Repeat("d", 40) + "." + strings.Repeat("e", 40)
)

// pairs are two client_ids of a request, the host names of their nodes, and the letters of those nodes, a and
// b, that are reached by their client_ids.
var pairs = []struct{ rule, a, b, hostA, hostB, reached string }{
	{"plain", "web", "db", "web", "db", "ab"},
	{"a capital", "Client", "server", "client", "server", "ab"},
	{"an underscore", "my_server", "client", "my-server", "client", "ab"},
	{"an underscore at the beginning", "_a", "b", "a", "b", "ab"},
	{"an underscore at the end", "a_", "b", "a", "b", "ab"},
	{"two underscores", "a__b", "c", "a-b", "c", "ab"},
	{"hyphens", "a-b-c", "a--b", "a-b-c", "a-b", "ab"},
	{"a hyphen at the end", "a-", "b", "a", "b", "ab"},
	{"a hyphen at the beginning", "-a", "b", "a", "b", "b"},
	{"a DNS name", "web.example.org", "db.example.org", "web-example-org", "db-example-org", "ab"},
	{"a dot at the end", "a.", "b", "a", "b", "b"},
	{"a dot at the beginning", ".a", "b", "a", "b", "b"},
	{"two dots", "a..b", "b", "a-b", "b", "b"},
	{"digits after letters", "pc1", "pc2", "pc1", "pc2", "ab"},
	{"digits before letters", "3d", "0xyz", "3d", "0xyz", "ab"},
	{"a number after a dot", "web.1", "web.2", "web-1", "web-2", "ab"},
	{"five numbers are no address", "1.2.3.4.5", "b", "1-2-3-4-5", "b", "ab"},

	{"equal without case", "pc", "PC", "pc-2", "pc-3", ""},
	{"equal without case, in part", "Pc", "pC", "pc-2", "pc-3", ""},
	{"equal without case, and an underscore", "my_pc", "My_PC", "my-pc-2", "my-pc-3", ""},
	{"a number is in use", "pc-2", "PC", "pc-2", "pc", "ab"},
	{"equal after folding, one is exact", "a_b", "a-b", "a-b-2", "a-b", "ab"},
	{"equal after folding, the other is exact", "a-b", "a_b", "a-b", "a-b-2", "ab"},
	{"equal after folding, exact but for case", "A-B", "a_b", "a-b", "a-b-2", "ab"},
	{"equal after folding, none is exact", "a_b", "a.b", "a-b-2", "a-b-3", "ab"},
	{"equal after folding, one is no name", "a b", "a_b", "a-b-2", "a-b-3", "b"},
	{"equal after folding, one has a second hyphen", "a--b", "a-b", "a-b-2", "a-b", "ab"},
	{"the folded form with its number is exact", "a_b", "a-b-2", "a-b", "a-b-2", "ab"},
	{"the number of a fold is exact", "a.b.", "a-b", "a-b-2", "a-b", "b"},

	{"63 characters", l63, "b", l63, "b", "ab"},
	{"64 characters", l64, "b", l63, "b", "b"},
	{"63 and 64 characters", l63, l64, l63, strings.Repeat("l", 61) + "-2", "a"},
	{"equal in 63 characters", l64 + "1", l64 + "2", strings.Repeat("l", 61) + "-2", strings.Repeat("l", 61) + "-3", ""},
	{"long, with a dot", dotted, "b", strings.Repeat("d", 40) + "-" + strings.Repeat("e", 22), "b", "ab"},
	{"more than a DNS name", strings.Repeat("a.", 130) + "a", "b", strings.TrimSuffix(strings.Repeat("a-", 32), "-"), "b", "b"},

	{"one number", "12", "b", "node-12", "b", "b"},
	{"an octal number", "012", "b", "node-012", "b", "b"},
	{"a hexadecimal number", "0x7f000001", "b", "node-0x7f000001", "b", "b"},
	{"two numbers", "10.1", "b", "10-1", "b", "b"},
	{"an address", "192.0.2.1", "192.0.2.2", "192-0-2-1", "192-0-2-2", ""},
	{"an address in hexadecimal parts", "0xA.0xb", "b", "0xa-0xb", "b", "b"},
	{"an IPv6 address", "fe80::1", "b", "fe80-1", "b", "b"},
	{"a number and its safe name", "012", "node-012", "node-012-2", "node-012", "b"},

	{"letters beyond ASCII", "münchen", "b", "m-nchen", "b", "b"},
	{"no letter of ASCII", "é", "ü", "node-2", "node-3", ""},
	{"no letter of ASCII, and the name node", "é", "node", "node-2", "node", "b"},
	{"a letter that is k without case", "\u212a", "k", "node", "k", "b"},
	{"a blank", "node 1", "b", "node-1", "b", "b"},
	{"a line end", "a\n10.0.0.1 b", "b", "a-10-0-0-1-b", "b", "b"},
	{"an expression", "{{ b }}", "b", "b-2", "b", "b"},
	{"a pattern", "!x", "a:b", "x", "a-b", ""},
	{"a range", "web[1:3]", "*", "web-1-3", "node", ""},

	{"a name of the node itself", "localhost", "b", "node-localhost", "b", "b"},
	{"a name of the node itself, with case", "LocalHost", "b", "node-localhost", "b", "b"},
	{"a name of the node itself, as a fold", "ip6_localhost", "b", "node-ip6-localhost", "b", "ab"},
	{"a domain of the node itself", "a.localdomain", "b.localhost", "a-localdomain", "b-localhost", ""},
	{"the name of a group", "all", "ungrouped", "node-all", "node-ungrouped", "ab"},
}

func peersOf(nodes []Node, links ...string) []Peer {
	var peers []Peer
	for i, n := range nodes {
		p := Peer{ClientID: n.ClientID, Hostname: n.Hostname}
		if n.DNSName != "" {
			p.Hostname = n.DNSName
		}
		for k, link := range links {
			p.Interfaces = append(p.Interfaces, Interface{Link: link, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(k), byte(i + 1)})}})
		}
		peers = append(peers, p)
	}
	SetNames(peers)
	return peers
}

// resolve returns the numbers of the nodes whose lines have the name, which resolvers compare without case.
func resolve(lines []string, name string) (nodes []byte) {
	for _, line := range lines {
		address, names, _ := strings.Cut(line, "\t")
		for n := range strings.SplitSeq(names, " ") {
			if i := netip.MustParseAddr(address).As4()[3] - 1; strings.EqualFold(n, name) && isASCII(name) && !slices.Contains(nodes, i) {
				nodes = append(nodes, i)
			}
		}
	}
	return nodes
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r > 0x7f }) < 0 }

func TestPairsOfNames(t *testing.T) {
	for _, tt := range pairs {
		nodes := []Node{{ClientID: tt.a}, {ClientID: tt.b}}
		Assign(nodes)
		if nodes[0].Hostname != tt.hostA || nodes[1].Hostname != tt.hostB {
			t.Errorf("%s: %q is %q and %q is %q, want %q and %q", tt.rule, tt.a, nodes[0].Hostname, tt.b, nodes[1].Hostname, tt.hostA, tt.hostB)
		}
		lines := Lines(peersOf(nodes, "lan", "b"), on("lan"), 100)
		reached := ""
		for i, n := range nodes {
			switch got := resolve(lines, n.ClientID); {
			case len(got) == 1 && int(got[0]) == i:
				reached += string(rune('a' + i))
			case len(got) > 0:
				t.Errorf("%s: %q reaches %v", tt.rule, n.ClientID, got)
			}
			for _, name := range []string{n.Hostname, Name(nodes)[i]} {
				if got := resolve(lines, name); len(got) != 1 || int(got[0]) != i || !IsHost(n.Hostname) || Problem(name) != "" {
					t.Errorf("%s: %q, a name of %q, reaches %v", tt.rule, name, n.ClientID, got)
				}
			}
		}
		if reached != tt.reached {
			t.Errorf("%s: the client_ids reach %q, want %q", tt.rule, reached, tt.reached)
		}
		spelled := Spellings([]string{tt.a, tt.b})
		for _, name := range spelled[0] {
			if slices.Contains(spelled[1], name) {
				t.Errorf("%s: %q is the name of both for OpenSSH", tt.rule, name)
			}
		}
		turned := []Node{nodes[1], nodes[0]} // without what Assign chose
		for i := range turned {
			turned[i].Hostname = ""
		}
		Assign(turned)
		if names := Name(turned); slices.Contains(names, nodes[0].ClientID) != slices.Contains(Name(nodes), nodes[0].ClientID) {
			t.Errorf("%s: in the other order the names are %q", tt.rule, names)
		}
	}
}

// TestNamesOfLinks checks the names NODE-LINK.
func TestNamesOfLinks(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		ids      []string
		links    []string
		resolves map[string]int // -1 for none
	}{
		{"underscores", []string{"my_server", "client"}, []string{"my_lan"}, map[string]int{"my_server-my_lan": 0, "my-server-my_lan": 0, "CLIENT-my_lan": 1, "client-my-lan": -1}},
		{"the name of a node", []string{"a", "a-lan"}, []string{"lan"}, map[string]int{"a-lan": 1, "a-lan-lan": 1}},
		{"two links", []string{"a", "a-b"}, []string{"b-c", "c"}, map[string]int{"a-b-c": -1, "a-c": 0, "a-b-b-c": 1}},
		{"a name of the node itself", []string{"ip6", "b"}, []string{"localhost"}, map[string]int{"ip6-localhost": -1, "b-localhost": 1}},
		{"no name", []string{"a", "b"}, []string{"my lan", "{{lan}}"}, map[string]int{"a-my lan": -1, "a": 0}},
		{"too long", []string{l57, "b"}, []string{"lan-12"}, map[string]int{l57: 0, l57 + "-lan-12": -1, "b-lan-12": 1}},
	} {
		var nodes []Node
		for _, id := range tt.ids {
			nodes = append(nodes, Node{ClientID: id})
		}
		Assign(nodes)
		lines := Lines(peersOf(nodes, tt.links...), on(tt.links...), 100)
		for name, want := range tt.resolves {
			got := resolve(lines, name)
			if want < 0 && len(got) > 0 || want >= 0 && (len(got) != 1 || int(got[0]) != want) {
				t.Errorf("%s: %q reaches %v, want %d\n%s", tt.rule, name, got, want, strings.Join(lines, "\n"))
			}
		}
	}
}

func TestAssignDNSNames(t *testing.T) {
	nodes := []Node{
		{ClientID: "web", DNSNames: []string{"www.example.org", "w.example.org"}}, // www is a client_id
		{ClientID: "www2", DNSNames: []string{"w.example.net", "v.example.org"}},  // w is in use
		{ClientID: "c", DNSNames: []string{"web.example.org"}},                    // a client_id
		{ClientID: "d", DNSNames: []string{"a." + l63}},                           // longer than names of hosts
		{ClientID: "e", DNSNames: []string{"localhost.example.org", "e.localdomain", "db"}},
		{ClientID: "WWW", DNSNames: []string{"www"}},
	}
	Assign(nodes)
	for i, want := range []string{"w w.example.org", "v v.example.org", "c ", "d ", "db db", "www www"} {
		if got := nodes[i].Hostname + " " + nodes[i].DNSName; got != want {
			t.Errorf("%s has %q, want %q", nodes[i].ClientID, got, want)
		}
	}
}

// TestHostNamesStay checks that later nodes do not take the names of earlier ones.
func TestHostNamesStay(t *testing.T) {
	nodes := []Node{
		{ClientID: "a_b", Hostname: "a-b"}, {ClientID: "pc", Hostname: "pc"}, {ClientID: "x", Hostname: "www", DNSName: "www.example.org"},
		{ClientID: "a-b"}, {ClientID: "PC"}, {ClientID: "www"}, {ClientID: "www.example.org"},
	}
	Assign(nodes)
	names := Name(nodes)
	for i, want := range []string{"a_b", "pc-2", "x", "a-b-2", "pc-2", "www-2", "www-example-org"} {
		if i == 1 {
			want = "pc"
		}
		if names[i] != want {
			t.Errorf("%s is known as %s, want %s", nodes[i].ClientID, names[i], want)
		}
	}
	lines := Lines(peersOf(nodes, "lan"), on("lan"), 100)
	for name, want := range map[string]byte{"a-b": 0, "a_b": 0, "pc": 1, "www": 2, "www.example.org": 2, "pc-2": 4, "www-example-org": 6} {
		if got := resolve(lines, name); len(got) != 1 || got[0] != want {
			t.Errorf("%s reaches %v, want %d", name, got, want)
		}
	}
}

// TestManyNames checks that names that are equal after folding are numbered, and soon.
func TestManyNames(t *testing.T) {
	nodes := make([]Node, 100_000) // at the square of that, this would take hours
	for i := range nodes {
		nodes[i].ClientID = strings.Repeat("é", i%50)
	}
	Assign(nodes)
	seen := map[string]bool{}
	for _, n := range nodes {
		if seen[n.Hostname] || len(n.Hostname) > maxLabel {
			t.Fatalf("%s is given out twice, or too long", n.Hostname)
		}
		seen[n.Hostname] = true
	}
	if !seen["node-100001"] {
		t.Error("they are not numbered through")
	}
}

// on returns interfaces without addresses on the links.
func on(links ...string) (own []Interface) {
	for _, l := range links {
		own = append(own, Interface{Link: l})
	}
	return own
}

func TestLines(t *testing.T) {
	a := netip.MustParseAddr
	peers := []Peer{
		{ClientID: "a", Hostname: "a", Address: a("127.64.0.1"), Interfaces: []Interface{{Link: "lan", Addresses: []netip.Addr{a("fd00::1"), a("10.0.0.1"), a("10.0.0.11")}}}},
		{ClientID: "b", Hostname: "b", Address: a("127.64.0.2"), Interfaces: []Interface{{Link: "lan", Addresses: []netip.Addr{a("10.0.0.2")}}, {Link: "p2p", Addresses: []netip.Addr{a("fd01::2"), a("10.0.1.2")}}}},
		{ClientID: "c", Hostname: "c", Address: a("127.64.0.3"), Interfaces: []Interface{{Link: "wan", Addresses: []netip.Addr{a("10.0.2.3")}}}},
		{ClientID: "d", Hostname: "d"},
	}
	SetNames(peers)
	want := []string{
		"fd00::1\ta a-lan", "10.0.0.1\ta a-lan", // both families
		"10.0.0.2\tb b-lan", "fd01::2\tb b-p2p", // each on the first link that has it
		"127.64.0.3\tc", // no common link
		"10.0.0.11\ta-lan", "10.0.1.2\tb-p2p", "10.0.2.3\tc-wan",
	}
	own := []Interface{{Link: "lan", Addresses: []netip.Addr{a("fd00::9"), a("10.0.0.9")}}, {Link: "p2p", Addresses: []netip.Addr{a("fd01::9")}}}
	if got := Lines(peers, own, 100); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := Lines(peers, own, 5); !slices.Equal(got, want[:5]) {
		t.Errorf("with a limit %q", got)
	}
	own[1].Addresses[0] = a("10.0.1.9") // a family that the node lacks on the link
	if got := Lines(peers, own, 100); !slices.Contains(got, "10.0.0.2\tb b-lan") || !slices.Contains(got, "fd01::2\tb-p2p") {
		t.Errorf("an address is given that cannot be reached: %q", got)
	}
}

// BenchmarkAssign compares 10,000 ordinary names with names that are equal only after they are cut
// for a number.
func BenchmarkAssign(b *testing.B) {
	for _, tt := range []struct{ rule, format string }{
		{"ordinary", "n%s%d"},
		{"equal when cut", strings.Repeat("a", 29) + "%s" + strings.Repeat("a", 29) + "%04d"},
	} {
		b.Run(tt.rule, func(b *testing.B) {
			for b.Loop() {
				var nodes []Node
				for i := range 5000 {
					nodes = append(nodes, Node{ClientID: fmt.Sprintf(tt.format, "_", i)}, Node{ClientID: fmt.Sprintf(tt.format, ".", i)})
				}
				Assign(nodes)
			}
		})
	}
}
