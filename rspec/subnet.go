package rspec

import (
	"cmp"
	"net/netip"
	"slices"

	"patchbay/schemas/xmltree"
)

// borne is an address that an interface of a link asks for.
type borne struct {
	netip.Prefix
	by int // number among the link's interfaces
}

// checkAddresses holds the addresses on a link against each other: none may be
// there twice, and interfaces that cannot talk to each other get a remark.
func (p *requestParser) checkAddresses(e *xmltree.Element, l *Link) {
	var list []borne
	for n, name := range l.Interfaces {
		x := &p.ends[p.interfaces[name]]
		for _, a := range p.r.Nodes[x.node].Interfaces[x.number].Addresses {
			list = append(list, borne{a, n})
		}
	}
	if len(list) < 2 {
		return
	}
	slices.SortStableFunc(list, func(a, b borne) int { return a.Addr().Compare(b.Addr()) })
	for i, b := range list[1:] {
		if a := list[i]; a.Addr() == b.Addr() && l.Interfaces[a.by] != l.Interfaces[b.by] {
			p.wrong(place{e, ""}, l.ClientID, "give each interface its own", "link %.80q has the address %s twice, at the interfaces %.80q and %.80q", l.ClientID, a.Addr(), l.Interfaces[a.by], l.Interfaces[b.by])
		}
	}
	if a, b, found := strangers(list); found {
		p.remark(place{e, ""}, l.ClientID, "they reach each other only by a router", "link %.80q has addresses of different networks, %s at the interface %.80q and %s at %.80q",
			l.ClientID, a.Prefix, l.Interfaces[a.by], b.Prefix, l.Interfaces[b.by])
	}
}

// strangers are two of the addresses, in order of the interfaces, that show an
// interface of which no network of the family is at another interface, though
// others have addresses of the family. It sorts the list by interfaces.
func strangers(list []borne) (a, b borne, found bool) {
	first := map[netip.Prefix]int{} // an interface in each network
	shared := map[netip.Prefix]bool{}
	for _, x := range list {
		if by, known := first[x.Masked()]; !known {
			first[x.Masked()] = x.by
		} else if by != x.by {
			shared[x.Masked()] = true
		}
	}
	type key struct {
		by  int
		is4 bool
	}
	met := map[key]bool{}
	for _, x := range list {
		if shared[x.Masked()] {
			met[key{x.by, x.Addr().Is4()}] = true
		}
	}
	slices.SortStableFunc(list, func(a, b borne) int { return cmp.Compare(a.by, b.by) })
	for _, a := range list {
		if met[key{a.by, a.Addr().Is4()}] {
			continue
		}
		for _, b := range list {
			switch {
			case b.by == a.by || b.Addr().Is4() != a.Addr().Is4():
			case b.by < a.by:
				return b, a, true
			default:
				return a, b, true
			}
		}
	}
	return a, b, false
}
