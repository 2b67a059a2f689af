package egress

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAddressesOfNodes(t *testing.T) {
	seen := map[netip.Addr]bool{Gateway(): true}
	for n := 1; n <= MaxNumber; n++ {
		a := Address(n)
		last := a.As4()[3]
		if seen[a] || !NodeNetwork().Contains(a) || last == 0 || last == 255 || numberOf(a) != n {
			t.Fatalf("node %d has %v, which is node %d's", n, a, numberOf(a))
		}
		seen[a] = true
	}
	for _, s := range []string{"100.64.0.0", "100.64.0.1", "100.64.0.255", "100.65.0.2", "10.0.0.1"} {
		if n := numberOf(netip.MustParseAddr(s)); n != 0 {
			t.Errorf("%s is node %d's", s, n)
		}
	}
}

func TestUplinksDoNotTouch(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	for n := range uint32(MaxUplinks) {
		host, exit := uplink(n)
		if host.Masked() != exit.Masked() || host == exit || seen[host.Masked()] || host.Addr() != host.Masked().Addr().Next() || !within(PrivateNetworks(), host.Addr()) || NodeNetwork().Overlaps(host) {
			t.Fatalf("uplink %d: %v, %v", n, host, exit)
		}
		seen[host.Masked()] = true
	}
}

// TestComplementOfNetworks compares with asking each network.
func TestComplementOfNetworks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var networks []netip.Prefix
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			a := address4(rapid.Uint32().Draw(t, "address"))
			networks = append(networks, netip.PrefixFrom(a, rapid.IntRange(0, 32).Draw(t, "bits")))
		}
		all := spans(networks)
		for i, s := range all {
			if s.first > s.last || i > 0 && uint64(all[i-1].last)+1 >= uint64(s.first) {
				t.Fatalf("%v of %v", all, networks)
			}
		}
		probe := rapid.Uint32().Draw(t, "probe")
		for _, p := range append(networks, netip.PrefixFrom(address4(probe), 32)) {
			b := p.Addr().As4()
			n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
			covered := slices.ContainsFunc(all, func(s span) bool { return s.first <= n && n <= s.last })
			if covered != within(networks, p.Addr()) {
				t.Fatalf("%v is covered by %v: %v", p.Addr(), all, covered)
			}
		}
	})
}

func TestRulesHaveOneVersion(t *testing.T) {
	version := func(blocked []netip.Prefix, connections uint32) string {
		r, _ := exitTable(0, blocked, connections)
		return r.version()
	}
	is := version(PrivateNetworks(), 1000)
	if is != version(PrivateNetworks(), 1000) {
		t.Error("equal rules have two versions")
	}
	if is == version(PrivateNetworks()[1:], 1000) || is == version(PrivateNetworks(), 1001) {
		t.Error("different rules have the same version")
	}
	a, _ := hostTable("t", "pbo-a", Address(1), PrivateNetworks(), 1)
	b, _ := hostTable("t", "pbo-b", Address(1), PrivateNetworks(), 1)
	if a.version() == b.version() {
		t.Error("rules for different devices have the same version")
	}
}
