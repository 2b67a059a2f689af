package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// The kernel forwards frames for nodes without charging the nodes for the work. So no
// limit of a node stops frames that circle in a ring of links. Frames that can circle
// are therefore limited at the port where they arrive. There are two kinds: frames to a
// group (broadcast, multicast), and frames from an address other than that of the
// node's interface, which a node sends if it acts as a bridge.

const (
	// inflowRate is the limit of a port in frames per second. A large segment counts as
	// one frame, so a node that acts as a bridge can forward gigabits of TCP.
	inflowRate  = 20_000
	inflowBurst = 4_000
)

// sshPort is the port of the logins between nodes of a slice.
const sshPort = 22

const (
	inflowTable = "inflow"
	ownSet      = "own"  // each port with the MAC address of its node's interface
	rateSet     = "pace" // the present rate of each port
	cutSet      = "cut"  // the number of frames over the limit, for each port
	mostPorts   = 1 << 16
	// rateTime is how long the kernel remembers the rate of a port.
	rateTime = time.Minute
)

// inflow holds the nftables sets of the inflow limit. newInflow sets their ids, because
// the ids that the library assigns are unsafe with several connections.
type inflow struct {
	table          *nftables.Table
	own, rate, cut *nftables.Set
}

func newInflow() inflow {
	t := &nftables.Table{Family: nftables.TableFamilyBridge, Name: inflowTable}
	return inflow{
		table: t,
		own:   &nftables.Set{Table: t, ID: 1, Name: ownSet, KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeEtherAddr), Concatenation: true},
		rate:  &nftables.Set{Table: t, ID: 2, Name: rateSet, KeyType: nftables.TypeIFName, Dynamic: true, Size: mostPorts, HasTimeout: true, Timeout: rateTime},
		cut:   &nftables.Set{Table: t, ID: 3, Name: cutSet, KeyType: nftables.TypeIFName, Dynamic: true, Size: mostPorts},
	}
}

