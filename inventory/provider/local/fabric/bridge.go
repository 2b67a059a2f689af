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

// bridge creates a bridge, and returns its interface index. An existing bridge is no error.
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
	if err := n.limitLearning(d.index); err != nil {
		return 0, err
	}
	return d.index, n.join(joining{index: d.index, alias: alias})
}

const maxLearned = 16384

const fdbMaxLearned = 49 // IFLA_BR_FDB_MAX_LEARNED

// limitLearning has no effect on kernels before 6.8.
func (n *network) limitLearning(index int) error {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(fdbMaxLearned, nl.Uint32Attr(maxLearned))
	err := n.request(unix.RTM_NEWLINK, 0, about(index), info)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot limit the addresses that a bridge learns: %w", err)
	}
	return nil
}

// limitsLearning reports whether the kernel has stored the limit of limitLearning.
func (n *network) limitsLearning(name string) (bool, error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	r.Sockets = n.sockets
	r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	r.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	list, err := r.Execute(unix.NETLINK_ROUTE, 0)
	if err == nil && len(list) == 0 {
		err = errors.New("the kernel returned nothing")
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the bridge %s: %w", name, err)
	}
	body := list[0][unix.SizeofIfInfomsg:]
	// Each of these attributes is nested in the one before.
	for _, kind := range []uint16{unix.IFLA_LINKINFO, nl.IFLA_INFO_DATA, fdbMaxLearned} {
		attrs, err := nl.ParseRouteAttr(body)
		if err != nil {
			return false, fmt.Errorf("cannot parse the attributes of the bridge %s: %w", name, err)
		}
		i := slices.IndexFunc(attrs, func(a syscall.NetlinkRouteAttr) bool { return a.Attr.Type&^unix.NLA_F_NESTED == kind })
		if i < 0 {
			return false, nil
		}
		body = attrs[i].Value
	}
	return len(body) >= 4 && binary.NativeEndian.Uint32(body) == maxLearned, nil
}

// segmentBetween connects two bridges by a veth pair of the devices a and b. The pair
// splits large segments from a to b into single packets.
func (n *network) segmentBetween(a, b string, mtu int, joinA, joinB joining) error {
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
	joinA.index, joinB.index = near.index, far.index
	if err := n.join(joinB); err != nil {
		return err
	}
	return n.join(joinA)
}

// smallPiece is the size in bytes above which a segment is split, regardless of the
// number of packets that its sender declares. The kernel accepts no value below the size
// of all headers, which is less than 400.
const smallPiece = 512

// pair splits data from a to b into single packets, even if the root of a node enables
// offloads.
func (n *network) pair(a, b string, mtu int) error {
	v := veth(a, b, localMAC(b), mtu)
	v.GSOMaxSegs, v.GSOMaxSize = 1, smallPiece
	if err := n.nl.LinkAdd(v); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("cannot make the pair of devices %s and %s: %w", a, b, err)
	}
	return nil
}

// veth returns the parameters of a veth pair. mac is the address of the second device; nil
// lets the kernel choose one.
func veth(name, peer string, mac net.HardwareAddr, mtu int) *netlink.Veth {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, localMAC(name)
	v := netlink.NewVeth(attrs)
	v.PeerName, v.PeerMTU, v.PeerHardwareAddr = peer, uint32(mtu), mac
	return v
}
