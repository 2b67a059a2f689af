package server

import (
	"net"
	"net/netip"
)

// sourceOf is whose connections are counted together: those of an IPv4 address,
// or of an IPv6 network of 64 bits, all of which one host may use. It is the zero
// value where there is no IP address.
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
