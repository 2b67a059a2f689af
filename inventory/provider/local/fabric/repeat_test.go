package fabric

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"patchbay/inventory/provider/local/netspace"
)

func TestRestartedNodesAreAttachedAgain(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2)
	nodes := build(t, h, l)
	for range 10 {
		// The kernel removes the old namespace with a delay.
		nodes[1].restart()
		plug(t, h, l, nodes)
		if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
			t.Fatal("a node that was restarted is not reached")
		}
	}
	// Restarted while the kernel removes the old namespace.
	keep := nodes[1].file
	nodes[1].file = newNamespace(t)
	plug(t, h, l, nodes)
	keep.Close()
	if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
		t.Error("a node whose old namespace is still there is not reached")
	}
}

func TestAttachKeepsChangesOfRoot(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2)
	nodes := build(t, h, l)
	change := func(f func(l netlink.Link) error) {
		nodes[0].do(func() error {
			for _, name := range []string{"eth1", "mine"} {
				if l, err := netlink.LinkByName(name); err == nil {
					return f(l)
				}
			}
			t.Fatal("the interface has gone")
			return nil
		})
	}
	change(func(l netlink.Link) error { return netlink.LinkSetDown(l) })
	change(func(l netlink.Link) error { return netlink.LinkSetName(l, "mine") })
	change(func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, []byte{2, 9, 9, 9, 9, 9}) })
	change(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) })
	want := nodes[0].describe("mine")
	setLink(t, h, l)
	plug(t, h, l, nodes)
	if got := nodes[0].describe("mine"); got != want || nodes[0].interfaces() != "mine" {
		t.Errorf("the node has %s: %s, want only mine: %s", nodes[0].interfaces(), got, want)
	}
	// A missing interface is created, even if another has its name.
	change(func(l netlink.Link) error { return netlink.LinkDel(l) })
	nodes[0].do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name = "eth1"
		v := netlink.NewVeth(a)
		v.PeerName = "veth9"
		return netlink.LinkAdd(v)
	})
	plug(t, h, l, nodes)
	if got, want := nodes[0].describe("eth1"), "02:00:00:00:00:01 1500 [10.0.0.1/16 fd00::1/64] up=true"; got != want {
		t.Errorf("the interface that was removed is\n %s, want\n %s", got, want)
	}
	if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
		t.Error("the nodes do not reach each other")
	}
}

func TestChangesKeepAttachedInterfaces(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 3)
	nodes := build(t, h, l)
	for i, n := range nodes[:2] {
		n.do(func() error {
			e, err := netlink.LinkByName("eth1")
			if err != nil {
				return err
			}
			return netlink.AddrAdd(e, &netlink.Addr{IPNet: netspace.IPNet(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 8, 0, byte(i)}), 24))})
		})
	}
	before := []string{nodes[0].describe("eth1"), nodes[1].describe("eth1")}
	cut := Shape{To: []string{"node1/0", "node2/0"}, Loss: 0.001}
	for i, c := range []struct {
		forced string
		ends   int
		shapes []Shape
		want   string
	}{
		{Auto, 3, nil, "bridge"},
		{Auto, 2, []Shape{{Rate: 100_000}}, "bridge+tbf"},
		{cutting, 2, nil, "bridge"},
		{cutting, 3, []Shape{{Rate: 100_000}}, "bridge+tbf"},
		{VSwitch, 3, []Shape{cut, {Rate: 100_000}}, "tbf+vswitch"},
		{VSwitch, 3, []Shape{{Delay: time.Millisecond}}, "vswitch"},
		{VSwitch, 2, []Shape{cut}, "vswitch"},
		{Auto, 2, nil, "bridge"},
	} {
		h.options.Emulator = c.forced
		put := func(h *Host, l Link) (string, error) { return h.SetLink(context.Background(), l) }
		if c.forced == cutting {
			put = setLinkWithSegmentation
		}
		next := lan("s1", c.ends, c.shapes...)
		for again := range 2 { // twice is as once
			if got, err := put(h, next); err != nil || got != c.want {
				t.Errorf("step %d: the means are %s, %v; want %s", i, got, err, c.want)
			}
			plug(t, h, next, nodes[:c.ends])
			if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) || !isReachable(t, nodes[1], address(2), nodes[0], address(1), long) {
				t.Errorf("step %d, time %d: the nodes do not reach each other", i, again)
			}
		}
		for j := range before {
			if got := nodes[j].describe("eth1"); got != before[j] {
				t.Errorf("step %d: node %d has\n %s, want\n %s", i, j+1, got, before[j])
			}
		}
		if got := nodes[2].interfaces(); (got == "eth1") != (c.ends == 3) {
			t.Errorf("step %d: the third node has %q", i, got)
		}
	}
	devices, err := h.slices["s1"].net.devices()
	must(t, err)
	if len(devices) != 3 {
		t.Errorf("a bridge and two ports should be left: %v", devices)
	}
}

