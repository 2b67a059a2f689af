package fabric

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A bridge learns the source addresses of frames. So a node that changes its source
// address with each frame could fill the host's memory. Kernels since 6.8 limit the
// number of learned addresses. On older kernels learning is off: the fabric gives the
// bridge the address of each end, and frames to other addresses go to all ports, as
// with a hub. Bridges with two ports never need to learn.

// joining describes how a device becomes a port of a bridge.
type joining struct {
	index      int
	master     int // interface index of the bridge; 0 if the device is a bridge itself
	alias      string
	noLearning bool             // learning is off
	mac        net.HardwareAddr // the only address behind the port; nil if the bridge learns or none is known
}

// join switches a device on, and makes it a port of its bridge. It sets the alias last, so the alias marks a
// complete device.
func (n *network) join(j joining) error {
	message := up(j.index)
	parts := []nl.NetlinkRequestData{message}
	if j.master != 0 {
		parts = append(parts, nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(j.master))))
	}
	alias := nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(j.alias))
	if !j.noLearning {
		parts = append(parts, alias)
	}
	if err := n.request(unix.RTM_NEWLINK, 0, parts...); err != nil {
		return fmt.Errorf("cannot join a device to its bridge: %w", err)
	}
	if !j.noLearning {
		return nil
	}
	const learning = 8 // IFLA_BRPORT_LEARNING
	slave := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	slave.AddRtAttr(nl.IFLA_INFO_SLAVE_KIND, nl.NonZeroTerminated("bridge"))
	slave.AddRtAttr(nl.IFLA_INFO_SLAVE_DATA, nil).AddRtAttr(learning, []byte{0})
	if err := n.request(unix.RTM_NEWLINK, 0, message, slave); err != nil {
		return fmt.Errorf("cannot switch off learning on a port: %w", err)
	}
	if j.mac != nil {
		err := n.nl.NeighSet(&netlink.Neigh{
			Family: unix.AF_BRIDGE, LinkIndex: j.index, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER, HardwareAddr: j.mac,
		})
		if err != nil {
			return fmt.Errorf("cannot add %v to a bridge: %w", j.mac, err)
		}
	}
	if err := n.request(unix.RTM_NEWLINK, 0, message, alias); err != nil {
		return fmt.Errorf("cannot name a device: %w", err)
	}
	return nil
}
