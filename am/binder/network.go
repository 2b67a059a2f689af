package binder

import (
	"net/netip"
	"slices"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
)

type network struct {
	ports  []port  // of each interface of the inventory
	widest []int64 // for each physical link, the largest capacity of an interface
	tags   pool[int]
	public pool[netip.Addr]
	// alone counts, by tag, the interfaces of slivers on links without a shared VLAN. It may
	// have tags that are no longer in the pool.
	alone map[int]int32
}

type port struct {
	out, in int64 // held capacity in kbit/s
	users   int32 // interfaces of slivers that use it
}

type networkHold struct {
	ports  []portHold
	public netip.Addr
}

// portHold has the resources that one interface of a sliver holds: a physical interface with
// capacity, a VLAN tag, or both.
type portHold struct {
	port    urn.URN // zero for none
	name    string  // on its component
	out, in int64
	tag     int // 0 for none
	shared  bool
}

func newNetwork(v *inventory.Inventory) network {
	n := network{make([]port, len(v.Interfaces)), make([]int64, len(v.Links)), newPool(v.VLANs), newPool(v.PublicAddresses), map[int]int32{}}
	for _, p := range v.Interfaces {
		if p.CarriesLinks() {
			n.widest[p.Link.Index] = max(n.widest[p.Link.Index], capacity(p))
		}
	}
	return n
}

// capacity returns the kbit/s in each direction.
func capacity(p *inventory.Interface) int64 {
	if p.Capacity == 0 {
		return unlimited
	}
	return p.Capacity
}

func (n *network) freePublic() int64 { return int64(len(n.public.names) - n.public.held) }

// networkOf returns nil for a sliver without network resources.
func (x *Index) networkOf(s *am.Sliver) *networkHold {
	var ports []portHold
	for _, i := range s.Interfaces {
		if i.Component.IsZero() && i.VLAN == 0 {
			continue
		}
		h := portHold{i.Component, i.ComponentName, i.Out, i.In, i.VLAN, i.SharedVLAN != ""}
		if known, ok := x.inv.Interface(h.port); ok {
			h.port, h.name = known.URN, shareText(h.name, known.Name) // share their text
		}
		ports = append(ports, h)
	}
	if len(ports) == 0 && !s.PublicAddress.IsValid() {
		return nil
	}
	return &networkHold{ports, s.PublicAddress}
}

// equal accepts nil for h and o.
func (h *networkHold) equal(o *networkHold) bool {
	if h == nil || o == nil {
		return h == o
	}
	return h.public == o.public && slices.Equal(h.ports, o.ports)
}

// count removes the resources of the hold if sign is negative.
func (n *network) count(v *inventory.Inventory, holding hold, sign int32) {
	h := holding.network
	if h == nil {
		return
	}
	on := am.Sliver{Component: holding.component, ComponentName: holding.name, Provider: holding.provider}
	for _, p := range h.ports {
		if i, ok := v.InterfaceOf(&on, &am.Interface{Component: p.port, ComponentName: p.name}); ok {
			held := &n.ports[i.Index]
			held.out += int64(sign) * p.out
			held.in += int64(sign) * p.in
			held.users += sign
		}
		if p.tag != 0 {
			n.tags.count(p.tag, sign)
			if !p.shared {
				n.alone[p.tag] += sign
			}
		}
	}
	if h.public.IsValid() {
		n.public.count(h.public, sign)
	}
}
