package fabric

import (
	"errors"
	"fmt"
	"math"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// dropRule loses a share of what leaves at a port.
type dropRule struct {
	port string
	loss float64
}

const tableName = "patchbay"

// dice is what the random number is drawn from.
const dice = 1 << 30

// nftables is to be closed. The library's own way into a namespace panics where
// there is no such socket.
func (n *network) nftables() (c *nftables.Conn, err error) {
	err = inside(n.file, func() error {
		c, err = nftables.New(nftables.AsLasting())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot speak with nftables: %w", err)
	}
	return c, nil
}

// drops makes these rules the only ones, in one step.
func (n *network) drops(rules []dropRule) error {
	c, err := n.nftables()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyBridge, Name: tableName})
	c.DelTable(table)
	if len(rules) > 0 {
		table = c.AddTable(table)
		accept := nftables.ChainPolicyAccept
		chain := c.AddChain(&nftables.Chain{
			Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityRef(-200), Policy: &accept,
		})
		for _, r := range rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, UserData: []byte(r.port), Exprs: r.expressions()})
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("cannot set the rules of nftables: %w", err)
	}
	return nil
}

func (r dropRule) expressions() []expr.Any {
	name := make([]byte, 16)
	copy(name, r.port)
	below := uint32(math.Round(r.loss * dice))
	list := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name},
	}
	if below < dice {
		list = append(list,
			&expr.Numgen{Register: 1, Modulus: dice, Type: unix.NFT_NG_RANDOM},
			// Numbers are compared byte by byte, so the highest must be the first.
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(below)})
	}
	return append(list, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})
}

// dropped are the packets that the rules took, by port.
func (n *network) dropped() (map[string]uint64, error) {
	c, err := n.nftables()
	if err != nil {
		return nil, err
	}
	defer c.CloseLasting()
	list, err := c.GetRules(&nftables.Table{Family: nftables.TableFamilyBridge, Name: tableName}, &nftables.Chain{Name: "forward"})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the rules of nftables: %w", err)
	}
	m := make(map[string]uint64, len(list))
	for _, r := range list {
		for _, e := range r.Exprs {
			if count, ok := e.(*expr.Counter); ok {
				m[string(r.UserData)] += count.Packets
			}
		}
	}
	return m, nil
}
