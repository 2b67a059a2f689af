package rspec

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// badAddress is a mistake; the text of format and args ends its message.
type badAddress struct {
	attr   string
	remedy string
	format string
	args   []any
}

// readAddress reads an address and its netmask. The netmask is dotted or a prefix length;
// without one the network has the default prefix length. An IPv4 address written as IPv6
// (::ffff:10.0.0.1) becomes IPv4. The parameter family is "" for any type of address.
func readAddress(address, mask, family string) (netip.Prefix, *badAddress) {
	refuse := func(attr, remedy, format string, args ...any) (netip.Prefix, *badAddress) {
		return netip.Prefix{}, &badAddress{attr, remedy, format, args}
	}
	a, err := netip.ParseAddr(address)
	if err != nil {
		return refuse("address", "write one such as 10.0.0.1, and the netmask as a separate attribute", ": %.80q is not an IP address", address)
	}
	if a.Zone() != "" {
		return refuse("address", "leave out the zone, which begins with %", " has the address %.80q with a zone, which means nothing outside of one node", address)
	}
	if f := strings.ToLower(family); f == "ipv6" && a.Is4() || f == "ipv4" && a.Is6() && !a.Is4In6() {
		return refuse("type", "leave out type or correct it", " has the address %.80q, which is not of type %.10q", address, family)
	}
	mapped := a.Is4In6()
	a = a.Unmap()
	bits, ok := maskLength(a, mask)
	if !ok && mapped { // the mask may belong to the IPv6 form of the address
		bits, ok = maskLength(netip.IPv6Unspecified(), mask)
		bits, ok = bits-96, ok && bits > 96
	}
	if !ok {
		example := "255.255.255.0"
		if a.Is6() {
			example = "64"
		}
		return refuse("netmask", "write one such as "+example, ": %.80q is not a netmask for %s", mask, a)
	}
	p := netip.PrefixFrom(a, bits)
	switch {
	case a.IsUnspecified():
		return refuse("address", "write one such as 10.0.0.1, or leave out the ip element to let the site choose", " has the unspecified address %s", a)
	case a.IsMulticast(), a == LastAddress(netip.PrefixFrom(netip.IPv4Unspecified(), 0)):
		return refuse("address", "write one such as 10.0.0.1", " has the multicast or broadcast address %s", a)
	case a.IsLoopback():
		return refuse("address", "write one such as 10.0.0.1", " has the loopback address %s", a)
	case mask == "" || a.Is6() || bits > 30: // without a mask the default length may be wrong
	case a == p.Masked().Addr():
		return refuse("address", "for example write "+a.Next().String(), " has the address %s, which is the address of the network %s itself", a, p)
	case a == LastAddress(p):
		return refuse("address", "for example write "+a.Prev().String(), " has the address %s, which is the broadcast address of the network %s", a, p.Masked())
	}
	return p, nil
}

// maskLength returns the prefix length for a mask of the address a, which is dotted or a number. An empty mask
// is 24 (IPv6: 64). ok is false for an invalid mask.
func maskLength(a netip.Addr, mask string) (bits int, ok bool) {
	if mask == "" {
		if a.Is4() {
			return 24, true
		}
		return 64, true
	}
	if digits := strings.TrimPrefix(mask, "/"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		n, err := strconv.Atoi(digits)
		return n, err == nil && n >= 1 && n <= a.BitLen()
	}
	m, err := netip.ParseAddr(mask)
	if err != nil || m.BitLen() != a.BitLen() || m.Zone() != "" {
		return 0, false
	}
	bits, _ = net.IPMask(m.AsSlice()).Size() // 0 for an invalid mask
	return bits, bits > 0
}

// LastAddress returns the broadcast address of an IPv4 network. It panics for other networks.
func LastAddress(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	hosts := uint32(1<<(32-p.Bits()) - 1)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])|hosts)))
}
