package egress

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// part is a part of an nftables rule. Most parts load a field of a packet into register
// 1 and compare it. If a part does not match, the kernel skips the rest of the rule.
type part = []expr.Any

// meta matches a property of the packet other than its content, such as its device.
func meta(key expr.MetaKey, op expr.CmpOp, value []byte) part {
	return part{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: value}}
}

// name returns the name of a device as the kernel compares it, padded with zero bytes.
func name(device string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, device)
	return b
}

// from, notFrom, to and notTo match the device through which a packet arrived or will leave.
func from(device string) part    { return meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, name(device)) }
func notFrom(device string) part { return meta(expr.MetaKeyIIFNAME, expr.CmpOpNeq, name(device)) }
func to(device string) part      { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, name(device)) }
func notTo(device string) part   { return meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, name(device)) }

// toAny matches if the name of the outgoing device begins with prefix, and notToAny if
// it does not.
func toAny(prefix string) part    { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, []byte(prefix)) }
func notToAny(prefix string) part { return meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, []byte(prefix)) }

func protocol(p byte) part { return meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{p}) }

// Offsets of the addresses in an IPv4 header.
const (
	source      = 12
	destination = 16
)

func load(offset uint32) *expr.Payload {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

// is matches if the address at an offset of the IPv4 header equals a.
func is(offset uint32, a netip.Addr) part {
	return part{load(offset), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a.AsSlice()}}
}

func isNot(offset uint32, a netip.Addr) part {
	return part{load(offset), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: a.AsSlice()}}
}

func isOutside(offset uint32, p netip.Prefix) part {
	mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-p.Bits()))
	return part{
		load(offset),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: p.Addr().AsSlice()},
	}
}

func isIn(offset uint32, s *nftables.Set) part {
	return part{load(offset), &expr.Lookup{SourceRegister: 1, SetName: s.Name, SetID: s.ID}}
}

func fromOneOf(s *nftables.Set) part {
	return part{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: s.Name, SetID: s.ID}}
}

func toPort(p uint16) part {
	return part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, p)},
	}
}

func echo() part {
	return slices.Concat(protocol(unix.IPPROTO_ICMP), part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{8}}, // ICMP: echo request
	})
}

func fragment() part {
	return part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 6, Len: 2},
		// more fragments, or an offset
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0x3f, 0xff}, Xor: make([]byte, 2)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 2)},
	}
}

// fromElsewhere matches if the route to the packet's source does not lead through the
// device at which the packet arrived, or if there is no route.
func fromElsewhere() part {
	return part{
		&expr.Fib{Register: 1, ResultOIF: true, FlagSADDR: true, FlagIIF: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

func state(bits uint32) part {
	return part{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// known are the states of packets that belong to an existing connection.
const known = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED

// faster matches if more than rate packets per second from one source address reach this
// part. s holds the present rate of each address.
func faster(s *nftables.Set, rate uint64) part {
	return each(s, above(rate), unix.NFT_DYNSET_OP_UPDATE)
}

// more matches if a source address has more than count connections. s holds the present
// number for each address.
func more(s *nftables.Set, count uint32) part {
	return each(s, &expr.Connlimit{Count: count, Flags: expr.NFT_CONNLIMIT_F_INV}, unix.NFT_DYNSET_OP_ADD)
}

// fasterDevice matches if more than rate packets from a device reach this part per second.
func fasterDevice(s *nftables.Set, rate uint64) part {
	return part{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Dynset{
		SrcRegKey: 1, SetName: s.Name, SetID: s.ID, Operation: unix.NFT_DYNSET_OP_UPDATE, Exprs: part{above(rate)},
	}}
}

// above returns a limit that matches the packets in excess of rate packets per second. It
// allows bursts of twice as many packets.
func above(rate uint64) *expr.Limit {
	return &expr.Limit{Type: expr.LimitTypePkts, Rate: rate, Over: true, Unit: expr.LimitTimeSecond, Burst: uint32(2 * rate)}
}

// each applies e to each source address separately. s holds the state of e for each
// address.
func each(s *nftables.Set, e expr.Any, operation uint32) part {
	return part{load(source), &expr.Dynset{SrcRegKey: 1, SetName: s.Name, SetID: s.ID, Operation: operation, Exprs: part{e}}}
}

// moreInAll counts the open connections whose packets have reached this part. It matches
// if there are more than count of them.
func moreInAll(count uint32) part {
	return part{&expr.Connlimit{Count: count, Flags: expr.NFT_CONNLIMIT_F_INV}}
}

func verdict(k expr.VerdictKind) part { return part{&expr.Verdict{Kind: k}} }

func accept() part { return verdict(expr.VerdictAccept) }
func drop() part   { return verdict(expr.VerdictDrop) }

// refuse rejects the packet with an ICMP error, so that the sender need not wait.
func refuse() part {
	const prohibited = 13 // ICMP: communication administratively prohibited
	return part{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: prohibited}}
}

// translate replaces the packet's source address by the address of the outgoing device.
func translate() part { return part{&expr.Masq{}} }

func untrack() part { return part{&expr.Notrack{}} }
