package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// Interface is the name of the egress interface in nodes.
const Interface = "eth0"

// ErrOccupied means that root of the node has created another device with the name
// Interface.
var ErrOccupied = errors.New("the node has another device " + Interface + " already")

// Attach connects a running node with the Internet. node is the node's network namespace,
// and number determines the node's address. A repeated call changes nothing, even if the
// node's root has changed the interface. If the node's device leads to another namespace,
// such as that of the node's previous run, Attach replaces it.
func (e *Router) Attach(ctx context.Context, number int, node *os.File) error {
	if number < 1 || number > MaxNumber {
		return fmt.Errorf("invalid node number %d; use 1 to %d", number, MaxNumber)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if netspace.Equal(node, e.space) {
		return errors.New("the egress namespace is not a node")
	}
	made, err := e.attach(number, node)
	if err != nil {
		return fmt.Errorf("cannot connect node number %d with the outside network: %w", number, err)
	}
	if made {
		for _, end := range []struct {
			space *os.File
			name  string
		}{{e.space, port(number)}, {node, Interface}} {
			_ = netlinkIn(end.space, func(h *netlink.Handle) error {
				awaitCarrier(h, end.name)
				return nil
			})
		}
	}
	return nil
}

func port(number int) string { return nodePrefix + strconv.Itoa(number) }

// attach makes and configures the devices between the node and the egress namespace, unless they are complete.
// It does not wait until they are ready, unlike Attach. made reports whether it created them.
func (e *Router) attach(number int, node *os.File) (made bool, err error) {
	port := port(number)
	e.attaching.Lock()
	defer e.attaching.Unlock()
	mtu := e.mtu.Load()
	err = netlinkIn(e.space, func(h *netlink.Handle) error {
		l, err := link(h, port)
		if err != nil {
			return err
		}
		if l != nil {
			id, err := h.GetNetNsIdByFd(int(node.Fd()))
			if err == nil && id >= 0 && l.Attrs().NetNsID == id && l.Attrs().Alias == ready {
				return nil
			}
			if err := h.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("cannot remove the device of the node's previous run: %w", err)
			}
		}
		at := netlink.NewLinkAttrs()
		at.Name, at.HardwareAddr, at.MTU = port, hardware(3, number), int(mtu)
		pair := netlink.NewVeth(at)
		pair.PeerName, pair.PeerHardwareAddr, pair.PeerMTU = Interface, MAC(number), uint32(mtu)
		pair.PeerNamespace = netlink.NsFd(int(node.Fd()))
		made = true
		err = h.LinkAdd(pair)
		if errors.Is(err, unix.EEXIST) {
			return ErrOccupied
		}
		if err != nil {
			return fmt.Errorf("cannot make the device %s: %w", port, err)
		}
		return nil
	})
	if err == nil && made {
		if err = netlinkIn(node, func(h *netlink.Handle) error { return configureNode(h, number) }); err != nil {
			err = fmt.Errorf("in the node: %w", err)
		}
	}
	if err == nil && made {
		if err = netlinkIn(e.space, func(h *netlink.Handle) error { return configurePort(h, port, number) }); err != nil {
			err = fmt.Errorf("in the egress namespace: %w", err)
		}
	}
	return made, err
}

// configureNode gives the interface in the node its address and routes. It uses data of the node's
// namespace only for the node's interface, because the node's root could falsify the data.
func configureNode(h *netlink.Handle, number int) error {
	if err := configure(h, Interface, netip.PrefixFrom(Address(number), 32), Gateway(), hardware(3, number)); err != nil {
		return err
	}
	l, err := mustLink(h, Interface)
	if err != nil {
		return err
	}
	gate := netip.PrefixFrom(Gateway(), 32)
	if err := addRoute(h, l, netlink.Route{Dst: netspace.IPNet(gate), Scope: netlink.SCOPE_LINK}); err != nil {
		return err
	}
	return addRoute(h, l, netlink.Route{Gw: Gateway().AsSlice()})
}

