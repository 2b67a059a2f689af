package fabric

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bridge makes a bridge that is up, and tells its number.
func (n *network) bridge(name, alias string) (int, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, localMAC(name)
	no := false
	err := n.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &no})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, fmt.Errorf("cannot make the bridge %s: %w", name, err)
	}
	d, err := n.mustDevice(name)
	if err != nil {
		return 0, err
	}
	if err := n.boundLearning(d.index); err != nil {
		return 0, err
	}
	return d.index, n.join(d.index, 0, alias)
}

// maxLearned is how many addresses a bridge learns.
const maxLearned = 16384

// boundLearning keeps a node that sends from ever new addresses from filling the
// memory of the host. Kernels before 6.8 have no such limit.
func (n *network) boundLearning(index int) error {
	const fdbMaxLearned = 49 // IFLA_BR_FDB_MAX_LEARNED
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(fdbMaxLearned, nl.Uint32Attr(maxLearned))
	err := n.request(unix.RTM_NEWLINK, 0, message, info)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot bound what a bridge learns: %w", err)
	}
	return nil
}

// cut makes a pair of devices between two bridges, after which all that goes from
// the first to the second are single packets.
func (n *network) cut(a, b, alias string, mtu, first, second int) error {
	if err := n.pair(a, b, mtu); err != nil {
		return err
	}
	near, err := n.mustDevice(a)
	if err != nil {
		return err
	}
	far, err := n.mustDevice(b)
	if err != nil {
		return err
	}
	for _, index := range []int{far.index, near.index} {
		if err := n.switchOn(index); err != nil {
			return err
		}
	}
	if err := n.awaitReady(b); err != nil {
		return err
	}
	if err := n.join(far.index, second, alias); err != nil {
		return err
	}
	return n.join(near.index, first, alias)
}

// pair makes two devices that are the ends of a wire. What a sends towards b is
// cut into single packets, whatever a node's root lets its cards be said to do.
func (n *network) pair(a, b string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a, mtu
	attrs.HardwareAddr = localMAC(a)
	attrs.GSOMaxSegs = 1
	v := netlink.NewVeth(attrs)
	v.PeerName, v.PeerMTU, v.PeerHardwareAddr = b, uint32(mtu), localMAC(b)
	if err := n.nl.LinkAdd(v); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("cannot make the pair of devices %s and %s: %w", a, b, err)
	}
	return nil
}
