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

// maxLengths limits the different prefix lengths of a link in which findUnreachable searches.
const maxLengths = 8

// findUnreachable finds an interface that reaches no other one of the link without a router, although
// another interface has an address of the same family. Two addresses reach each other if each lies in
// the network of the other. findUnreachable returns an address of each of these two interfaces, in
// the order of the interfaces. It sorts the list by interface. It finds none in a link with more than
// maxLengths lengths of prefixes.
func findUnreachable(list []linkAddress) (a, b linkAddress, found bool) {
	type length struct {
		bits int
		is4  bool
	}
	lengths := map[length]bool{}
	for _, x := range list {
		lengths[length{x.Bits(), x.Addr().Is4()}] = true
	}
	if len(lengths) > maxLengths {
		return a, b, false
	}
	type key struct {
		end int
		is4 bool
	}
	reachable := map[key]bool{}
	for l := range lengths {
		// Two addresses reach each other if they are in one network of the longer prefix. So in the networks
		// of length l, an address of this length reaches all others, and one with a shorter length reaches
		// those of length l.
		all, exact := map[netip.Prefix]interfaceSet{}, map[netip.Prefix]interfaceSet{}
		each := func(f func(x *linkAddress, network netip.Prefix)) {
			for i := range list {
				if x := &list[i]; x.Addr().Is4() == l.is4 && x.Bits() <= l.bits {
					f(x, netip.PrefixFrom(x.Addr(), l.bits).Masked())
				}
			}
		}
		each(func(x *linkAddress, network netip.Prefix) {
			all[network] = all[network].with(x.end)
			if x.Bits() == l.bits {
				exact[network] = exact[network].with(x.end)
			}
		})
		each(func(x *linkAddress, network netip.Prefix) {
			others := exact[network]
			if x.Bits() == l.bits {
				others = all[network]
			}
			if others.hasOther(x.end) {
				reachable[key{x.end, l.is4}] = true
			}
		})
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

// interfaceSet has the interfaces in one network: the first, and whether there are others.
type interfaceSet struct {
	first        int
	known, other bool
}

func (e interfaceSet) with(end int) interfaceSet {
	if !e.known {
		return interfaceSet{end, true, false}
	}
	e.other = e.other || e.first != end
	return e
}

func (e interfaceSet) hasOther(end int) bool { return e.known && (e.other || e.first != end) }
