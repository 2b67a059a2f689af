package rspec

import (
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
		in := Interface{ClientID: value(i, "client_id")}
		for _, a := range children(i, "ip") {
			ip := IP{value(a, "address"), value(a, "netmask"), value(a, "type")}
			if msg := ip.wrong(); msg != "" {
				return refuse("has an interface %.80q with %s", in.ClientID, msg)
			}
			in.IPs = append(in.IPs, ip)
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

// wrong says what is wrong with an address and what to do; empty if nothing is.
func (ip IP) wrong() string {
	if _, err := netip.ParseAddr(ip.Address); err != nil {
		return "the address " + strconv.Quote(clip(ip.Address)) + ", which is none; write one such as 10.0.0.1"
	}
	if ip.Netmask == "" || validMask(ip.Netmask) {
		return ""
	}
	return "the netmask " + strconv.Quote(clip(ip.Netmask)) + "; write one such as 255.255.255.0"
}

// validMask takes dotted masks and prefix lengths.
func validMask(s string) bool {
	if n, err := strconv.Atoi(strings.TrimPrefix(s, "/")); err == nil {
		return n >= 0 && n <= 128
	}
	a, err := netip.ParseAddr(s)
	return err == nil && (a.Is4() || a.Is6())
}

// clip keeps quoted text short.
func clip(s string) string { return s[:min(len(s), 80)] }
