package fabric

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A bridge that learns from a node which sends from ever new addresses fills the
// memory of the host. Kernels since 6.8 bound what it learns. With older ones no
// port learns: a bridge is told the address of each end, and what goes to another
// address goes to all ports, as with a hub. Bridges of two ports never need to
// know.

// joining is how a device becomes a port of a bridge.
type joining struct {
	index  int
	master int // 0: none, for a bridge itself
	alias  string
	dumb   bool             // it does not learn
	mac    net.HardwareAddr // what is behind it, if it does not learn and the others are to know
}

// join makes a device a port, switches it on and says what it is for, which is
// the last step in the making of any device.
func (n *network) join(j joining) error {
	message := up(j.index)
	parts := []nl.NetlinkRequestData{message}
	if j.master != 0 {
		parts = append(parts, nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(j.master))))
	}
	alias := nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(j.alias))
	if !j.dumb {
		parts = append(parts, alias)
	}
	if err := n.request(unix.RTM_NEWLINK, 0, parts...); err != nil {
		return fmt.Errorf("cannot join a device to its bridge: %w", err)
	}
	if !j.dumb {
		return nil
	}
	const learning = 8 // IFLA_BRPORT_LEARNING
	slave := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	slave.AddRtAttr(nl.IFLA_INFO_SLAVE_KIND, nl.NonZeroTerminated("bridge"))
	slave.AddRtAttr(nl.IFLA_INFO_SLAVE_DATA, nil).AddRtAttr(learning, []byte{0})
	if err := n.request(unix.RTM_NEWLINK, 0, message, slave); err != nil {
		return fmt.Errorf("cannot keep a port from learning: %w", err)
	}
	if j.mac != nil {
		err := n.nl.NeighSet(&netlink.Neigh{
			Family: unix.AF_BRIDGE, LinkIndex: j.index, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER, HardwareAddr: j.mac,
		})
		if err != nil {
			return fmt.Errorf("cannot tell a bridge where %v is: %w", j.mac, err)
		}
	}
	if err := n.request(unix.RTM_NEWLINK, 0, message, alias); err != nil {
		return fmt.Errorf("cannot name a device: %w", err)
	}
	return nil
}