// apply adds the sets and rules to the requests of c. It replaces the rules of an earlier version, and keeps
// the elements of existing sets.
func (f inflow) apply(c *nftables.Conn) error {
	c.AddTable(f.table)
	for _, s := range []*nftables.Set{f.own, f.rate, f.cut} {
		if err := c.AddSet(s, nil); err != nil {
			return err
		}
	}
	accept := nftables.ChainPolicyAccept
	chain := c.AddChain(&nftables.Chain{
		Name: "prerouting", Table: f.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRef(-300), Policy: &accept,
	})
	bounded := c.AddChain(&nftables.Chain{Name: "bounded", Table: f.table})
	c.FlushChain(chain)
	c.FlushChain(bounded)
	port := &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}
	toBounded := &expr.Verdict{Kind: expr.VerdictGoto, Chain: bounded.Name}
	const target, source, octets = 0, 6, 6 // offset of addresses in a frame, and their length
	fromSharedVLAN := &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte(kindUplink)}
	// A node discards any number of tags without a VLAN, and takes what follows. The rule for SSH sees behind only one.
	for _, tag := range []uint16{unix.ETH_P_8021Q, unix.ETH_P_8021AD} {
		c.AddRule(&nftables.Rule{Table: f.table, Chain: chain, Exprs: []expr.Any{
			port, fromSharedVLAN,
			&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, tag)},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
	}
	for _, list := range [][]expr.Any{
		{ // from a shared VLAN to SSH: only nodes of the slice may log in to each other
			port, fromSharedVLAN,
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, // the destination port
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, sshPort)},
			&expr.Verdict{Kind: expr.VerdictDrop},
		},
		{
			port, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte(kindPort)},
			&expr.Verdict{Kind: expr.VerdictAccept},
		},
		{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: target, Len: 1},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{1}, Xor: []byte{0}},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0}},
			toBounded,
		},
		{
			port, &expr.Payload{DestRegister: 2, Base: expr.PayloadBaseLLHeader, Offset: source, Len: octets},
			&expr.Lookup{SourceRegister: 1, SetName: f.own.Name, SetID: f.own.ID, Invert: true},
			toBounded,
		},
	} {
		c.AddRule(&nftables.Rule{Table: f.table, Chain: chain, Exprs: list})
	}
	limit := &expr.Limit{Type: expr.LimitTypePkts, Rate: inflowRate, Over: true, Unit: expr.LimitTimeSecond, Burst: inflowBurst}
	c.AddRule(&nftables.Rule{Table: f.table, Chain: bounded, Exprs: []expr.Any{
		port,
		&expr.Dynset{SrcRegKey: 1, SetName: f.rate.Name, SetID: f.rate.ID, Operation: unix.NFT_DYNSET_OP_UPDATE, Exprs: []expr.Any{limit}},
		&expr.Dynset{SrcRegKey: 1, SetName: f.cut.Name, SetID: f.cut.ID, Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{&expr.Counter{}}},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	return nil
}

// nftables opens a connection in the network's namespace, which the caller must close.
// The library's option for namespaces is not used, since it panics if the kernel has no
// nftables.
func (n *network) nftables() (c *nftables.Conn, err error) {
	err = netspace.Inside(n.file, func() error {
		c, err = nftables.New(nftables.AsLasting())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open nftables: %w", err)
	}
	return c, nil
}

func portKey(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func ownKey(name, mac string) []byte { return append(append(portKey(name), mac...), 0, 0) }

// readOwn creates the rules of the inflow limit, and returns the MAC addresses in the set own, by port.
func (n *network) readOwn() (map[string]string, error) {
	c, err := n.nftables()
	if err != nil {
		return nil, err
	}
	defer c.CloseLasting()
	f := newInflow()
	if err := f.apply(c); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, fmt.Errorf("cannot limit traffic from nodes by nftables: %w", err)
	}
	list, err := c.GetSetElements(f.own)
	if err != nil {
		return nil, fmt.Errorf("cannot read the rules of nftables: %w", err)
	}
	m := make(map[string]string, len(list))
	for _, e := range list {
		if len(e.Key) == unix.IFNAMSIZ+8 {
			m[portName(e.Key)] = string(e.Key[unix.IFNAMSIZ : unix.IFNAMSIZ+6])
		}
	}
	return m, nil
}

func portName(key []byte) string { return strings.TrimRight(string(key[:unix.IFNAMSIZ]), "\x00") }

// updateOwn changes the set own in one transaction. additions and removals contain MAC
// addresses by port. updateOwn also removes the counters of removedPorts.
func (n *network) updateOwn(additions, removals map[string]string, removedPorts []string) error {
	c, err := n.nftables()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	f := newInflow()
	if len(removedPorts) > 0 {
		list, err := c.GetSetElements(f.cut)
		if err != nil {
			return fmt.Errorf("cannot read the rules of nftables: %w", err)
		}
		list = slices.DeleteFunc(list, func(e nftables.SetElement) bool {
			return len(e.Key) != unix.IFNAMSIZ || !slices.Contains(removedPorts, portName(e.Key))
		})
		for i := range list {
			list[i] = nftables.SetElement{Key: list[i].Key}
		}
		if err := inParts(list, func(l []nftables.SetElement) error { return c.SetDeleteElements(f.cut, l) }); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		ports map[string]string
		do    func(*nftables.Set, []nftables.SetElement) error
	}{{removals, c.SetDeleteElements}, {additions, c.SetAddElements}} {
		var list []nftables.SetElement
		for name, mac := range step.ports {
			list = append(list, nftables.SetElement{Key: ownKey(name, mac)})
		}
		if err := inParts(list, func(l []nftables.SetElement) error { return step.do(f.own, l) }); err != nil {
			return err
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("cannot send the addresses of ports to nftables: %w", err)
	}
	return nil
}

// inParts calls f with parts of the list that fit into one message.
func inParts(list []nftables.SetElement, f func([]nftables.SetElement) error) error {
	for part := range slices.Chunk(list, 500) {
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// cutFrames returns how many frames were over the limit, by port.
func (n *network) cutFrames() (map[string]uint64, error) {
	c, err := n.nftables()
	if err != nil {
		return nil, err
	}
	defer c.CloseLasting()
	list, err := c.GetSetElements(newInflow().cut)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the rules of nftables: %w", err)
	}
	m := make(map[string]uint64, len(list))
	for _, e := range list {
		if e.Counter != nil && len(e.Key) == unix.IFNAMSIZ {
			m[portName(e.Key)] = e.Counter.Packets
		}
	}
	return m, nil
}

// limitInflow sets the addresses of the ports of m, which may be nil, and removes
// removedPorts. It does not change other ports, including those from before a restart.
func (s *slice) limitInflow(m *made, removedPorts []string) error {
	if !s.hasInflow {
		return nil
	}
	if s.own == nil {
		own, err := s.net.readOwn()
		if err != nil {
			return err
		}
		s.own = own
	}
	add, remove := make(map[string]string), make(map[string]string)
	for _, name := range removedPorts {
		if mac, ok := s.own[name]; ok {
			remove[name] = mac
		}
	}
	if m != nil {
		for _, e := range m.link.Ends {
			name, mac := m.device(kindPort, e.ID), string(e.MAC)
			old, ok := s.own[name]
			if ok && old == mac {
				continue
			}
			if ok {
				remove[name] = old
			}
			add[name] = mac
		}
	}
	if len(add)+len(remove) == 0 {
		return nil
	}
	own := s.own
	s.own = nil // after an error the next call reads it again
	if err := s.net.updateOwn(add, remove, removedPorts); err != nil {
		return err
	}
	for name := range remove {
		delete(own, name)
	}
	for name, mac := range add {
		own[name] = mac
	}
	s.own = own
	return nil
}

// portsWithout returns the device names of the ports that m has and newer does not have.
// Both may be nil, which means a link without ports.
func (m *made) portsWithout(newer *made) (names []string) {
	if m == nil {
		return nil
	}
	for _, e := range m.link.Ends {
		if newer == nil || newer.end(e.ID) < 0 {
			names = append(names, m.device(kindPort, e.ID))
		}
	}
	return names
}
