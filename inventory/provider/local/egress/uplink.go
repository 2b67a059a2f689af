package egress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// devicePrefix begins the names of all uplinks on the host.
const devicePrefix = "pbo-"

func device(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	return devicePrefix + hex.EncodeToString(sum[:5])
}

// IsFree reports whether the addresses of uplink n are unused on this host. They are
// unused if no route leads to them, except the default route.
func IsFree(n uint32) bool {
	own, other := uplink(n)
	for _, a := range []netip.Addr{own.Masked().Addr(), own.Addr(), other.Addr()} {
		routes, err := netlink.RouteGetWithOptions(a.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		if err != nil {
			continue // no route
		}
		for _, r := range routes {
			if r.Dst == nil {
				continue
			}
			if bits, _ := r.Dst.Mask.Size(); bits > 0 {
				return false
			}
		}
	}
	return true
}

// link returns nil if there is no such device.
func link(h *netlink.Handle, name string) (netlink.Link, error) {
	l, err := h.LinkByName(name)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the device %s: %w", name, err)
	}
	return l, nil
}

// mustLink fails if the device does not exist.
func mustLink(h *netlink.Handle, name string) (netlink.Link, error) {
	l, err := link(h, name)
	if err == nil && l == nil {
		err = fmt.Errorf("the device %s was deleted; the repair is retried", name)
	}
	return l, err
}

func links(h *netlink.Handle) ([]netlink.Link, error) { return netspace.List("devices", h.LinkList) }

func switchOn(h *netlink.Handle, l netlink.Link) error {
	if err := h.LinkSetUp(l); err != nil {
		return fmt.Errorf("cannot switch on the device %s: %w", l.Attrs().Name, err)
	}
	return nil
}

