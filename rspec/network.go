package rspec

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// annotateInterface removes facts of an earlier manifest, and writes f. It removes sliver_id,
// because interfaces are not slivers here.
func (s *splices) annotateInterface(e *xmltree.Element, f InterfaceFacts) {
	t := s.startTag(e)
	t.drop("", "sliver_id")
	if f.MAC == "" {
		t.drop("", "mac_address")
	} else {
		t.set("mac_address", f.MAC)
	}
	if !f.ComponentID.IsZero() {
		t.setURN("component_id", f.ComponentID)
	}
	for _, h := range children(e, "host") {
		s.cut(h)
	}
	s.annotateAddresses(e, f.Addresses)
}

// annotateAddresses writes the addresses into the interface e, unless the request names one. First it
// fills ip elements without an address, each with an address of the element's type. Then it
// adds elements for the remaining addresses.
func (s *splices) annotateAddresses(e *xmltree.Element, addresses []netip.Prefix) {
	elements := children(e, "ip")
	for _, ip := range elements {
		if trimmed(ip, "address") != "" {
			return
		}
	}
	left := make([]address, 0, len(addresses))
	for _, p := range addresses {
		if p.IsValid() {
			left = append(left, addressOf(p))
		}
	}
	for _, ip := range elements {
		kind := trimmed(ip, "type")
		i := slices.IndexFunc(left, func(a address) bool { return kind == "" || strings.EqualFold(kind, a.kind) })
		if i < 0 {
			continue
		}
		t := s.startTag(ip)
		t.set("address", left[i].address)
		t.set("netmask", left[i].netmask)
		t.set("type", left[i].kind)
		left = slices.Delete(left, i, i+1)
	}
	var b strings.Builder
	for _, a := range left {
		writeElement(&b, Namespace, "ip", "address", a.address, "netmask", a.netmask, "type", a.kind)
	}
	s.appendTo(e, b.String())
}

type address struct{ address, netmask, kind string }

// addressOf returns the attributes for an address and its network. An IPv4 mask is dotted, as clients expect.
// An IPv6 mask is a prefix length, because it has no other form.
func addressOf(p netip.Prefix) address {
	a, bits := p.Addr().WithZone(""), p.Bits()
	if a.Is4In6() {
		a, bits = a.Unmap(), max(bits-96, 0)
	}
	if a.Is4() {
		return address{a.String(), net.IP(net.CIDRMask(bits, 32)).String(), "ipv4"}
	}
	return address{a.String(), strconv.Itoa(bits), "ipv6"}
}

// annotateLink removes facts of an earlier manifest, and writes f, and the component_manager if the
// link names none. It removes sliver_id, because links are not slivers here, and net:join, because the
// manifest can be requested again without the link that was joined. The parameter ends has the
// component_ids of interfaces, by client_id.
func (s *splices) annotateLink(e *xmltree.Element, f LinkFacts, manager urn.URN, ends map[string]urn.URN) {
	t := s.startTag(e)
	t.drop("", "sliver_id")
	t.drop(netSpace, "join")
	if f.VLANTag != "" {
		t.set("vlantag", f.VLANTag)
	}
	for _, ref := range children(e, "interface_ref") {
		t := s.startTag(ref)
		t.drop("", "sliver_id")
		if u := ends[value(ref, "client_id")]; !u.IsZero() {
			t.setURN("component_id", u)
		}
	}
	for _, c := range e.Elements() {
		if isNotice(c) {
			s.cut(c)
		}
	}
	var b strings.Builder
	if !slices.ContainsFunc(children(e, "component_manager"), func(m *xmltree.Element) bool { return managerName(m) != "" }) {
		writeElement(&b, Namespace, "component_manager", "name", manager.String())
	}
	s.writeNotices(&b, f.Notices)
	s.appendTo(e, b.String())
}