func TestNetworksAreAdopted(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2, Shape{Rate: 100_000})
	nodes := buildWithSegmentation(t, h, l)
	gone := lan("s1", 2)
	gone.Name = "gone"
	for i := range gone.Ends {
		gone.Ends[i].ID += "b"
		gone.Ends[i].IfName = "eth2"
		gone.Ends[i].Addresses = nil
	}
	setLink(t, h, gone)
	plug(t, h, gone, nodes)
	before := nodes[0].describe("eth1")
	must(t, h.Close())
	ctx := context.Background()
	if _, err := h.SetLink(ctx, l); err != ErrClosed {
		t.Errorf("Put after Close: %v", err)
	}
	if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
		t.Error("after Close the link is dead")
	}

	h2, err := Open(options(h.options.Folder, Auto))
	must(t, err)
	t.Cleanup(func() { h2.Close() })
	if err := h2.AttachEnd(ctx, "s1", "lan", "node1/0", nodes[0].file); err == nil || !strings.Contains(err.Error(), "call SetLink first") {
		t.Errorf("Plug before Put: %v", err)
	}
	if got, err := h2.Links(ctx, "s1"); err != nil || strings.Join(got, " ") != "gone lan" {
		t.Errorf("Links: %v, %v", got, err)
	}
	must(t, h2.RemoveLinks(ctx, "s1", "gone"))
	l.Shapes = nil
	setLink(t, h2, l)
	plug(t, h2, l, nodes)
	if got := nodes[0].describe("eth1"); got != before || nodes[0].interfaces() != "eth1" {
		t.Errorf("the node has %s: %s, want only eth1: %s", nodes[0].interfaces(), got, before)
	}
	if got := countReceived(t, h2, kindCutEnd); got != 0 {
		t.Errorf("a device of before the crash is still there: it has received %d packets", got)
	}
	must(t, h2.RemoveNetwork(ctx, "s1"))
	h.closed = false // so that the end of the test finds nothing to drop
}

// A removal marks devices one by one before it removes them together. After a kill in
// between, devices that are needed again must survive the next removal.
func TestInterruptedRemoval(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2)
	nodes := build(t, h, l)
	n := h.slices["s1"].net
	devices, err := n.devices()
	must(t, err)
	for _, d := range devices {
		message := nl.NewIfInfomsg(unix.AF_UNSPEC)
		message.Index = int32(d.index)
		must(t, n.request(unix.RTM_NEWLINK, 0, message, nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomed))))
	}
	h2, err := Open(options(h.options.Folder, Auto))
	must(t, err)
	t.Cleanup(func() { h2.Close() })
	setLink(t, h2, l)
	plug(t, h2, l, nodes)
	other := Link{Slice: "s1", Name: "other", Ends: []End{{ID: "x", MAC: l.Ends[0].MAC, IfName: "eth2"}}}
	setLink(t, h2, other)
	must(t, h2.RemoveLinks(context.Background(), "s1", "other"))
	if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
		t.Error("the removal of another link took the link away")
	}
}

func TestInvalidMounts(t *testing.T) {
	h := open(t, Auto)
	ctx := context.Background()
	path := filepath.Join(h.options.Folder, "slices", "s1")
	// After a boot there is a file without a mount.
	must(t, os.WriteFile(path, nil, 0o600))
	if err := h.AttachEnd(ctx, "s1", "lan", "node1/0", newNode(t).file); err == nil {
		t.Error("an end without a link is attached")
	}
	l := lan("s1", 2)
	nodes := build(t, h, l)
	// The mount ended with its mount namespace, but the running Host still holds the old
	// network.
	must(t, unix.Unmount(path, unix.MNT_DETACH))
	setLink(t, h, l)
	plug(t, h, l, nodes)
	if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
		t.Error("the nodes do not reach each other in the network that was made again")
	}
	if got := nodes[0].interfaces(); got != "eth1" {
		t.Errorf("the node has %q", got)
	}
	// The mount is missing when the network is removed.
	must(t, unix.Unmount(path, unix.MNT_DETACH))
	must(t, h.RemoveNetwork(ctx, "s1"))
	if err := h.RemoveNetwork(ctx, "s1"); err != nil {
		t.Errorf("removing a missing network: %v", err)
	}
	for _, dir := range []string{"slices", "shared"} {
		if list, err := os.ReadDir(filepath.Join(h.options.Folder, dir)); err != nil || len(list) != 0 {
			t.Errorf("%s holds %v, %v", dir, list, err)
		}
	}
}
