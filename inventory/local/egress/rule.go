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

// Parts of rules. Each part loads a field into register 1, and continues with the next
// part if the field matches.

type part = []expr.Any

func meta(key expr.MetaKey, op expr.CmpOp, value []byte) part {
	return part{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: value}}
}

// name returns the name of a device as the kernel compares it, with its padding.
func name(device string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, device)
	return b
}

func from(device string) part    { return meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, name(device)) }
func notFrom(device string) part { return meta(expr.MetaKeyIIFNAME, expr.CmpOpNeq, name(device)) }
func to(device string) part      { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, name(device)) }
func notTo(device string) part   { return meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, name(device)) }

// toAny and notToAny compare a prefix of the name.
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

// echo matches a ping request.
func echo() part {
	return slices.Concat(protocol(unix.IPPROTO_ICMP), part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{8}},
	})
}

// fragment matches an IP fragment.
func fragment() part {
	return part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 6, Len: 2},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0x3f, 0xff}, Xor: make([]byte, 2)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 2)},
	}
}

// fromElsewhere matches if the route to the source is through another device, or missing.
func fromElsewhere() part {
	return part{
		&expr.Fib{Register: 1, ResultOIF: true, FlagSADDR: true, FlagIIF: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

// state matches packets of connections in one of the states.
func state(bits uint32) part {
	return part{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

const known = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED

// faster matches if a source sends more of these packets per second than rate.
func faster(s *nftables.Set, rate uint64) part {
	return each(s, above(rate), unix.NFT_DYNSET_OP_UPDATE)
}

// more matches if a source has more connections than count.
func more(s *nftables.Set, count uint32) part {
	return each(s, &expr.Connlimit{Count: count, Flags: expr.NFT_CONNLIMIT_F_INV}, unix.NFT_DYNSET_OP_ADD)
}

// fasterDevice matches if more of these packets per second come from a device than rate.
func fasterDevice(s *nftables.Set, rate uint64) part {
	return part{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Dynset{
		SrcRegKey: 1, SetName: s.Name, SetID: s.ID, Operation: unix.NFT_DYNSET_OP_UPDATE, Exprs: part{above(rate)},
	}}
}

func above(rate uint64) *expr.Limit {
	return &expr.Limit{Type: expr.LimitTypePkts, Rate: rate, Over: true, Unit: expr.LimitTimeSecond, Burst: uint32(2 * rate)}
}

func each(s *nftables.Set, e expr.Any, operation uint32) part {
	return part{load(source), &expr.Dynset{SrcRegKey: 1, SetName: s.Name, SetID: s.ID, Operation: operation, Exprs: part{e}}}
}

// moreInAll matches if more than count connections that passed the rule are open.
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

func translate() part { return part{&expr.Masq{}} }
func untrack() part   { return part{&expr.Notrack{}} }
