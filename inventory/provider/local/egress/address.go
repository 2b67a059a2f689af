package egress

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

// Gateway returns the nodes' default gateway, which is also their name server.
func Gateway() netip.Addr { return netip.AddrFrom4([4]byte{100, 64, 0, 1}) }

// NodeNetwork returns the network of the nodes' addresses. These addresses exist only in
// the egress namespace and in the nodes.
func NodeNetwork() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, 0, 0}), 16) }

// MaxNumber is the largest number of a node; the smallest is 1.
const MaxNumber = 256*254 - 1

// Address returns the address of the node with that number, 1 to MaxNumber. No address
// ends in 0 or 255, because old programs reject such addresses.
func Address(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{100, 64, byte(number / 254), byte(number%254 + 1)})
}

// MAC returns the MAC address of Interface in the node with that number.
func MAC(number int) net.HardwareAddr { return hardware(4, number) }

// numberOf returns 0 if a is not the address of a node.
func numberOf(a netip.Addr) int {
	b := a.As4()
	n := int(b[2])*254 + int(b[3]) - 1
	if !NodeNetwork().Contains(a) || b[3] == 0 || b[3] == 255 || n < 1 {
		return 0
	}
	return n
}

// MaxUplinks is the maximum number of uplinks of a host. Their numbers start at 0.
const MaxUplinks = 2 * perRange

// perRange is how many /30 networks a /16 network contains.
const perRange = 1 << 14

// uplink returns the addresses of the two ends of uplink n, on the host and in the egress
// namespace, with their common /30 network. The first perRange uplinks use 198.19.0.0/16,
// which is for device tests. The others use 100.127.0.0/16, which is for providers' own
// use.
func uplink(n uint32) (host, exit netip.Prefix) {
	b := uint32(198<<24 | 19<<16)
	if n >= perRange {
		b = 100<<24 | 127<<16
	}
	b += n % perRange * 4
	return netip.PrefixFrom(address4(b+1), 30), netip.PrefixFrom(address4(b+2), 30)
}

func address4(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// PrivateNetworks returns the networks that are not public Internet. No node reaches
// them, whatever the settings say.
func PrivateNetworks() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	} {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

type span struct{ first, last uint32 }

// spans returns the ranges that IPv4 networks cover, sorted and with adjacent ranges
// merged.
func spans(networks []netip.Prefix) []span {
	var all []span
	for _, p := range networks {
		p = p.Masked()
		if !p.IsValid() || !p.Addr().Is4() {
			continue
		}
		b := p.Addr().As4()
		first := binary.BigEndian.Uint32(b[:])
		all = append(all, span{first, first | uint32(1<<(32-p.Bits())-1)})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var merged []span
	for _, s := range all {
		if n := len(merged); n > 0 && uint64(s.first) <= uint64(merged[n-1].last)+1 {
			merged[n-1].last = max(merged[n-1].last, s.last)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
