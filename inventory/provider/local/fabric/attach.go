package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// AttachEnd creates the interface of a link in a running node. It sets the interface's
// name, MAC address, MTU and addresses, and switches it on. AttachEnd does not change
// an interface that exists, even if root of the node has changed it. It removes any
// other device of the node with the same name.
func (h *Host) AttachEnd(ctx context.Context, slice, link, end string, node Namespace) error {
	s, unlock, err := h.lockSlice(ctx, slice)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := s.open(false)
	if err != nil {
		return err
	}
	m, i := s.links[link], -1
	if m != nil {
		i = m.end(end)
	}
	if !there || i < 0 {
		return fmt.Errorf("the link %s of slice %s has no end %q here; call SetLink first", link, slice, end)
	}
	if err := s.attachEnd(m, i, node); err != nil {
		return fmt.Errorf("cannot attach the end %s of link %s to its node: %w", end, link, err)
	}
	return nil
}

// attachEnd makes the interface of end i in the node, unless it exists, and connects its port to the link.
func (s *slice) attachEnd(m *made, i int, node Namespace) error {
	// The kernel's id of the node's namespace does not change while the namespace exists.
	// A port to a namespace that the kernel is removing has no such id, so a port with the
	// same id leads to this node.
	number, err := s.net.number(node)
	if err != nil {
		return err
	}
	e := &m.link.Ends[i]
	name := m.device(kindPort, e.ID)
	p, ok, err := s.net.device(name)
	switch {
	case err != nil:
		return err
	case ok && p.alias != "" && p.peerNS == number:
		return s.placePort(m, i, p) // the alias is set last, so the port is complete
	case ok:
		if err := s.net.remove([]device{p}); err != nil {
			return err
		}
	}
	delete(m.shaped, name)
	if p, err = s.net.port(name, e, node); err != nil {
		return err
	}
	// The node's side is switched on after the host's, so that it transmits at once.
	if err := s.net.switchOn(p.index); err != nil {
		return err
	}
	if err := configureInterface(node, p.peer, e); err != nil {
		return err
	}
	if err := s.net.awaitReady(name); err != nil {
		return err
	}
	if !m.shaper(i).shapes() {
		m.shaped[name] = m.shaper(i) // a new port has no shaping to remove
	}
	if err := s.placePort(m, i, p); err != nil {
		return err
	}
	return announce(node, p.peer, e)
}

// announce makes the kernel of the node send the addresses of a new interface to its
// link. Another node may have had them before: without this its neighbours would send to
// that node's MAC address for up to a minute. The kernel also announces changes of root.
func announce(node Namespace, index int, e *End) error {
	return netspace.Inside(node, func() error {
		for _, path := range []string{"ipv4/conf/" + e.IfName + "/arp_notify", "ipv6/conf/" + e.IfName + "/ndisc_notify"} {
			if err := os.WriteFile("/proc/sys/net/"+path, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("cannot announce the addresses of %s: %w", e.IfName, err)
			}
		}
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("cannot open netlink in the node's network: %w", err)
		}
		defer h.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Index = index
		if err := h.LinkSetHardwareAddr(&netlink.Device{LinkAttrs: attrs}, e.MAC); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("cannot announce the addresses of %s: %w", e.IfName, err)
		}
		return nil
	})
}

// number returns the id that the kernel uses for another namespace in this one. If there
// is none, the kernel assigns one.
func (n *network) number(other Namespace) (int, error) {
	fd := int(other.Fd())
	number, err := n.nl.GetNetNsIdByFd(fd)
	if err == nil && number < 0 {
		if err = n.nl.SetNetNsIdByFd(fd, -1); err == nil || errors.Is(err, unix.EEXIST) {
			number, err = n.nl.GetNetNsIdByFd(fd)
		}
	}
	if err == nil && number < 0 {
		err = errors.New("the kernel assigned no id")
	}
	if err != nil {
		return 0, fmt.Errorf("cannot identify the node's network namespace: %w", err)
	}
	return number, nil
}

// port creates a veth pair to a node, and returns the fabric's side. Both sides are
// switched off. port removes another device of the node that has the interface's name.
func (n *network) port(name string, e *End, node Namespace) (device, error) {
	v := veth(name, e.IfName, e.MAC, e.hostMTU())
	v.PeerMTU = uint32(e.nodeMTU())
	v.PeerNamespace = netlink.NsFd(node.Fd())
	err := n.nl.LinkAdd(v)
	if errors.Is(err, unix.EEXIST) {
		if err = deleteInterface(node, e.IfName); err == nil {
			err = n.nl.LinkAdd(v)
		}
	}
	if err != nil {
		return device{}, fmt.Errorf("cannot make the interface %s: %w", e.IfName, err)
	}
	return n.mustDevice(name)
}

func deleteInterface(node Namespace, name string) error {
	socket, err := nl.GetNetlinkSocketAt(netns.NsHandle(node.Fd()), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer socket.Close()
	n := network{sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}}
	if err := n.request(unix.RTM_DELLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))); err != nil {
		return fmt.Errorf("cannot remove the node's other device of that name: %w", err)
	}
	return nil
}

// configureInterface gives the node's side of a veth pair its addresses, and switches it on. The parameter
// index is its interface index. configureInterface reads nothing in the node.
func configureInterface(node Namespace, index int, e *End) error {
	h, err := netlink.NewHandleAt(netns.NsHandle(node.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("cannot open netlink in the node's network: %w", err)
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Index = index
	l := &netlink.Device{LinkAttrs: attrs}
	for _, a := range e.Addresses {
		err := h.AddrAdd(l, &netlink.Addr{IPNet: netspace.IPNet(a), Flags: unix.IFA_F_NODAD})
		switch {
		case err == nil || errors.Is(err, unix.EEXIST):
		case a.Addr().Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)):
			// IPv6 was switched off by root of the node, or on the host.
		default:
			return fmt.Errorf("cannot give %s the address %v: %w", e.IfName, a, err)
		}
	}
	if err := h.LinkSetUp(l); err != nil {
		return fmt.Errorf("cannot switch %s on: %w", e.IfName, err)
	}
	return nil
}
