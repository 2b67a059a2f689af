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

// Parts of rules. Each loads what it looks at into register 1, and lets the
// packet go on to the next part if it matches.

type part = []expr.Any

func meta(key expr.MetaKey, op expr.CmpOp, value []byte) part {
	return part{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: value}}
}

// name is a device's as the kernel compares it: whole.
func name(device string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, device)
	return b
}

func from(device string) part    { return meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, name(device)) }
func notFrom(device string) part { return meta(expr.MetaKeyIIFNAME, expr.CmpOpNeq, name(device)) }
func to(device string) part      { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, name(device)) }
func notTo(device string) part   { return meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, name(device)) }

// toAny and notToAny compare the beginning of the name.
func toAny(prefix string) part    { return meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, []byte(prefix)) }
func notToAny(prefix string) part { return meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, []byte(prefix)) }

func protocol(p byte) part { return meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{p}) }

// Where the addresses are in an IPv4 header.
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

// echo is a ping's question.
func echo() part {
	return slices.Concat(protocol(unix.IPPROTO_ICMP), part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{8}},
	})
}

// fragment is a part of a packet.
func fragment() part {
	return part{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 6, Len: 2},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0x3f, 0xff}, Xor: make([]byte, 2)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 2)},
	}
}

// fromElsewhere matches when the way to the source is by another device, or there
// is none.
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

// faster matches when a source sends more such packets a second than it may.
func faster(s *nftables.Set, rate uint64) part {
	return each(s, above(rate), unix.NFT_DYNSET_OP_UPDATE)
}

// more matches when a source has more connections than it may.
func more(s *nftables.Set, count uint32) part {
	return each(s, &expr.Connlimit{Count: count, Flags: expr.NFT_CONNLIMIT_F_INV}, unix.NFT_DYNSET_OP_ADD)
}

// fasterDevice matches when more such packets a second come from a device.
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

// moreInAll matches when the rule has seen more connections that are still open.
func moreInAll(count uint32) part {
	return part{&expr.Connlimit{Count: count, Flags: expr.NFT_CONNLIMIT_F_INV}}
}

func verdict(k expr.VerdictKind) part { return part{&expr.Verdict{Kind: k}} }

func accept() part { return verdict(expr.VerdictAccept) }
func drop() part   { return verdict(expr.VerdictDrop) }

// refuse tells the sender that it is not allowed, which ends its waiting.
func refuse() part {
	const prohibited = 13 // ICMP: communication administratively prohibited
	return part{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: prohibited}}
}

func translate() part { return part{&expr.Masq{}} }
func untrack() part   { return part{&expr.Notrack{}} }
