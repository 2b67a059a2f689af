package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

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
	return d.index, n.join(joining{index: d.index, alias: alias})
}

// maxLearned is how many addresses a bridge learns.
const maxLearned = 16384

const fdbMaxLearned = 49 // IFLA_BR_FDB_MAX_LEARNED

// boundLearning bounds what a bridge learns. Kernels before 6.8 take no notice.
func (n *network) boundLearning(index int) error {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(fdbMaxLearned, nl.Uint32Attr(maxLearned))
	err := n.request(unix.RTM_NEWLINK, 0, about(index), info)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot bound what a bridge learns: %w", err)
	}
	return nil
}

// bounds tells whether the kernel bounds what the bridge learns.
func (n *network) bounds(name string) (bool, error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	r.Sockets = n.sockets
	r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	r.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	list, err := r.Execute(unix.NETLINK_ROUTE, 0)
	if err == nil && len(list) == 0 {
		err = errors.New("the kernel says nothing of it")
	}
	if err != nil {
		return false, fmt.Errorf("cannot look at the bridge %s: %w", name, err)
	}
	body := list[0][unix.SizeofIfInfomsg:]
	for _, kind := range []uint16{unix.IFLA_LINKINFO, nl.IFLA_INFO_DATA, fdbMaxLearned} {
		attrs, err := nl.ParseRouteAttr(body)
		if err != nil {
			return false, fmt.Errorf("cannot read what the kernel says of the bridge %s: %w", name, err)
		}
		i := slices.IndexFunc(attrs, func(a syscall.NetlinkRouteAttr) bool { return a.Attr.Type&^unix.NLA_F_NESTED == kind })
		if i < 0 {
			return false, nil
		}
		body = attrs[i].Value
	}
	return len(body) >= 4 && binary.NativeEndian.Uint32(body) == maxLearned, nil
}

// cut makes a pair of devices between two bridges, after which all that goes from
// the first to the second are single packets.
func (n *network) cut(a, b string, mtu int, first, second joining) error {
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
	first.index, second.index = near.index, far.index
	if err := n.join(second); err != nil {
		return err
	}
	return n.join(first)
}

// smallPiece is the size in bytes from which on a piece of several packets is cut,
// whatever its sender says of how many they are. Kernels take no less than the room
// of all headers, which is below 400.
const smallPiece = 512

// pair makes two devices that are the ends of a wire. What a sends towards b is
// cut into single packets, whatever a node's root lets its cards be said to do.
func (n *network) pair(a, b string, mtu int) error {
	v := veth(a, b, localMAC(b), mtu)
	v.GSOMaxSegs, v.GSOMaxSize = 1, smallPiece
	if err := n.nl.LinkAdd(v); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("cannot make the pair of devices %s and %s: %w", a, b, err)
	}
	return nil
}

// veth is a pair of devices as it is to be made; the second may have an address
// that is not the fabric's.
func veth(name, peer string, mac net.HardwareAddr, mtu int) *netlink.Veth {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, localMAC(name)
	v := netlink.NewVeth(attrs)
	v.PeerName, v.PeerMTU, v.PeerHardwareAddr = peer, uint32(mtu), mac
	return v
}
