package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// network is an open namespace of the fabric. Its methods may be called concurrently.
type network struct {
	file *os.File
	nl   *netlink.Handle
	// sockets are for requests that the netlink library does not support.
	sockets map[int]*nl.SocketHandle
}

// openNetwork opens the namespace at path. A missing namespace is created if create is
// true. Otherwise openNetwork returns nil without an error.
func openNetwork(path string, create bool) (*network, error) {
	open := netspace.Open
	if create {
		open = netspace.Make
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Existing namespaces are configured again, because kernel modules that were loaded
	// later have set their own defaults.
	if err := netspace.Inside(f, configureNamespace); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	n, err := newNetwork(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// A process that was killed during a removal may have left devices in this group.
	if err := n.removeDoomed(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// newNetwork makes the network the owner of f, unless it fails.
func newNetwork(f *os.File) (*network, error) {
	h, err := netlink.NewHandleAt(netns.NsHandle(f.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("cannot open netlink in a network namespace: %w", err)
	}
	s, err := nl.GetNetlinkSocketAt(netns.NsHandle(f.Fd()), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("cannot open netlink in a network namespace: %w", err)
	}
	return &network{file: f, nl: h, sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}}, nil
}

func (n *network) close() {
	n.nl.Close()
	n.sockets[unix.NETLINK_ROUTE].Close()
	n.file.Close()
}

func (n *network) request(kind, flags int, parts ...nl.NetlinkRequestData) error {
	r := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	r.Sockets = n.sockets
	r.Data = parts
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

type device struct {
	name   string
	index  int
	master int
	alias  string
	up     bool
	ready  bool // it transmits
	peer   int  // interface index of the other side, if the device is one side of a pair
	peerNS int  // namespace id of the other side, -1 for none
}

func (d device) isBridge() bool {
	return strings.HasPrefix(d.name, kindBridge) || strings.HasPrefix(d.name, kindOwn)
}

func asDevice(l netlink.Link) device {
	a := l.Attrs()
	return device{
		name: a.Name, index: a.Index, master: a.MasterIndex, alias: a.Alias,
		up: a.RawFlags&unix.IFF_UP != 0, ready: a.OperState == netlink.OperUp, peer: a.ParentIndex, peerNS: a.NetNsID,
	}
}

func (n *network) device(name string) (device, bool, error) {
	l, err := n.nl.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return device{}, false, nil
	}
	if err != nil {
		return device{}, false, fmt.Errorf("cannot read the device %s: %w", name, err)
	}
	return asDevice(l), true, nil
}

func (n *network) mustDevice(name string) (device, error) {
	d, ok, err := n.device(name)
	if err == nil && !ok {
		err = fmt.Errorf("the device %s was deleted; try again", name)
	}
	return d, err
}

// devices returns the devices of the network, by name. It removes devices without an alias,
// which a crash left incomplete. It skips TAPs without an alias, which a switch process is
// creating.
func (n *network) devices() (map[string]device, error) {
	list, err := n.links()
	if err != nil {
		return nil, err
	}
	m := make(map[string]device, len(list))
	var half []device
	for _, l := range list {
		switch d := asDevice(l); {
		case d.name == "lo" || strings.HasPrefix(d.name, kindCutEnd):
		case d.alias == "" && strings.HasPrefix(d.name, kindTAP): // the vswitch is opening this TAP
		case d.alias == "":
			half = append(half, d)
		default:
			m[d.name] = d
		}
	}
	return m, n.remove(half)
}

func (n *network) links() ([]netlink.Link, error) {
	return netspace.List("devices", n.nl.LinkList)
}

func (n *network) queues() ([]netlink.Qdisc, error) {
	return netspace.List("queueing disciplines", func() ([]netlink.Qdisc, error) { return n.nl.QdiscList(nil) })
}

// Kinds of devices: the first letters of their names.
const (
	kindPort   = "p"
	kindBridge = "b"
	kindOwn    = "q" // the bridge of one end
	kindCut    = "s" // the side of a segmenting pair at the link's bridge
	kindCutEnd = "u" // the other side of kindCut, at the bridge of an end
	kindTAP    = "t"
	kindUplink = "x" // the port to a shared VLAN
	kindFar    = "y" // the other side of kindUplink, in the shared VLAN's namespace
)

func alias(link, end string) string { return link + " " + end }

func ofLink(alias, link string) bool {
	name, _, ok := strings.Cut(alias, " ")
	return ok && name == link
}

// awaitReady waits until a device transmits, for at most half a second. The kernel notices
// with a delay that the other side was switched on, and drops everything until then.
func (n *network) awaitReady(name string) error {
	const most = 500 * time.Millisecond
	pause := 50 * time.Microsecond
	for start := time.Now(); time.Since(start) < most; pause *= 2 {
		d, err := n.mustDevice(name)
		if err != nil || d.ready {
			return err
		}
		time.Sleep(pause)
	}
	return nil // no error: root of the node may have switched the other side off again
}

func about(index int) *nl.IfInfomsg {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	return message
}

func up(index int) *nl.IfInfomsg {
	message := about(index)
	message.Flags, message.Change = unix.IFF_UP, unix.IFF_UP
	return message
}

func (n *network) switchOn(index int) error {
	if err := n.request(unix.RTM_NEWLINK, 0, up(index)); err != nil {
		return fmt.Errorf("cannot switch a device on: %w", err)
	}
	return nil
}

// remove waits for the removal. The kernel removes hundreds of devices almost as fast as
// one. But for each bridge, the kernel waits for all processors, and meanwhile blocks
// changes of all networks on the host. So remove removes bridges last, and a few in each
// request.
func (n *network) remove(list []device) error {
	const few = 8
	list = slices.Clone(list)
	bridges := slices.Clone(list)
	err := n.removeTogether(slices.DeleteFunc(list, device.isBridge))
	for some := range slices.Chunk(slices.DeleteFunc(bridges, func(d device) bool { return !d.isBridge() }), few) {
		if err == nil {
			err = n.removeTogether(some)
		}
	}
	return err
}

// removeTogether removes devices in one request of the kernel, by their device group. A missing device is no
// error.
func (n *network) removeTogether(list []device) error {
	for _, d := range list {
		err := n.request(unix.RTM_NEWLINK, 0, about(d.index), nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomed)))
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("cannot remove the device %s: %w", d.name, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return n.removeDoomed()
}

// doomed is the device group of devices that are being removed.
const doomed = 2

func (n *network) removeDoomed() error {
	err := n.request(unix.RTM_DELLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomed)))
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot remove devices: %w", err)
	}
	return nil
}

func (n *network) clear() error {
	list, err := n.links()
	if err != nil {
		return err
	}
	var devices []device
	for _, l := range list {
		if d := asDevice(l); d.name != "lo" {
			devices = append(devices, d)
		}
	}
	return n.remove(devices)
}
