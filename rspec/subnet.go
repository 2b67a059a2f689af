package rspec

import (
	"cmp"
	"net/netip"
	"slices"

	"patchbay/schemas/xmltree"
)

type linkAddress struct {
	netip.Prefix
	end int // index of the interface in the link
}

// checkAddresses refuses an address that occurs twice on a link. Interfaces without a common
// network get a remark.
func (p *requestParser) checkAddresses(e *xmltree.Element, l *Link) {
	var list []linkAddress
	for n, name := range l.Interfaces {
		x := &p.ends[p.interfaces[name]]
		for _, a := range p.r.Nodes[x.node].Interfaces[x.number].Addresses {
			list = append(list, linkAddress{a, n})
		}
	}
	if len(list) < 2 {
		return
	}
	slices.SortStableFunc(list, func(a, b linkAddress) int { return a.Addr().Compare(b.Addr()) })
	for i, b := range list[1:] {
		if a := list[i]; a.Addr() == b.Addr() && l.Interfaces[a.end] != l.Interfaces[b.end] {
			p.badArgs(place{e, ""}, l.ClientID, "give each interface its own", "link %.80q has the address %s twice, at the interfaces %.80q and %.80q", l.ClientID, a.Addr(), l.Interfaces[a.end], l.Interfaces[b.end])
		}
	}
	if a, b, found := findUnreachable(list); found {
		p.remark(place{e, ""}, l.ClientID, "they reach each other only through a router", "link %.80q has addresses of different networks, %s at the interface %.80q and %s at %.80q",
			l.ClientID, a.Prefix, l.Interfaces[a.end], b.Prefix, l.Interfaces[b.end])
	}
}

// findUnreachable finds an interface that has no network in common with the other interfaces
// of the link, although another interface has an address of the same family. It returns an
// address of each of these two interfaces, in the order of the interfaces. It sorts the list
// by interface.
func findUnreachable(list []linkAddress) (a, b linkAddress, found bool) {
	first := map[netip.Prefix]int{} // the first interface in each network
	shared := map[netip.Prefix]bool{}
	for _, x := range list {
		if end, known := first[x.Masked()]; !known {
			first[x.Masked()] = x.end
		} else if end != x.end {
			shared[x.Masked()] = true
		}
	}
	type key struct {
		end int
		is4 bool
	}
	reachable := map[key]bool{}
	for _, x := range list {
		if shared[x.Masked()] {
			reachable[key{x.end, x.Addr().Is4()}] = true
		}
	}
	slices.SortStableFunc(list, func(a, b linkAddress) int { return cmp.Compare(a.end, b.end) })
	for _, a := range list {
		if reachable[key{a.end, a.Addr().Is4()}] {
			continue
		}
		for _, b := range list {
			switch {
			case b.end == a.end || b.Addr().Is4() != a.Addr().Is4():
			case b.end < a.end:
				return b, a, true
			default:
				return a, b, true
			}
		}
	}
	return a, b, false
}