// ready is the alias of a complete device. The alias is set last. A device without it is
// incomplete, and is created again.
const ready = "ready"

// configurePort switches on the node's device in the egress namespace, gives it the route to the node, and
// marks it as complete.
func configurePort(h *netlink.Handle, port string, number int) error {
	l, err := mustLink(h, port)
	if err != nil {
		return err
	}
	if err := switchOn(h, l); err != nil {
		return err
	}
	if err := neighbour(h, l, Address(number), hardware(4, number)); err != nil {
		return err
	}
	err = addRoute(h, l, netlink.Route{Dst: netspace.IPNet(netip.PrefixFrom(Address(number), 32)), Scope: netlink.SCOPE_LINK, Src: Gateway().AsSlice()})
	if err != nil {
		return err
	}
	if err := h.LinkSetAlias(l, ready); err != nil {
		return fmt.Errorf("cannot set the alias of the device %s: %w", port, err)
	}
	return nil
}

// Detach disconnects a node and removes its conntrack entries, so that a later node
// with the same number does not get replies that were meant for this node.
func (e *Router) Detach(number int) error {
	if err := e.deletePort(number); err != nil {
		return err
	}
	return e.forgets.add(Address(number), func(all map[netip.Addr]bool) error {
		return netspace.Inside(e.space, func() error { return forget(all) })
	})
}

func (e *Router) deletePort(number int) error {
	e.attaching.Lock()
	defer e.attaching.Unlock()
	e.SetOwner(number, "")
	return netspace.Inside(e.space, func() error { return remove(port(number)) })
}

// forgetBatches combines concurrent removals of conntrack entries into batches, because
// the kernel lists all connections for each batch.
type forgetBatches struct {
	mu   sync.Mutex
	next *forgetBatch // the batch that has not begun; nil for none
	turn sync.Mutex   // held while a batch runs
}

type forgetBatch struct {
	addresses map[netip.Addr]bool
	done      chan struct{} // closed when err is set
	err       error
}

// add adds an address to the next batch, and waits until that batch has been handled. The
// first caller of a batch calls handle with all of its addresses. All callers of the
// batch return the error of that call.
func (f *forgetBatches) add(a netip.Addr, handle func(map[netip.Addr]bool) error) error {
	f.mu.Lock()
	b := f.next
	first := b == nil
	if first {
		b = &forgetBatch{addresses: map[netip.Addr]bool{}, done: make(chan struct{})}
		f.next = b
	}
	b.addresses[a] = true
	f.mu.Unlock()
	if first {
		f.turn.Lock()
		f.mu.Lock()
		f.next = nil // later callers begin the next batch
		f.mu.Unlock()
		b.err = handle(b.addresses)
		f.turn.Unlock()
		close(b.done)
	}
	<-b.done
	return b.err
}

// forget removes the conntrack entries of connections from the addresses. It works in the network namespace of
// the calling thread.
func forget(s sources) error {
	if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.FAMILY_V4, s); err != nil {
		return fmt.Errorf("cannot remove the conntrack entries of nodes: %w", err)
	}
	return nil
}

type sources map[netip.Addr]bool

// MatchConntrackFlow reports whether a connection is from one of the addresses.
func (s sources) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	a, ok := netip.AddrFromSlice(flow.Forward.SrcIP)
	return ok && s[a.Unmap()]
}

// Sweep detaches all nodes for which isUsed returns false.
func (e *Router) Sweep(isUsed func(number int) bool) error {
	var numbers []int
	err := netlinkIn(e.space, func(h *netlink.Handle) error {
		all, err := links(h)
		for _, l := range all {
			text, ours := strings.CutPrefix(l.Attrs().Name, nodePrefix)
			if n, err := strconv.Atoi(text); ours && err == nil && !isUsed(n) {
				numbers = append(numbers, n)
			}
		}
		return err
	})
	for _, n := range numbers {
		err = errors.Join(err, e.Detach(n))
	}
	return err
}
