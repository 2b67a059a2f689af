package testbed

import (
	"slices"

	"patchbay/inventory/provider/local"
)

// maxListedProperties bounds the properties in an answer, in bytes before their encoding. The
// encoding may make them six times as long.
const maxListedProperties = local.MaxAnswer / 16

func (t *Testbed) listLinks() []local.ListedLink {
	nodes := t.sortedNodes()
	t.refreshCounters(nodes)
	all := []local.ListedLink{}
	room := maxListedProperties
	for _, nc := range nodes {
		all = append(all, nc.listLinks(&room)...)
	}
	return all
}

// listLinks returns the node's interfaces with their links and counters. It subtracts the size of their
// properties from budget; properties that no longer fit are only counted.
func (nc *nodeController) listLinks(budget *int) []local.ListedLink {
	rec := nc.snapshot()
	var all []local.ListedLink
	var planned map[string]*link
	if nc.network() != nil {
		planned = nc.network().plan()
	}
	ifaces := nc.interfaces()
	for i := range ifaces {
		f := &ifaces[i]
		if f.control {
			continue
		}
		listed := local.ListedLink{
			SliceURN: rec.Desired.SliceURN, Link: f.link, SharedVLAN: f.shared, Node: nc.id, ClientID: rec.Desired.ClientID, Interface: f.name,
			InterfaceID: f.clientID, MAC: macOf(nc.id, f.clientID).String(), Emulator: nc.network().emulator(f.linkID(nc.id)),
		}
		for _, p := range f.effectiveProperties(planned[f.linkID(nc.id)]) {
			const numbers = 64
			size := numbers
			for _, id := range p.To {
				size += len(id) + 1
			}
			if *budget -= size; *budget < 0 {
				listed.OmittedProperties++
			} else {
				listed.Properties = append(listed.Properties, p)
			}
		}
		for _, a := range f.addresses {
			listed.Addresses = append(listed.Addresses, a.String())
		}
		if c, ok := nc.network().counters(f.endID(nc.id)); ok {
			counters := local.Counters(c)
			listed.Counters = &counters
		}
		all = append(all, listed)
	}
	return all
}

// effectiveProperties returns the properties for frames that leave the interface towards
// existing interfaces.
func (f *iface) effectiveProperties(on *link) []local.ListedProperty {
	var all []local.ListedProperty
	for _, p := range f.properties {
		to := slices.Clone(p.To)
		if on != nil && on.Shared == "" {
			to = slices.DeleteFunc(to, func(id string) bool { return len(on.endsByClientID[id]) == 0 })
		}
		if p.shaping() == (shaping{}) || len(to) == 0 && len(p.To) > 0 {
			continue
		}
		all = append(all, local.ListedProperty{To: to, Capacity: p.Capacity, Latency: p.Latency, PacketLoss: p.PacketLoss})
	}
	return all
}
