package testbed

import (
	"fmt"
	"strings"

	"patchbay/inventory/local"
)

// listLinks tells of the interfaces of all nodes.
func (t *Testbed) listLinks() []local.ListedLink {
	lives := t.all()
	t.count(lives)
	all := []local.ListedLink{}
	for _, l := range lives {
		all = append(all, l.listLinks()...)
	}
	return all
}

func (l *life) listLinks() []local.ListedLink {
	rec := l.snapshot()
	var all []local.ListedLink
	for i := range l.ifaces {
		f := &l.ifaces[i]
		if f.control {
			continue
		}
		listed := local.ListedLink{
			SliceURN: rec.Asked.SliceURN, Link: f.link, SharedVLAN: f.shared, Node: l.id, ClientID: rec.Asked.ClientID, Interface: f.name,
			MAC: macOf(l.id, f.clientID).String(), Emulator: l.network.emulator(f.on(l.id)), Asked: f.asks(),
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

// shownProperties is how many properties of an interface are told in words.
const shownProperties = 8

// asks tells what frames that leave the interface are to meet.
func (f *iface) asks() string {
	var all []string
	for _, p := range f.properties {
		var words []string
		for _, w := range []struct {
			asked bool
			words string
		}{
			{p.Capacity > 0, fmt.Sprintf("%d kbit/s", p.Capacity)}, {p.Latency > 0, fmt.Sprintf("%g ms", p.Latency)},
			{p.PacketLoss > 0, fmt.Sprintf("%g %% lost", p.PacketLoss)},
		} {
			if w.asked {
				words = append(words, w.words)
			}
		}
		if len(words) == 0 {
			continue
		}
		text := strings.Join(words, " ")
		if len(p.To) > 0 {
			text += " to " + p.To[0]
		}
		if len(p.To) > 1 {
			text += fmt.Sprintf(" and %d more", len(p.To)-1)
		}
		if all = append(all, text); len(all) == shownProperties {
			all = append(all, "...")
			break
		}
	}
	return strings.Join(all, "; ")
}
