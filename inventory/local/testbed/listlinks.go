package testbed

import (
	"slices"

	"patchbay/inventory/local"
)

// allAsked bounds the properties in an answer, in bytes before they are
// encoded, which may take six for one.
const allAsked = local.MaxAnswer / 16

// listLinks lists the interfaces of all nodes.
func (t *Testbed) listLinks() []local.ListedLink {
	lives := t.all()
	t.count(lives)
	all := []local.ListedLink{}
	room := allAsked
	for _, l := range lives {
		all = append(all, l.listLinks(&room)...)
	}
	return all
}

func (l *life) listLinks(room *int) []local.ListedLink {
	rec := l.snapshot()
	var all []local.ListedLink
	var drawn map[string]*link
	if l.network != nil {
		drawn = l.network.draw()
	}
	for i := range l.ifaces {
		f := &l.ifaces[i]
		if f.control {
			continue
		}
		listed := local.ListedLink{
			SliceURN: rec.Asked.SliceURN, Link: f.link, SharedVLAN: f.shared, Node: l.id, ClientID: rec.Asked.ClientID, Interface: f.name,
			InterfaceID: f.clientID, MAC: macOf(l.id, f.clientID).String(), Emulator: l.network.emulator(f.on(l.id)),
		}
		for _, p := range f.asks(drawn[f.on(l.id)]) {
			const numbers = 64
			size := numbers
			for _, id := range p.To {
				size += len(id) + 1
			}
			if *room -= size; *room < 0 {
				listed.Untold++
			} else {
				listed.Asked = append(listed.Asked, p)
			}
		}
		for _, a := range f.addresses {
			listed.Addresses = append(listed.Addresses, a.String())
		}
		if c, ok := l.network.counters(f.endID(l.id)); ok {
			counters := local.Counters(c)
			listed.Counters = &counters
		}
		all = append(all, listed)
	}
	return all
}

// asks is what frames that leave the interface are to meet on the way to ends that
// are there.
func (f *iface) asks(on *link) []local.ListedProperty {
	var all []local.ListedProperty
	for _, p := range f.properties {
		to := slices.Clone(p.To)
		if on != nil && on.Shared == "" {
			to = slices.DeleteFunc(to, func(id string) bool { return len(on.ends[id]) == 0 })
		}
		if p.measure() == (measure{}) || len(to) == 0 && len(p.To) > 0 {
			continue
		}
		all = append(all, local.ListedProperty{To: to, Capacity: p.Capacity, Latency: p.Latency, PacketLoss: p.PacketLoss})
	}
	return all
}
