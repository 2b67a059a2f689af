package testbed

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/provider"
	"patchbay/rspec/hostname"
)

func TestPeersAreNamedByTheirLinks(t *testing.T) {
	h, tb := runFakeHost(t)
	nodes := map[string]provider.Resource{
		nodeName(1): newLinkedNode("a.exp.example.org", interfaceItem("a:0", "lan", "10.0.0.1/24", ""), interfaceItem("a:1", "p2p", "10.0.1.1/24", "")),
		nodeName(2): newLinkedNode("b", interfaceItem("b:0", "p2p", "10.0.1.2/24", ""), interfaceItem("b:1", "lan", "fd00::2/64", `,"x":1`)),
		nodeName(3): newLinkedNode("c", strings.Replace(interfaceItem("c:0", "lan", "", ""), "}", `,"addresses":["fd00::3/64","10.0.0.3/24"]}`, 1), `{"client_id":"c:1","addresses":["10.0.9.1/24"]}`),
		nodeName(4): newLinkedNode("d", interfaceItem("d:0", "p2p", "", "")),
		nodeName(5): newLinkedNode("c-lan", interfaceItem("e:0", "my link", "10.0.5.1/24", "")),
	}
	setAll(t, tb, nodes)
	want := map[string][]string{
		nodeName(1): { // it has no IPv6 address, so no names at those of b and c
			"10.0.0.1\ta.exp.example.org a a-lan", "fd00::2\tb-lan", "10.0.0.3\tc", "127.64.0.4\td", "127.64.0.5\tc-lan",
			"10.0.1.1\ta-p2p", "10.0.1.2\tb b-p2p",
		},
		nodeName(2): { // it has IPv4 on p2p, its first link, and IPv6 on the other
			"10.0.1.1\ta.exp.example.org a a-p2p", "10.0.1.2\tb b-p2p", "fd00::3\tc", "127.64.0.4\td", "127.64.0.5\tc-lan",
			"10.0.0.1\ta-lan", "fd00::2\tb b-lan",
		},
		nodeName(5): {
			"127.64.0.1\ta.exp.example.org a", "127.64.0.2\tb", "127.64.0.3\tc", "127.64.0.4\td", "10.0.5.1\tc-lan",
			"10.0.0.1\ta-lan", "10.0.1.1\ta-p2p", "10.0.1.2\tb-p2p", "fd00::2\tb-lan",
		},
	}
	// The order of the testbed's addresses is random.
	awaitNode(t, tb, nodeName(1), func(provider.Resource) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i := range 5 {
			if s := h.running[nodeName(i+1)]; s == nil || len(s.cfg.KnownHosts) != 10 {
				return false
			}
		}
		return true
	})
	rename := map[string]string{}
	for a, nc := range tb.sliceByURN(sliceURN).peers {
		rename[a.String()+"\t"] = fmt.Sprintf("127.64.0.%c\t", nc.id[7])
	}
	plain := func(lines []string) []string {
		var all []string
		for _, line := range lines {
			address, names, _ := strings.Cut(line, "\t")
			if to := rename[address+"\t"]; to != "" {
				line = to + names
			}
			all = append(all, line)
		}
		slices.Sort(all)
		return all
	}
	h.checkNetworks(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, lines := range want {
		slices.Sort(lines)
		if got := plain(h.running[name].cfg.Hosts); !slices.Equal(got, lines) {
			t.Errorf("%s knows\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
	}
	for _, line := range h.running[nodeName(4)].cfg.KnownHosts {
		if strings.HasPrefix(line, "b,") && !strings.Contains(line, ",10.0.1.2,b-p2p,fd00::2,b-lan ") {
			t.Errorf("b is known as %s", line)
		}
	}
}

// Peers learn a bounded number of addresses of a node.
func TestNamesOfPeersAreBounded(t *testing.T) {
	var items []string
	for i := range maxInterfaces {
		var addresses []string
		for j := range maxAddresses {
			addresses = append(addresses, fmt.Sprintf("%q", fmt.Sprintf("fd00:0:0:%x::%x/64", i, j+1)))
		}
		items = append(items, fmt.Sprintf(`{"client_id":"%d","link":"l%d","addresses":[%s]}`, i, i, strings.Join(addresses, ",")))
	}
	ifaces, err := parseInterfaces(items)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 60)
	lines := peerFiles{}
	for range maxNodes {
		nc := new(nodeController)
		nc.ifaces.Store(&ifaces)
		p := []hostname.Peer{{Hostname: name, Address: netip.MustParseAddr("127.64.0.1"), Interfaces: nc.peerInterfaces()}}
		hostname.SetNames(p)
		known := knownHostsLines(&p[0], "ssh-ed25519 AAAA\necdsa-sha2-nistp256 BBBB")
		if len(known) > 8 || slices.ContainsFunc(known, func(s string) bool { return len(s) > 16<<10 }) {
			t.Fatalf("%d lines of known hosts, the first of %d bytes", len(known), len(known[0]))
		}
		lines.peers = append(lines.peers, p...)
	}
	nc := new(nodeController)
	nc.ifaces.Store(&ifaces)
	hosts := lines.hostsLines(nc)
	if len(hosts) != maxLines {
		t.Errorf("%d lines of hosts", len(hosts))
	}
}

// TestPeersKnowANodeBeforeItsSteps checks that the first step of a new node waits until older nodes have its name.
func TestPeersKnowANodeBeforeItsSteps(t *testing.T) {
	h := newFakeHost(t)
	h.quiet = time.Hour // no other update of the older nodes
	tb, stop := h.run(-1)
	defer stop()
	begun := func(n int) func(provider.Resource) bool {
		return func(provider.Resource) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.ContainsFunc(h.begun, func(s string) bool { return strings.HasPrefix(s, nodeName(n)+" ") })
		}
	}
	older := func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		return strings.Join(h.running[nodeName(1)].cfg.Hosts, "\n")
	}
	setUntilReady(t, tb, nodeName(1), newNode("old", sliceURN, "alice"))
	for n, name := range []string{"new", "newer"} {
		r := newNode(name, sliceURN, "alice")
		r["setup"] = []string{executeStep(name)}
		set(t, tb, nodeName(n+2), r)
		awaitNode(t, tb, nodeName(n+2), begun(n+2))
		if hosts := older(); !strings.Contains(hosts, name) {
			t.Errorf("when the first step of %s begins, the older node has\n%s", name, hosts)
		}
	}
}
