package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Each node has a block of ports for all its outgoing connections. So the operator can find
// the node that used an address and port without a log of each connection.
const (
	blockSize  = 128               // ports
	firstBlock = 10240 / blockSize // lower ports are for services
	blocks     = 65536/blockSize - firstBlock
	// marks is the number of marks. The mark of a node is the low nine bits of its
	// address, and selects its block.
	marks = 512
)

// PortBlocks is how many nodes have a block of ports of their own: the nodes 1 to
// PortBlocks. Nodes with larger numbers share a block with another node.
const PortBlocks = 430

// Ports returns the first and the last host port for connections of a node. The size of
// this range limits the node's simultaneous connections to one port of one address.
func (e *Router) Ports(number int) (first, last uint16) { return portsOf(e.options.Number, number) }

// SourceAddresses returns the public source addresses and ports of a node's connections,
// as address:first-last.
func (e *Router) SourceAddresses(number int) (all []string) {
	addresses := e.options.SourceAddresses
	if len(addresses) == 0 {
		addresses = *e.sourceAddresses.Load()
	}
	first, last := e.Ports(number)
	for _, a := range addresses {
		all = append(all, fmt.Sprintf("%s-%d", netip.AddrPortFrom(a, first), last))
	}
	return all
}

func portsOf(uplink uint32, number int) (first, last uint16) {
	a := Address(number).As4()
	return block(uplink, int(a[2])<<8|int(a[3]))
}

// block returns the first and the last port in the block of a mark. On one host, two
// nodes with the same block would conflict at a common destination. So the blocks of
// different uplinks begin far from each other.
func block(uplink uint32, mark int) (first, last uint16) {
	const far = 267 // 0.618 of all 432 blocks: the golden ratio spreads the blocks evenly
	n := firstBlock + (mark%marks+int(uplink%blocks)*far)%blocks
	return uint16(n * blockSize), uint16(n*blockSize + blockSize - 1)
}

func (r *ruleset) portMap(name string, elements []nftables.SetElement) *nftables.Set {
	return r.set(nftables.Set{Name: name, KeyType: nftables.TypeInetService, DataType: nftables.TypeInetService, IsMap: true}, elements...)
}

func twoBytes(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

// The nftables registers after register 1. Each has sixteen bytes.
const (
	firstPort = unix.NFT_REG_2
	lastPort  = unix.NFT_REG_3
	ownSource = unix.NFT_REG_4
)

// translateNodes adds the rule of the egress namespace that gives connections of nodes a new
// source: the given address, and a port of the node's block. p selects the packets.
func (r *ruleset) translateNodes(c *nftables.Chain, p part, address netip.Addr, uplink uint32) {
	var firsts, lasts []nftables.SetElement
	for mark := range marks {
		first, last := block(uplink, mark)
		firsts = append(firsts, nftables.SetElement{Key: twoBytes(uint16(mark)), Val: twoBytes(first)})
		lasts = append(lasts, nftables.SetElement{Key: twoBytes(uint16(mark)), Val: twoBytes(last)})
	}
	find := func(s *nftables.Set, register uint32) expr.Any {
		return &expr.Lookup{SourceRegister: 1, DestRegister: register, IsDestRegSet: true, SetName: s.Name, SetID: s.ID}
	}
	r.rule(c, p, part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: source + 2, Len: 2},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: twoBytes(marks - 1), Xor: make([]byte, 2)},
		find(r.portMap("first-ports", firsts), firstPort), find(r.portMap("last-ports", lasts), lastPort),
		&expr.Immediate{Register: ownSource, Data: address.AsSlice()},
		&expr.NAT{
			Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: ownSource,
			RegProtoMin: firstPort, RegProtoMax: lastPort, Specified: true,
		},
	})
}

// keepBlocks adds rules of the host, which drop a packet if the host has moved its source
// port to another block. The host does this if another process already uses the port for
// the same destination. The connection would then be attributed to another node. A
// dropped client retries from another port. exit is the source address of the packets
// before their translation.
func (r *ruleset) keepBlocks(c *nftables.Chain, out part, exit netip.Addr) {
	same := r.set(nftables.Set{Name: "same-block", KeyType: nftables.MustConcatSetType(nftables.TypeInetService, nftables.TypeInetService), Concatenation: true}, pairs()...)
	r.unread = c
	const was, is = unix.NFT_REG32_00, unix.NFT_REG32_01 // adjacent registers
	masked := func(register uint32) expr.Any {
		return &expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 2, Mask: twoBytes(0xffff - (blockSize - 1)), Xor: make([]byte, 2)}
	}
	for _, kind := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		r.rule(c, out, part{
			&expr.Ct{Register: 1, Key: expr.CtKeySRC, Direction: 0},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: exit.AsSlice()},
		}, protocol(kind), part{
			&expr.Ct{Register: was, Key: expr.CtKeyPROTOSRC, Direction: 0}, masked(was),
			&expr.Payload{DestRegister: is, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2}, masked(is),
			&expr.Lookup{SourceRegister: was, SetName: same.Name, SetID: same.ID, Invert: true},
		}, drop())
	}
}

// pairs returns one set element for each block, with the block's first port twice.
func pairs() (all []nftables.SetElement) {
	for mark := range blocks {
		first, _ := block(0, mark)
		one := append(twoBytes(first), 0, 0) // each part of a key fills four bytes
		all = append(all, nftables.SetElement{Key: append(slices.Clone(one), one...)})
	}
	return all
}
