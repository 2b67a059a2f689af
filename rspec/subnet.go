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
	if by := strangers(list); len(by) == 2 {
		a, b := list[by[0]], list[by[1]]
		p.remark(place{e, ""}, l.ClientID, "they reach each other only by a router", "link %.80q has addresses of different networks, %s at the interface %.80q and %s at %.80q",
			l.ClientID, a.Prefix, l.Interfaces[a.by], b.Prefix, l.Interfaces[b.by])
	}
}

// strangers are two of the addresses, in order of the interfaces, that show an
// interface of which no network of the family is at another interface, though
// others have addresses of the family; nil if there is none.
func strangers(list []borne) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	network := func(i int) netip.Prefix { return list[i].Masked() }
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := network(i), network(j)
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()), cmp.Compare(list[i].by, list[j].by))
	})
	type key struct {
		by  int
		is4 bool
	}
	met := map[key]bool{}
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && network(order[to]) == network(order[from]) {
			to++
		}
		if list[order[from]].by != list[order[to-1]].by {
			for _, i := range order[from:to] {
				met[key{list[i].by, list[i].Addr().Is4()}] = true
			}
		}
		from = to
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(list[i].by, list[j].by), cmp.Compare(i, j)) })
	for _, i := range order {
		a := list[i]
		if met[key{a.by, a.Addr().Is4()}] {
			continue
		}
		for _, j := range order {
			if b := list[j]; b.by != a.by && b.Addr().Is4() == a.Addr().Is4() {
				if b.by < a.by {
					return []int{j, i}
				}
				return []int{i, j}
			}
		}
	}
	return nil
}
