package binder

import (
	"net/netip"
	"reflect"
	"slices"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// without returns a view in which the kept slivers hold nothing, because the request says anew what
// they take.
func (v *View) without(kept map[string]*am.Sliver) *View {
	if len(kept) == 0 || v.Calendar == nil {
		return v
	}
	keys := make(map[string]bool, len(kept))
	for _, x := range kept {
		keys[x.URN.Key()] = true
	}
	w := *v
	w.Calendar = func(f func(*am.Hold) bool) error {
		return v.Calendar(func(h *am.Hold) bool { return keys[string(h.Sliver)] || f(h) })
	}
	return &w
}

const replaceHint = "; Delete the node first, or leave this as it was"

// resolveKept makes the node stay on the component of its sliver.
func (b *binding) resolveKept(n *node, x *am.Sliver) {
	h := am.HoldOf(x)
	c := b.x.componentOf(&h)
	if c == nil {
		b.refuse(n, am.Unsupported, "its component %s is not in the inventory any more, so the node cannot be changed; Delete it first", x.ComponentName)
		return
	}
	if n.Node.ComponentID != "" {
		if u, err := urn.Parse(n.Node.ComponentID); err != nil || !u.Equal(c.URN) {
			b.refuseFor(n, "component_id", am.Unsupported, "it is on %s, and a node cannot move%s", c.Name, replaceHint)
			return
		}
	}
	n.Component = c
	b.setTypeAndImage(n, c)
	if n.done {
		return
	}
	if n.Node.SliverType == "" && n.SliverType.Name != x.SliverType { // the site's default has changed
		if t, ok := b.x.inv.SliverType(x.SliverType); ok {
			b.setSliverType(n, t)
		}
	}
	if n.Node.DiskImage == "" && n.Node.DiskImageURL == "" && n.Image != x.Image {
		n.Image = x.Image
		n.matching = b.matchingOf(n)
	}
}

// checkKept refuses what cannot change while a node exists, and links on which kept addresses and those of the
// request are the same. It runs last, since it sets the amounts of kept nodes and compares what all steps chose.
func (b *binding) checkKept() {
	if len(b.Kept) == 0 {
		return
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		x := b.Kept[n.Node.ClientID]
		if x == nil {
			continue
		}
		if n.Node.Match == nil { // the site's amounts may have changed
			n.Amount = x.Amount
		}
		var granted []am.Feature
		for _, g := range n.Granted {
			granted = append(granted, am.Feature{Feature: g.Feature, Value: g.Value})
		}
		switch {
		case n.SliverType.Name != x.SliverType:
			b.refuseFor(n, "sliver_type", am.Unsupported, "it has the sliver type %s, not %s%s", x.SliverType, n.SliverType.Name, replaceHint)
		case n.Image != x.Image:
			b.refuseFor(n, "disk_image", am.Unsupported, "it has the disk image %s, not %s%s", x.Image, n.Image, replaceHint)
		case n.Exclusive != x.Exclusive:
			b.refuseFor(n, exclusive, am.Unsupported, "whether it is exclusive cannot change%s", replaceHint)
		case n.disks != diskSize(x):
			b.refuse(n, am.Unsupported, "its disks have %d MiB, not %d%s", diskSize(x), n.disks, replaceHint)
		case n.Amount != x.Amount || !reflect.DeepEqual(granted, x.Features):
			b.refuse(n, am.Unsupported, "its constraints ask for another size, which cannot change%s", replaceHint)
		case n.Node.RoutableIP != x.PublicAddress.IsValid() && len(b.x.network.public.names) > 0:
			b.refuseFor(n, "routable_control_ip", am.Unsupported, "whether it has a public address cannot change%s", replaceHint)
		}
	}
	for i := range b.wires {
		w := &b.wires[i]
		owner := map[netip.Addr]string{}
		for _, e := range w.ends {
			for _, a := range b.nodes[e.node].Interfaces[e.number].Addresses {
				if other, taken := owner[a.Addr()]; taken {
					b.refuseLink(w, am.BadArgs, "its interfaces %.80q and %.80q would both have the address %s; write another, or leave the choice to the site", other, b.clientID(e), a.Addr())
				}
				owner[a.Addr()] = b.clientID(e)
			}
		}
	}
}

// diskSize returns the MiB of all disks besides that of the sliver's type.
func diskSize(x *am.Sliver) (mib int64) {
	for i := range x.Setup {
		mib += x.Setup[i].Size
	}
	return mib
}

// keptInterface returns the interface of the kept sliver that the end had already on the same link;
// nil if there is none.
func (b *binding) keptInterface(n *node, number int) *am.Interface {
	x := b.Kept[n.Node.ClientID]
	if x == nil {
		return nil
	}
	in := &n.Interfaces[number]
	i := slices.IndexFunc(x.Interfaces, func(was am.Interface) bool { return was.ClientID == in.ClientID && was.Link == in.Link })
	if i < 0 {
		return nil
	}
	return &x.Interfaces[i]
}

// keepAddresses makes an end keep its addresses, unless the request gives it some, and the wire the
// VLAN.
func (b *binding) keepAddresses(w *wire, e end) {
	was := b.keptInterface(&b.nodes[e.node], e.number)
	if was == nil {
		return
	}
	if in := &b.nodes[e.node].Interfaces[e.number]; len(in.Addresses) == 0 {
		in.Addresses = slices.Clone(was.Addresses)
	}
	if was.SharedVLAN == "" {
		w.tag = was.VLAN
	}
}

// keptPort returns the physical interface that a kept end uses; nil if there is none.
func (b *binding) keptPort(n *node, number int) *inventory.Interface {
	was := b.keptInterface(n, number)
	if was == nil || was.Component.IsZero() {
		return nil
	}
	return b.x.interfaceOf(&am.InterfaceHold{Component: []byte(was.Component.Key()), ComponentName: []byte(was.ComponentName)}, n.Component)
}
