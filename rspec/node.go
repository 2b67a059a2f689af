package rspec

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// readNode reads an own node, whose client_id is there.
func readNode(e *xmltree.Element) (Node, error) {
	n := Node{ClientID: value(e, "client_id"), Colocate: value(e, "colocate"), Line: e.Line, element: e.Index}
	refuse := func(format string, args ...any) (Node, error) {
		return Node{}, refusal(BadArgs, e, n.ClientID, "node %.80q "+format, append([]any{n.ClientID}, args...)...)
	}
	if n.ComponentID = strings.TrimSpace(value(e, "component_id")); n.ComponentID != "" {
		u, err := urn.Parse(n.ComponentID)
		if err != nil {
			return refuse("has a component_id that is no URN, %.80q; copy one from the advertisement or leave it out", n.ComponentID)
		}
		n.Component = u
	}
	if text, given := e.Attr("", "exclusive"); given {
		v, ok := boolean(text)
		if !ok {
			return refuse("has exclusive=%.40q; write true or false", text)
		}
		n.Exclusive = &v
	}
	if types := children(e, "sliver_type"); len(types) > 0 {
		if n.SliverType = strings.TrimSpace(value(types[0], "name")); n.SliverType == "" {
			return refuse("has a sliver_type without a name; name one of the advertisement or leave the element out")
		}
		if images := children(types[0], "disk_image"); len(images) > 0 {
			n.DiskImage, n.DiskImageURL = value(images[0], "name"), value(images[0], "url")
		}
	}
	if types := children(e, "hardware_type"); len(types) > 0 {
		n.HardwareType = value(types[0], "name")
	}
	for _, i := range children(e, "interface") {
		in := Interface{ClientID: value(i, "client_id"), Line: i.Line}
		for _, a := range children(i, "ip") {
			p, wrong := readAddress(value(a, "address"), value(a, "netmask"))
			if wrong != "" {
				return refuse("has an interface %.80q with %s", in.ClientID, wrong)
			}
			in.Addresses = append(in.Addresses, p)
		}
		n.Interfaces = append(n.Interfaces, in)
	}
	for _, services := range children(e, "services") {
		for _, i := range children(services, "install") {
			n.Installs = append(n.Installs, Install{value(i, "url"), value(i, "install_path")})
		}
		for _, x := range children(services, "execute") {
			n.Executes = append(n.Executes, Execute{value(x, "shell"), value(x, "command")})
		}
	}
	return n, nil
}

// boolean reads an xs:boolean.
func boolean(s string) (v, ok bool) {
	switch strings.TrimSpace(s) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}

// readAddress reads an address and its mask, which may be dotted or a length;
// wrong says what is wrong with them and what to do.
func readAddress(address, mask string) (p netip.Prefix, wrong string) {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Zone() != "" {
		return p, "the address " + strconv.Quote(clip(address)) + ", which is none; write one such as 10.0.0.1"
	}
	bits, ok := maskLength(a, mask)
	if !ok {
		return p, "the netmask " + strconv.Quote(clip(mask)) + "; write one such as 255.255.255.0"
	}
	return netip.PrefixFrom(a, bits), ""
}

// maskLength is the length that a netmask gives to the network of a.
func maskLength(a netip.Addr, mask string) (bits int, ok bool) {
	if mask == "" {
		if a.Is4() {
			return 24, true
		}
		return 64, true
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(mask, "/")); err == nil {
		return n, n >= 0 && n <= a.BitLen()
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || m.BitLen() != a.BitLen() {
		return 0, false
	}
	for bits := range a.BitLen() + 1 {
		if p, _ := allOnes(a).Prefix(bits); p.Addr() == m {
			return bits, true
		}
	}
	return 0, false
}

// allOnes is the mask of a whole address like a.
func allOnes(a netip.Addr) netip.Addr {
	b := bytes.Repeat([]byte{0xff}, a.BitLen()/8)
	ones, _ := netip.AddrFromSlice(b)
	return ones
}

// clip keeps quoted text short.
func clip(s string) string { return s[:min(len(s), 80)] }
