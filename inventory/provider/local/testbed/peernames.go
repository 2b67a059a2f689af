package testbed

import (
	"reflect"
	"slices"
	"strings"

	"patchbay/rspec/hostname"
)

const (
	maxNamed = 64      // addresses of a node that its peers learn
	maxLines = 20000   // of /etc/hosts; the agent accepts no more
	maxKnown = 8 << 10 // bytes of names in a line of ssh_known_hosts
)

func hasSameNames(a, b hostname.Peer) bool {
	return a.Address == b.Address && slices.Equal(a.Names, b.Names) && reflect.DeepEqual(a.Interfaces, b.Interfaces)
}

// peerInterfaces returns the interfaces that have addresses.
func (nc *nodeController) peerInterfaces() []hostname.Interface {
	var all []hostname.Interface
	left := maxNamed
	ifaces := nc.interfaces()
	for i := range ifaces {
		f := &ifaces[i]
		if f.control || f.link == "" || len(f.addresses) == 0 || left == 0 {
			continue
		}
		e := f.named(left)
		left -= len(e.Addresses)
		all = append(all, e)
	}
	return all
}

// named returns the interface with its first addresses, at most limit.
func (f *iface) named(limit int) hostname.Interface {
	e := hostname.Interface{Link: f.link}
	for _, a := range f.addresses[:min(len(f.addresses), limit)] {
		e.Addresses = append(e.Addresses, a.Addr())
	}
	return e
}

// hostsLines gives a peer its addresses on the first common links, in the order of nc's interfaces. Other
// peers have the address that the gateway forwards.
func (p peerFiles) hostsLines(nc *nodeController) []string {
	var own []hostname.Interface
	ifaces := nc.interfaces()
	for i := range ifaces {
		if f := &ifaces[i]; !f.control && f.link != "" {
			own = append(own, f.named(maxNamed))
		}
	}
	return hostname.Lines(p.peers, own, maxLines)
}

// knownHostsLines returns the lines of known_hosts for a node. It splits long lists of names and addresses
// into several lines.
func knownHostsLines(p *hostname.Peer, hostKeys string) []string {
	called := append(slices.Clone(p.Names), p.Address.String())
	for _, e := range p.Interfaces {
		for _, a := range e.Addresses {
			called = append(called, a.String())
		}
		called = append(called, e.Aliases...)
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
