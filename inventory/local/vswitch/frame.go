package vswitch

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Frames come from nodes, so any byte of them can be anything.

// mac is an Ethernet address.
type mac [6]byte

// group tells whether the address is of many: multicast or broadcast.
func (m mac) group() bool { return m[0]&1 != 0 }

const (
	ethernetSize = 14
	tagSize      = 4
	maxTags      = 2 // of VLANs inside the link, beside the MTU
)

// addresses are the destination and the source of a frame; they are not ok if
// no switch may pass it on.
func addresses(frame []byte) (to, from mac, ok bool) {
	if len(frame) < ethernetSize {
		return to, from, false
	}
	to, from = mac(frame), mac(frame[6:])
	return to, from, !from.group() && from != mac{}
}

// fits tells whether a frame is not longer than the MTU lets it be.
func fits(frame []byte, mtu int) bool { return len(frame) <= mtu+ethernetSize+maxTags*tagSize }

// Where the fields of the header before a frame are, in the machine's order of bytes.
const (
	atFlags     = 0
	atKind      = 1
	atLength    = 2
	atSegment   = 4
	atSumStart  = 6
	atSumOffset = 8
)

// tcpSum is where a TCP header has its checksum.
const tcpSum = 16

// minSegment is the least payload that a TCP of Linux ever cuts to.
const minSegment = 8

// normal judges the header before a frame that may leave its port in pieces of
// mtu, and rewrites it so that only what was understood is left: the kernel
// reads it again when the frame goes into the next device. It is false if the
// frame must not be passed on.
func normal(header, frame []byte, mtu int) bool {
	get := func(at int) int { return int(binary.NativeEndian.Uint16(header[at:])) }
	needsSum := header[atFlags]&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0
	kind := header[atKind]
	segment, start, offset := get(atSegment), get(atSumStart), get(atSumOffset)
	clear(header[:headerSize])
	whole := kind == unix.VIRTIO_NET_HDR_GSO_NONE
	if whole && !fits(frame, mtu) {
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
	network, headers, ok := tcp(frame, start, kind&^unix.VIRTIO_NET_HDR_GSO_ECN)
	if !ok || offset != tcpSum || segment < minSegment || headers-network+segment > mtu {
		return false
	}
	header[atKind] = kind
	set(atLength, headers)
	set(atSegment, segment)
	return true
}

// tcp finds in a frame that shall be cut where the network's header begins and
// where the TCP header, which must be at transport, ends.
func tcp(frame []byte, transport int, kind byte) (network, end int, ok bool) {
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

// etherType is what is in the frame, behind tags, and where that begins; 0 if it
// has none.
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

// isIPv4TCP tells whether TCP begins at byte at of the packet.
func isIPv4TCP(packet []byte, at int) bool {
	return len(packet) >= 20 && packet[0]>>4 == 4 && int(packet[0]&15)*4 == at && at >= 20 && packet[9] == unix.IPPROTO_TCP
}

// isIPv6TCP tells whether TCP begins at byte at of the packet.
func isIPv6TCP(packet []byte, at int) bool {
	if len(packet) < 40 || packet[0]>>4 != 6 {
		return false
	}
	next, end := packet[6], 40
	for end < at && end+8 <= len(packet) {
		switch next {
		case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS:
		default:
			return false
		}
		next, end = packet[end], end+8*(1+int(packet[end+1]))
	}
	return next == unix.IPPROTO_TCP && end == at
}

// pieces is how many frames a frame with a normal header stands for.
func pieces(b []byte, header int) int {
	if header == 0 || b[atKind] == unix.VIRTIO_NET_HDR_GSO_NONE {
		return 1
	}
	segment := int(binary.NativeEndian.Uint16(b[atSegment:]))
	headers := int(binary.NativeEndian.Uint16(b[atLength:]))
	return max(1, (len(b)-header-headers+segment-1)/segment)
}
