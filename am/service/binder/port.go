package binder

import (
	"cmp"
	"slices"

	"patchbay/am"
	"patchbay/inventory"
)

// componentOfInterfaces returns the component of the first physical interface that n names; nil if it names none.
func (b *binding) componentOfInterfaces(n *node) *inventory.Component {
	for i := range n.Node.Interfaces {
		if in := &n.Node.Interfaces[i]; in.ComponentID != "" {
			if p, ok := b.x.inv.Interface(in.Component); ok {
				return p.Component
			}
		}
	}
	return nil
}

// choosePorts sets the physical interfaces that the request names for n, or that a kept node has, and refuses n
// if its component does not have them. n must have a component. If the inventory has no interfaces of
// that component, the provider chooses.
func (b *binding) choosePorts(n *node) {
	c := n.Component
	if len(c.Interfaces) == 0 {
		return
	}
	for i := range n.Node.Interfaces {
		in := &n.Node.Interfaces[i]
		if in.ComponentID == "" {
			if p := b.keptPort(n, i); p != nil {
				if n.portsAsked == nil {
					n.portsAsked = make([]*inventory.Interface, len(n.Node.Interfaces))
				}
				n.portsAsked[i], n.Interfaces[i].Component = p, p.URN
			}
			continue
		}
		asked, known := b.x.inv.Interface(in.Component)
		switch {
		case !known:
			b.refuse(n, am.SearchFailed, "there is no physical interface %s, which its interface %.80q names; %s has %s", in.Component, in.ClientID, c.Name, list(c.Interfaces, interfaceURN))
		case asked.Component != c:
			b.refuse(n, am.BadArgs, "its interface %.80q asks for %s of %s, but the node is on %s; name one component", in.ClientID, asked.Name, asked.Component.Name, c.Name)
		default:
			if n.portsAsked == nil {
				n.portsAsked = make([]*inventory.Interface, len(n.Node.Interfaces))
			}
			n.portsAsked[i], n.Interfaces[i].Component = asked, asked.URN
		}
	}
}

// portAsked returns nil if the end asks for no physical interface.
func (b *binding) portAsked(e end) *inventory.Interface {
	if asked := b.nodes[e.node].portsAsked; asked != nil {
		return asked[e.number]
	}
	return nil
}

// capacity returns the kbit/s in each direction.
func capacity(p *inventory.Interface) int64 {
	if p.Capacity == 0 {
		return unlimited
	}
	return p.Capacity
}

// remainingCapacity returns at least 0 in each direction, because an interface may be over-booked
// after a change of the inventory.
func (b *binding) remainingCapacity(p *inventory.Interface) amount {
	if p.Capacity == 0 {
		return amount{unlimited, unlimited}
	}
	held, claimed := b.x.network.ports[p.Index], b.ports[int32(p.Index)]
	return amount{max(0, p.Capacity-held.out-claimed.out), max(0, p.Capacity-held.in-claimed.in)}
}

func (b *binding) users(p *inventory.Interface) int32 {
	return b.x.network.ports[p.Index].users + b.ports[int32(p.Index)].users
}

// claimPort counts a as taken of p by this request; with the sign -1, it releases a.
func (b *binding) claimPort(p *inventory.Interface, a amount, sign int32) {
	c := b.ports[int32(p.Index)]
	c.out += int64(sign) * a.out
	c.in += int64(sign) * a.in
	c.users += sign
	b.ports[int32(p.Index)] = c
}

// better reports whether p is a better choice for an end than other: fewer links use p, or
// equally many links do and p has more capacity left. A nil other is the worst choice.
func (b *binding) better(p, other *inventory.Interface) bool {
	if other == nil {
		return true
	}
	l, o := b.remainingCapacity(p), b.remainingCapacity(other)
	return cmp.Or(cmp.Compare(b.users(p), b.users(other)), cmp.Compare(min(o.out, o.in), min(l.out, l.in))) < 0
}

// portOn returns the best interface of c on physical link l with enough capacity left for a.
// A nil l stands for any physical link. If requested is not nil, only that interface suits. If
// best is nil, roomiest is the suitable interface with the most capacity left, or nil.
func (b *binding) portOn(c *inventory.Component, l *inventory.Link, requested *inventory.Interface, a amount) (best, roomiest *inventory.Interface) {
	for _, p := range c.Interfaces {
		switch {
		case !p.CarriesLinks() || l != nil && p.Link != l || requested != nil && p != requested:
		case a.within(b.remainingCapacity(p)):
			if b.better(p, best) {
				best = p
			}
		case roomiest == nil || !b.remainingCapacity(p).within(b.remainingCapacity(roomiest)):
			roomiest = p
		}
	}
	return best, roomiest
}

// shortage is an end whose best interface has too little capacity.
type shortage struct {
	end  end
	port *inventory.Interface
	amount
	left amount
}

// route is a choice of physical interfaces, one for each wired end (nil for others).
type route struct {
	ports []*inventory.Interface
	users int64 // uses of its interfaces by other links
	left  int64 // the least capacity that the route leaves on one of its interfaces
}

// try takes interfaces on physical link l for all wired ends of w. If it fails, it takes no
// interface. Then shortfall is the end whose interface has too little capacity, or nil if a
// component has no suitable interface on l.
func (b *binding) try(w *wire, l *inventory.Link, amounts []amount) (r route, shortfall *shortage, ok bool) {
	r = route{ports: make([]*inventory.Interface, len(w.ends)), left: unlimited}
	for i, e := range w.ends {
		c := b.nodes[e.node].Component
		if !c.IsWired() {
			continue
		}
		p, roomiest := b.portOn(c, l, b.portAsked(e), amounts[i])
		if p == nil {
			if roomiest != nil {
				shortfall = &shortage{e, roomiest, amounts[i], b.remainingCapacity(roomiest)}
			}
			r.ports = r.ports[:i]
			b.releasePorts(r, amounts)
			return route{}, shortfall, false
		}
		r.ports[i] = p
		r.users += int64(b.users(p))
		b.claimPort(p, amounts[i], 1)
		now := b.remainingCapacity(p)
		r.left = min(r.left, now.out, now.in)
	}
	return r, nil, true
}