func addRoute(h *netlink.Handle, l netlink.Link, r netlink.Route) error {
	r.LinkIndex = l.Attrs().Index
	if err := h.RouteReplace(&r); err != nil {
		return fmt.Errorf("cannot set the route through the device %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// openNetlink opens netlink in the namespace of the calling thread.
func openNetlink() (*netlink.Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("cannot open netlink: %w", err)
	}
	return h, nil
}

func netlinkIn(space *os.File, f func(*netlink.Handle) error) error {
	return netspace.Inside(space, func() error {
		h, err := openNetlink()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
}

// connect creates the uplink, which is the pair of devices between the host and the egress
// namespace, unless it exists and is complete.
func (e *Router) connect() error {
	h, err := openNetlink()
	if err != nil {
		return err
	}
	defer h.Close()
	ours, err := link(h, e.device)
	if err != nil {
		return err
	}
	if ours != nil {
		if e.isComplete(h, ours) {
			return nil
		}
		if err := h.LinkDel(ours); err != nil && !errors.Is(err, unix.ENODEV) { // its other end may have been deleted just now
			return fmt.Errorf("cannot remove the device %s: %w", e.device, err)
		}
	}
	own, other := uplink(e.options.Number)
	if err := netspace.Inside(e.space, func() error { return remove(outside) }); err != nil {
		return err
	}
	at := netlink.NewLinkAttrs()
	at.Name, at.HardwareAddr = e.device, hardware(1, 0)
	pair := netlink.NewVeth(at)
	pair.PeerName, pair.PeerHardwareAddr, pair.PeerNamespace = outside, hardware(2, 0), netlink.NsFd(int(e.space.Fd()))
	if err := h.LinkAdd(pair); err != nil {
		return fmt.Errorf("cannot make the device %s: %w", e.device, err)
	}
	_ = h.LinkSetAlias(pair, "patchbay-local "+e.options.Instance) // describes the device's purpose
	_ = setSysctls([2]string{"ipv6/conf/" + e.device + "/disable_ipv6", "1"})
	err = netlinkIn(e.space, func(h *netlink.Handle) error {
		if err := configure(h, outside, other, own.Addr(), hardware(1, 0)); err != nil {
			return err
		}
		l, err := mustLink(h, outside)
		if err != nil {
			return err
		}
		return addRoute(h, l, netlink.Route{Gw: own.Addr().AsSlice()})
	})
	if err == nil { // the host's end is switched on last, which marks a complete pair
		err = configure(h, e.device, own, other.Addr(), hardware(2, 0))
	}
	if err == nil {
		awaitCarrier(h, e.device)
	}
	if err != nil {
		return fmt.Errorf("cannot set up the device %s: %w", e.device, err)
	}
	return nil
}

// isComplete reports whether the uplink is complete: hostEnd, its device on the host, must be switched on and
// have the right address. The other end must be in the egress namespace.
func (e *Router) isComplete(h *netlink.Handle, hostEnd netlink.Link) bool {
	own, _ := uplink(e.options.Number)
	id, err := h.GetNetNsIdByFd(int(e.space.Fd()))
	if err != nil || hostEnd.Attrs().NetNsID != id || hostEnd.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	all, err := h.AddrList(hostEnd, netlink.FAMILY_V4)
	if err != nil || len(all) != 1 || !all[0].IPNet.IP.Equal(own.Addr().AsSlice()) {
		return false
	}
	there := false
	err = netlinkIn(e.space, func(h *netlink.Handle) error {
		l, err := link(h, outside)
		there = l != nil && l.Attrs().ParentIndex == hostEnd.Attrs().Index
		return err
	})
	return err == nil && there
}

// configure sets the address of a device, switches the device on, and adds a neighbour
// entry for the other end. The other end has the addresses peer and peerMAC.
func configure(h *netlink.Handle, name string, address netip.Prefix, peer netip.Addr, peerMAC net.HardwareAddr) error {
	l, err := mustLink(h, name)
	if err != nil {
		return err
	}
	if err := h.AddrReplace(l, &netlink.Addr{IPNet: netspace.IPNet(address)}); err != nil {
		return fmt.Errorf("cannot give the device %s the address %s: %w", name, address, err)
	}
	if err := switchOn(h, l); err != nil {
		return err
	}
	return neighbour(h, l, peer, peerMAC)
}

// neighbour adds a permanent entry. Permanent entries do not count towards the limit of
// neighbour entries, which all namespaces share.
func neighbour(h *netlink.Handle, l netlink.Link, a netip.Addr, mac net.HardwareAddr) error {
	err := h.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac})
	if err != nil {
		return fmt.Errorf("cannot add the neighbour entry of %s for %s: %w", l.Attrs().Name, a, err)
	}
	return nil
}

// awaitCarrier waits until a device transmits, for at most 1.5 s. The kernel drops packets
// for up to a second after a device was switched on.
func awaitCarrier(h *netlink.Handle, name string) {
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if l, err := h.LinkByName(name); err != nil || l.Attrs().OperState == netlink.OperUp {
			return
		}
	}
}

// remove removes a device in the network namespace of the calling thread. A missing device is no error.
func remove(name string) error {
	h, err := openNetlink()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := link(h, name)
	if err != nil || l == nil {
		return err
	}
	if err := h.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot remove the device %s: %w", name, err)
	}
	return nil
}

// hardware returns the MAC address for one end of a pair of devices. end is the kind of
// end: 1 and 2 for the uplink, 3 and 4 for a node, 5 and 6 for SelfTest.
func hardware(end byte, number int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 'p', 'b', end, byte(number >> 8), byte(number)}
}

// setSysctls sets values below /proc/sys/net in the namespace of the calling thread.
func setSysctls(values ...[2]string) error {
	for _, v := range values {
		if err := os.WriteFile("/proc/sys/net/"+v[0], []byte(v[1]), 0); err != nil {
			return fmt.Errorf("cannot set net/%s to %s: %w", v[0], v[1], err)
		}
	}
	return nil
}
