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

	"patchbay/inventory/local/netspace"
)

// network is an open namespace of the fabric. Its methods may be called by
// several goroutines.
type network struct {
	file *os.File
	nl   *netlink.Handle
	// sockets are for the requests that the library does not know.
	sockets map[int]*nl.SocketHandle
}

// openNetwork opens the namespace at path, and makes it if it is missing and
// shall be there. Nil: it is missing.
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
	// Also in one that is there: modules that came later have brought their own
	// defaults.
	if err := netspace.Inside(f, quiet); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	n, err := newNetwork(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Who was killed in a removal has left what the next one would take along.
	if err := n.removeDoomed(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func newNetwork(f *os.File) (*network, error) {
	h, err := netlink.NewHandleAt(netns.NsHandle(f.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("cannot speak with the kernel about a network namespace: %w", err)
	}
	s, err := nl.GetNetlinkSocketAt(netns.NsHandle(f.Fd()), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("cannot speak with the kernel about a network namespace: %w", err)
	}
	return &network{file: f, nl: h, sockets: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}}, nil
}

func (n *network) close() {
	n.nl.Close()
	n.sockets[unix.NETLINK_ROUTE].Close()
	n.file.Close()
}

// request is a message to the kernel that is answered by yes or no.
func (n *network) request(kind, flags int, parts ...nl.NetlinkRequestData) error {
	r := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	r.Sockets = n.sockets
	r.Data = parts
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// device is what is known of a device of the fabric.
type device struct {
	name   string
	index  int
	master int
	alias  string
	up     bool
	ready  bool // what is sent goes out
	peer   int  // index of its other side
	peerNS int  // number of the namespace that is in, -1 for none
}

// isBridge tells it by the name, which is ours.
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

// device is the one of that name, false if it is not there.
func (n *network) device(name string) (device, bool, error) {
	l, err := n.nl.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return device{}, false, nil
	}
	if err != nil {
		return device{}, false, fmt.Errorf("cannot look at the device %s: %w", name, err)
	}
	return asDevice(l), true, nil
}

// mustDevice is the one of that name, which has just been there.
func (n *network) mustDevice(name string) (device, error) {
	d, ok, err := n.device(name)
	if err == nil && !ok {
		err = fmt.Errorf("the device %s has gone; try again", name)
	}
	return d, err
}

// devices are all of a network of a slice. Those that a crash left without an alias
// are removed.
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
		case d.alias == "" && strings.HasPrefix(d.name, kindTAP): // the relay is about to have it
		case d.alias == "":
			half = append(half, d)
		default:
			m[d.name] = d
		}
	}
	return m, n.remove(half)
}

// links lists all devices.
func (n *network) links() ([]netlink.Link, error) {
	return netspace.List("devices", n.nl.LinkList)
}

// queues lists the queueing disciplines of all devices.
func (n *network) queues() ([]netlink.Qdisc, error) {
	return netspace.List("queueing disciplines", func() ([]netlink.Qdisc, error) { return n.nl.QdiscList(nil) })
}

// Kinds of devices, the first letters of their names.
const (
	kindPort   = "p"
	kindBridge = "b"
	kindOwn    = "q" // the small bridge of an end
	kindCut    = "s"
	kindCutEnd = "u"
	kindTAP    = "t"
	kindUplink = "x"
	kindFar    = "y" // the other side of it, in the shared VLAN's namespace
)

// alias tells in words what a device is for; it has what its name is made of.
func alias(link, end string) string { return link + " " + end }

// ofLink tells whether an alias is of a device of the link.
func ofLink(alias, link string) bool {
	name, _, ok := strings.Cut(alias, " ")
	return ok && name == link
}

// awaitReady waits until the device sends. When the other side of its wire is
// switched on the kernel notices that a little later, and until then all that goes
// out is lost.
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
	return nil // or a node's root has switched it off again
}

// about begins a request about a device.
func about(index int) *nl.IfInfomsg {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	return message
}

// up is about a device that is to be switched on.
func up(index int) *nl.IfInfomsg {
	message := about(index)
	message.Flags, message.Change = unix.IFF_UP, unix.IFF_UP
	return message
}

// switchOn switches a device on.
func (n *network) switchOn(index int) error {
	if err := n.request(unix.RTM_NEWLINK, 0, up(index)); err != nil {
		return fmt.Errorf("cannot switch a device on: %w", err)
	}
	return nil
}

// remove takes devices away, and is back when they have gone. Hundreds take the
// kernel hardly longer than one, but for bridges: for each it waits until all
// processors have noticed, and holds the lock of all networks of this host. So
// they go last and few at a time, that others get their turns.
func (n *network) remove(list []device) error {
	const few = 8
	list = slices.Clone(list)
	bridges := slices.Clone(list)
	err := n.removeAtOnce(slices.DeleteFunc(list, device.isBridge))
	for some := range slices.Chunk(slices.DeleteFunc(bridges, func(d device) bool { return !d.isBridge() }), few) {
		if err == nil {
			err = n.removeAtOnce(some)
		}
	}
	return err
}

func (n *network) removeAtOnce(list []device) error {
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

// doomed is the group of devices that are to go.
const doomed = 2

func (n *network) removeDoomed() error {
	err := n.request(unix.RTM_DELLINK, 0, nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomed)))
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot remove devices: %w", err)
	}
	return nil
}

// clear removes all devices.
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