func (b *binding) releasePorts(r route, amounts []amount) {
	for i, p := range r.ports {
		if p != nil {
			b.claimPort(p, amounts[i], -1)
		}
	}
}

// connect chooses the physical interfaces of the ends of w, or refuses w. All nodes must have components. Without
// a physical link, only the interfaces count that the request names.
func (b *binding) connect(w *wire) {
	if w.tunnel || len(w.ends) == 0 {
		return
	}
	amounts := b.amounts(w)
	several, wired := b.countComponents(w)
	isRouted := several && wired > 1 || w.over != nil && slices.ContainsFunc(w.ends, func(e end) bool { return b.nodes[e.node].Component.IsWired() })
	if w.shared != nil || isRouted {
		for _, e := range w.ends {
			if p := b.portAsked(e); p != nil && !p.CarriesLinks() {
				b.refuseLink(w, am.Unsupported, "%s of %s carries no links; leave out the component_id of interface %.80q, or name one of %s", p.Name, p.Component.Name, b.clientID(e), list(linkedInterfaces(p.Component), interfaceName))
				return
			}
		}
	}
	switch {
	case w.shared != nil:
		b.connectShared(w, amounts)
	case isRouted && len(w.existing) > 0 && w.over == nil:
		b.refuseApart(w)
	case isRouted:
		b.connectOver(w, amounts)
	case w.only != nil && w.over == nil:
		b.refuseLink(w, am.Unsupported, "it asks for a physical link (%s), but its nodes are on one component, or on components without one; leave component_id and link_type out, or name components of the nodes", list(w.only, linkName))
	default: // on one component, or the provider decides
		for i, e := range w.ends {
			p := b.portAsked(e)
			if p == nil {
				continue
			}
			if !amounts[i].within(b.remainingCapacity(p)) {
				b.refuseShort(w, &shortage{e, p, amounts[i], b.remainingCapacity(p)})
				return
			}
			b.claimPort(p, amounts[i], 1)
			b.setPort(e, p, amounts[i])
		}
	}
}

// connectShared chooses an interface for each wired end independently, since a shared
// VLAN is on every physical link.
func (b *binding) connectShared(w *wire, amounts []amount) {
	for i, e := range w.ends {
		c := b.nodes[e.node].Component
		if !c.IsWired() {
			continue
		}
		p, short := b.portOn(c, nil, b.portAsked(e), amounts[i])
		if p == nil {
			b.refuseShort(w, &shortage{e, short, amounts[i], b.remainingCapacity(short)})
			return
		}
		b.claimPort(p, amounts[i], 1)
		b.setPort(e, p, amounts[i])
	}
}

// connectOver chooses a physical link that joins all wired ends. It prefers the link whose
// interfaces the fewest links use, then the link with the most capacity left, then the first
// in the inventory.
func (b *binding) connectOver(w *wire, amounts []amount) {
	var first *inventory.Component
	for _, e := range w.ends {
		if c := b.nodes[e.node].Component; c.IsWired() {
			first = c
			break
		}
	}
	var best *inventory.Link
	var bestRoute route
	var short *shortage
	for i, p := range first.Interfaces {
		if !p.CarriesLinks() || onLink(first.Interfaces[:i], p.Link) || !w.allows(p.Link) {
			continue
		}
		if !b.work.add(len(w.ends)*len(first.Interfaces) + len(w.only)) {
			return // the caller refuses the link
		}
		r, s, ok := b.try(w, p.Link, amounts)
		if !ok {
			if short == nil {
				short = s
			}
			continue
		}
		b.releasePorts(r, amounts)
		if best == nil || cmp.Or(cmp.Compare(r.users, bestRoute.users), cmp.Compare(bestRoute.left, r.left), cmp.Compare(p.Link.Index, best.Index)) < 0 {
			best, bestRoute = p.Link, r
		}
	}
	if best == nil && short != nil && b.joins(w, short.port.Link) {
		b.refuseShort(w, short)
		return
	}
	if best == nil {
		b.refuseUnjoined(w)
		return
	}
	for i, p := range bestRoute.ports {
		if p != nil {
			b.claimPort(p, amounts[i], 1)
			b.setPort(w.ends[i], p, amounts[i])
		}
	}
	w.routed = true
}

// joins reports whether all wired ends could be on l if there were capacity.
func (b *binding) joins(w *wire, l *inventory.Link) bool {
	for _, e := range w.ends {
		c := b.nodes[e.node].Component
		if p, short := b.portOn(c, l, b.portAsked(e), amount{}); c.IsWired() && p == nil && short == nil {
			return false
		}
	}
	return true
}

func onLink(ports []*inventory.Interface, l *inventory.Link) bool {
	for _, p := range ports {
		if p.CarriesLinks() && p.Link == l {
			return true
		}
	}
	return false
}

func (b *binding) setPort(e end, p *inventory.Interface, a amount) {
	got := &b.nodes[e.node].Interfaces[e.number]
	got.Component, got.Out, got.In = p.URN, a.out, a.in
}

func interfaceName(i *inventory.Interface) string { return i.Name }
func interfaceURN(i *inventory.Interface) string  { return i.URN.String() }
