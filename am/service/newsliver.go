package service

import (
	"slices"

	"github.com/google/uuid"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec/hostname"
)

// newSlivers returns slivers for the bound nodes, in their order. The slice has the slivers in live already,
// and keeps those in kept.
func newSlivers(inv *inventory.Inventory, slice urn.URN, bound []binder.Bound, live []am.Sliver, kept map[string]*am.Sliver) []am.Sliver {
	names := namesOf(live)
	for i := range bound {
		n := hostname.Node{ClientID: bound[i].Node.ClientID, DNSNames: bound[i].Node.DNSNames}
		if was := kept[n.ClientID]; was != nil {
			n.Hostname, n.DNSName = was.Hostname, was.DNSName
		}
		names = append(names, n)
	}
	hostname.Assign(names)
	slivers := make([]am.Sliver, len(bound))
	for i, n := range names[len(live):] {
		if was := kept[n.ClientID]; was != nil {
			slivers[i] = *was
			continue
		}
		slivers[i] = newSliver(inv, slice, &bound[i])
		slivers[i].Hostname, slivers[i].DNSName = n.Hostname, n.DNSName
	}
	return slivers
}

// namesOf returns the nodes of slivers with their names.
func namesOf(slivers []am.Sliver) []hostname.Node {
	nodes := make([]hostname.Node, len(slivers))
	for i := range slivers {
		nodes[i] = hostname.Node{ClientID: slivers[i].ClientID, Hostname: slivers[i].Hostname, DNSName: slivers[i].DNSName}
	}
	return nodes
}

func newSliver(inv *inventory.Inventory, slice urn.URN, b *binder.Bound) am.Sliver {
	x := am.Sliver{
		URN:   urn.URN{Authority: inv.Manager.Authority, Type: urn.Sliver, Name: uuid.NewString()},
		Slice: slice, ClientID: b.Node.ClientID,
		Component: b.Component.URN, ComponentName: b.Component.Name, Provider: b.Component.Provider,
		SliverType: b.SliverType.Name, Image: b.Image,
		Exclusive: b.Exclusive, Amount: b.Amount,
		Interfaces: nameInterfaces(inv, b.Interfaces), PublicAddress: b.PublicAddress, Asked: b.Asked || b.Node.Colocate != "",
		Generation: 1,
	}
	for _, g := range b.Granted {
		x.Features = append(x.Features, am.Feature{Feature: g.Feature, Value: g.Value})
	}
	fillIn(inv, &x)
	return x
}

// nameInterfaces returns copies of the bound interfaces, with the names of their physical
// interfaces.
func nameInterfaces(inv *inventory.Inventory, bound []am.Interface) []am.Interface {
	all := slices.Clone(bound)
	for i := range all {
		if x, ok := inv.Interface(all[i].Component); ok {
			all[i].ComponentName = x.Name
		}
	}
	return all
}
