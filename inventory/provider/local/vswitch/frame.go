package vswitch

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Frames come from nodes, so their content is untrusted.

type mac [6]byte

// group reports whether the address is multicast or broadcast.
func (m mac) group() bool { return m[0]&1 != 0 }

const (
	ethernetSize = 14
	tagSize      = 4
	maxTags      = 2 // of VLANs inside the link, in addition to the MTU
)

// addresses sets ok to false if no switch may forward the frame.
func addresses(frame []byte) (to, from mac, ok bool) {
	if len(frame) < ethernetSize {
		return to, from, false
	}
	to, from = mac(frame), mac(frame[6:])
	return to, from, !from.group() && from != mac{}
}

func fitsMTU(frame []byte, mtu int) bool { return len(frame) <= mtu+ethernetSize+maxTags*tagSize }

// Offsets of fields in the header before a frame (struct virtio_net_hdr), which uses host
// byte order.
const (
	atFlags     = 0
	atKind      = 1
	atLength    = 2
	atSegment   = 4
	atSumStart  = 6
	atSumOffset = 8
)

// tcpSum is the offset of the checksum in a TCP header.
const tcpSum = 16

// minSegment is the least payload into which Linux splits TCP.
const minSegment = 8

// normalize checks the header before a frame, and reports whether the frame may be forwarded.
// The frame may be a large segment if the kernel can split it into pieces that fit mtu.
// normalize clears all header fields except those that it has checked, because the kernel
// reads the header again at the next device.
func normalize(header, frame []byte, mtu int) bool {
	get := func(at int) int { return int(binary.NativeEndian.Uint16(header[at:])) }
	needsSum := header[atFlags]&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0
	kind := header[atKind]
	segment, start, offset := get(atSegment), get(atSumStart), get(atSumOffset)
	clear(header[:headerSize])
	whole := kind == unix.VIRTIO_NET_HDR_GSO_NONE
	if whole && !fitsMTU(frame, mtu) {
		return false
	}
	if !needsSum {
		return whole
	}
	if start < ethernetSize || start+offset+2 > len(frame) {
		return false
	}
	set := func(at, v int) { binary.NativeEndian.PutUint16(header[at:], uint16(v)) }
	header[atFlags] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	set(atSumStart, start)
	set(atSumOffset, offset)
	if whole {
		return true
	}
	network, headers, ok := tcpHeaders(frame, start, kind&^unix.VIRTIO_NET_HDR_GSO_ECN)
	if !ok || offset != tcpSum || segment < minSegment || headers-network+segment > mtu {
		return false
	}
	header[atKind] = kind
	set(atLength, headers)
	set(atSegment, segment)
	return true
}

// tcpHeaders returns where the network header of a large segment starts, and where its TCP
// header ends. ok is false unless a TCP header starts at transport, after a network header of
// the given kind (VIRTIO_NET_HDR_GSO_TCPV4 or TCPV6).
func tcpHeaders(frame []byte, transport int, kind byte) (network, end int, ok bool) {
	protocol, network := etherType(frame)
	switch {
	case kind == unix.VIRTIO_NET_HDR_GSO_TCPV4 && protocol == unix.ETH_P_IP:
		ok = isIPv4TCP(frame[network:], transport-network)
	case kind == unix.VIRTIO_NET_HDR_GSO_TCPV6 && protocol == unix.ETH_P_IPV6:
		ok = isIPv6TCP(frame[network:], transport-network)
	}
	const least = 20
	if !ok || transport+least > len(frame) {
		return 0, 0, false
	}
	size := int(frame[transport+12]>>4) * 4
	end = transport + size
	return network, end, size >= least && end <= len(frame)
}

// etherType returns the protocol after the VLAN tags, and where the protocol's packet
// starts. The protocol is 0 if the frame is too short or has too many tags.
func etherType(frame []byte) (protocol uint16, at int) {
	at = ethernetSize
	for range maxTags + 1 {
		if at > len(frame) {
			return 0, len(frame)
		}
		protocol = binary.BigEndian.Uint16(frame[at-2:])
		if protocol != unix.ETH_P_8021Q && protocol != unix.ETH_P_8021AD {
			return protocol, at
		}
		at += tagSize
	}
	return 0, len(frame)
}

// isIPv4TCP reports whether a packet begins with an IPv4 header that ends at offset, and TCP
// follows.
func isIPv4TCP(packet []byte, offset int) bool {
	return len(packet) >= 20 && packet[0]>>4 == 4 && int(packet[0]&15)*4 == offset && offset >= 20 && packet[9] == unix.IPPROTO_TCP
}

// isIPv6TCP reports whether a packet begins with an IPv6 header and extension headers that
// end at offset, and TCP follows.
func isIPv6TCP(packet []byte, offset int) bool {
	if len(packet) < 40 || packet[0]>>4 != 6 {
		return false
	}
	next, end := packet[6], 40
	for end < offset && end+8 <= len(packet) {
		switch next {
		case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS:
		default:
			return false
		}
		next, end = packet[end], end+8*(1+int(packet[end+1]))
	}
	return next == unix.IPPROTO_TCP && end == offset
}

// pieces returns the number of frames into which a frame with a normalized header is split. A
// header size of 0 means that there is no header.
func pieces(b []byte, header int) int {
	if header == 0 || b[atKind] == unix.VIRTIO_NET_HDR_GSO_NONE {
		return 1
	}
	segment := int(binary.NativeEndian.Uint16(b[atSegment:]))
	headers := int(binary.NativeEndian.Uint16(b[atLength:]))
	return max(1, (len(b)-header-headers+segment-1)/segment)
}
