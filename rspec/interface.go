package rspec

import (
	"net/netip"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// end is an interface at which links may end. For an interface of another aggregate's node all fields are zero.
type end struct {
	own bool
	// node is the index in Request.Nodes, and number the index in Node.Interfaces.
	node, number int
	// vlan is nil if the interface requests no shared VLAN.
	vlan *xmltree.Element
	// link is the own link that ends here, or the last one of several.
	link *xmltree.Element
}

// addInterface reads e, an interface of the own node n, and adds it to n and to the ends of links. n must be
// the node that is added to Request.Nodes next.
func (p *requestParser) addInterface(e *xmltree.Element, n *Node) {
	in := Interface{ClientID: value(e, "client_id"), Line: e.Line}
	own := end{own: true, node: len(p.r.Nodes), number: len(n.Interfaces)}
	free := p.claimName(&p.interfaceNames, e, true)
	p.readBinding(e, &in)
	for c := range childElements(e) {
		switch {
		case isSharedVLAN(c):
			if own.vlan == nil {
				own.vlan = c
			}
		case isElement(c, "ip"):
			p.addAddress(c, &in)
		case c.Space == netSpace:
			p.readInterfaceWish(c, n, &in)
		default:
			p.remarkForeign(c, &netExtension)
		}
	}
	if most := p.o.Limits.Addresses; len(in.Addresses) > most {
		p.refuse(TooBig, place{e, ""}, in.ClientID, raiseRemedy("ask for fewer", "addresses"), "interface %.80q asks for more than %d addresses", in.ClientID, most)
	}
	if free {
		p.interfaces[in.ClientID] = len(p.ends)
		p.ends = append(p.ends, own)
	}
	n.Interfaces = append(n.Interfaces, in)
}

// readBinding reads the requested physical interface. Some clients write the interface's name
// in the operating system, such as eth1. readBinding ignores such a name with a remark.
func (p *requestParser) readBinding(e *xmltree.Element, in *Interface) {
	text := trimmed(e, "component_id")
	if text == "" {
		return
	}
	at := place{e, "component_id"}
	const name = "urn:"
	if len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
		p.remark(at, in.ClientID, "it is ignored; to request a physical interface, write its URN from the advertisement", "interface %.80q has a component_id that is no URN, %.80q", in.ClientID, text)
		return
	}
	u, err := urn.Parse(text)
	if err != nil || u.Type != urn.Interface {
		p.badArgs(at, in.ClientID, "copy one from the advertisement, …+interface+…, or leave it out", "interface %.80q has a component_id that names no interface, %.80q", in.ClientID, text)
		return
	}
	in.ComponentID, in.Component = text, u
}

// addAddress reads e, an ip element, and adds its address to the interface. An element without an address
// leaves the choice to the site. Such an element, an unknown type, and an IPv6 address without type get a
// remark.
func (p *requestParser) addAddress(e *xmltree.Element, in *Interface) {
	if len(in.Addresses) > p.o.Limits.Addresses {
		return // the interface is refused anyway
	}
	address, mask, family := trimmed(e, "address"), trimmed(e, "netmask"), trimmed(e, "type")
	if !slices.Contains([]string{"", "ipv4", "ipv6"}, strings.ToLower(family)) {
		p.remark(place{e, "type"}, in.ClientID, "write ipv4 or ipv6; the type is ignored", "interface %.80q has an ip of the unknown type %.40q", in.ClientID, family)
	}
	if address == "" {
		p.remark(place{e, ""}, in.ClientID, "write one such as address=\"10.0.0.1\", or leave the choice to the site", "interface %.80q has an ip without an address", in.ClientID)
		return
	}
	a, wrong := readAddress(address, mask, family)
	if wrong != nil {
		p.badArgs(place{e, wrong.attr}, in.ClientID, wrong.remedy, "interface %.80q"+wrong.format, append([]any{in.ClientID}, wrong.args...)...)
		return
	}
	if family == "" && a.Addr().Is6() {
		p.remark(place{e, ""}, in.ClientID, "add type=\"ipv6\", since the default is ipv4; it is read as IPv6", "interface %.80q has the IPv6 address %s without a type", in.ClientID, a.Addr())
	}
	same := func(b netip.Prefix) bool { return a.Addr() == b.Addr() }
	if i := slices.IndexFunc(in.Addresses, same); i >= 0 {
		if in.Addresses[i] != a {
			p.badArgs(place{e, "netmask"}, in.ClientID, "drop one of them", "interface %.80q has the address %s with two netmasks", in.ClientID, a.Addr())
		}
		return
	}
	in.Addresses = append(in.Addresses, a)
}
