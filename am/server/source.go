package server

import (
	"net"
	"net/netip"
)

// sourceOf returns the network of an address. Connections from one network are counted together.
// The network is a single IPv4 address, or an IPv6 network of 64 bits, because one host may use
// all its addresses. The result is zero if the address is not a TCP address.
func sourceOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
