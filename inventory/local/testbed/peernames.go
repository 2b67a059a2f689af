package testbed

import (
	"net/netip"
	"slices"
	"strings"

	"patchbay/inventory/local/agent"
)

const (
	maxNamed = 64      // addresses of a node that its peers learn
	maxLines = 20000   // of /etc/hosts; the agent accepts no more
	maxKnown = 8 << 10 // bytes of names in a line of ssh_known_hosts
)

// samePeer does not compare interfaces, since those of a node never change.
func samePeer(a, b peer) bool {
	return a.node == b.node && a.address == b.address && slices.Equal(a.names, b.names)
}

// peerInterfaces returns the interfaces that have addresses. Each gets an alias NAME-LINK for
// each name in names, except aliases that are the name of a node in nodes.
func (nc *nodeController) peerInterfaces(names []string, nodes map[string]bool) []peerInterface {
	var all []peerInterface
	left := maxNamed
	for i := range nc.interfaces {
		f := &nc.interfaces[i]
		if f.control || f.link == "" || len(f.addresses) == 0 || left == 0 {
			continue
		}
		e := peerInterface{link: f.link}
		for _, a := range f.addresses[:min(len(f.addresses), left)] {
			e.addresses = append(e.addresses, a.Addr())
		}
		left -= len(e.addresses)
		slices.SortStableFunc(e.addresses, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
		for _, name := range names {
			if alias := name + "-" + f.link; agent.IsHostname(alias) && !strings.Contains(name, ".") && !nodes[alias] && !slices.Contains(e.aliases, alias) {
				e.aliases = append(e.aliases, alias)
			}
		}
		all = append(all, e)
	}
	return all
}

// hostsLines gives a peer its address on a common link: the first one in the order of nc's
// interfaces. Other peers have the address that the gateway forwards.
func (p peerFiles) hostsLines(nc *nodeController) []string {
	var mine []string
	for i := range nc.interfaces {
		if f := &nc.interfaces[i]; !f.control && f.link != "" {
			mine = append(mine, f.link)
		}
	}
	lines := make([]string, 0, len(p.peers))
	var more []string // lines with aliases only
	line := func(a netip.Addr, names ...string) string { return a.String() + "\t" + strings.Join(names, " ") }
	for i := range p.peers {
		peer := &p.peers[i]
		at, near := peer.address, peer.interfaceOn(mine)
		names := peer.names
		if near != nil {
			at, names = near.addresses[0], slices.Concat(names, near.aliases)
		}
		if len(names) > 0 {
			lines = append(lines, line(at, names...))
		}
		for j := range peer.interfaces {
			e := &peer.interfaces[j]
			for k, a := range e.addresses {
				if len(e.aliases) > 0 && (e != near || k > 0) {
					more = append(more, line(a, e.aliases...))
				}
			}
		}
	}
	return append(lines, more[:min(len(more), max(0, maxLines-len(lines)))]...)
}

// interfaceOn returns the peer's interface on the first of the links that the peer has, or nil.
func (p *peer) interfaceOn(links []string) *peerInterface {
	for _, link := range links {
		for i := range p.interfaces {
			if p.interfaces[i].link == link {
				return &p.interfaces[i]
			}
		}
	}
	return nil
}

// knownHostsLines splits long lists of names and addresses into several lines.
func (p *peer) knownHostsLines(hostKeys string) []string {
	called := append(slices.Clone(p.names), p.address.String())
	for _, e := range p.interfaces {
		for _, a := range e.addresses {
			called = append(called, a.String())
		}
		called = append(called, e.aliases...)
	}
	var lines []string
	for key := range strings.SplitSeq(hostKeys, "\n") {
		for rest := called; len(rest) > 0; {
			n, size := 0, 0
			for n < len(rest) && (n == 0 || size+len(rest[n]) < maxKnown) {
				size += len(rest[n]) + 1
				n++
			}
			lines = append(lines, strings.Join(rest[:n], ",")+" "+key)
			rest = rest[n:]
		}
	}
	return lines
}
