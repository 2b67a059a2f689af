package fabric

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"patchbay/am/testkit/wait"
)

func TestLANsCarryPackets(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 3)
	l.Ends[2].MTU = 1400
	nodes := build(t, h, l)
	if got, want := nodes[0].describe("eth1"), "02:00:00:00:00:01 1500 [10.0.0.1/16 fd00::1/64] up=true"; got != want {
		t.Errorf("the first node has\n %s, want\n %s", got, want)
	}
	if got, want := nodes[2].describe("eth1"), "02:00:00:00:00:03 1400 [10.0.0.3/16 fd00::3/64] up=true"; got != want {
		t.Errorf("the third node has\n %s, want\n %s", got, want)
	}
	for _, pair := range [][2]int{{1, 2}, {2, 3}, {3, 1}} {
		a, b := nodes[pair[0]-1], nodes[pair[1]-1]
		if !isReachable(t, a, address(pair[0]), b, address(pair[1]), long) {
			t.Errorf("node %d does not reach node %d", pair[0], pair[1])
		}
		if !isReachable(t, a, l.Ends[pair[0]-1].Addresses[1].Addr().String(), b, l.Ends[pair[1]-1].Addresses[1].Addr().String(), long) {
			t.Errorf("node %d does not reach node %d with IPv6", pair[0], pair[1])
		}
	}
}

// Root of nodes may raise the MTU up to 9000, and the kernel reports no error for frames that a
// device drops.
func TestJumboFramesArrive(t *testing.T) {
	for _, tt := range []struct {
		name, emulator string
		link           Link
	}{
		{"plain", "bridge", lan("s1", 2)},
		{"a slow capacity", "bridge+tbf", lan("s1", 2, Shape{Rate: 1000})},
		{"a capacity, with segmentation", "", lan("s1", 2, Shape{Rate: 100_000})},
		{"latency by the switch process", "vswitch", lan("s1", 2, Shape{Delay: 1e6})},
		{"capacity and latency by the switch process", "tbf+vswitch", lan("s1", 2, Shape{Delay: 1e6, Rate: 10_000})},
		{"a shared VLAN", "bridge", sharedLink("s1", 1, 1, "office")},
		{"a shaped shared VLAN", "vswitch", Link{Slice: "s1", Name: "lan", Shared: "office", Ends: []End{end(1)}, Shapes: []Shape{{Delay: 1e6}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Auto
			if strings.Contains(tt.emulator, "vswitch") {
				o = VSwitch
			}
			h := open(t, o)
			var nodes []*node
			switch {
			case tt.emulator == "":
				nodes = buildWithSegmentation(t, h, tt.link)
			default:
				nodes = build(t, h, tt.link)
				if got := setLink(t, h, tt.link); got != tt.emulator {
					t.Fatalf("the emulator is %s", got)
				}
			}
			if len(nodes) == 1 {
				nodes = append(nodes, build(t, h, sharedLink("s2", 2, 1, "office"))...)
			}
			for _, n := range nodes {
				n.do(func() error {
					l, err := netlink.LinkByName("eth1")
					if err == nil {
						err = netlink.LinkSetMTU(l, 9000)
					}
					return err
				})
			}
			for i, from := range nodes {
				to := nodes[1-i]
				in, out := to.udp(addrPort(address(2-i))), from.udp(addrPort(address(i+1)))
				const most = 9000 - 20 - 8 // bytes of a datagram that is one frame
				wait.Success(t, "a frame of 9000 bytes", func() error {
					if _, err := out.WriteTo(make([]byte, most), in.LocalAddr()); err != nil {
						return err
					}
					in.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
					n, _, err := in.ReadFrom(make([]byte, 9000))
					if err == nil && n != most {
						err = fmt.Errorf("%d bytes arrive", n)
					}
					return err
				})
			}
		})
	}
}

func TestSlicesAreSeparate(t *testing.T) {
	h := open(t, Auto)
	one, two := build(t, h, lan("s1", 2)), build(t, h, lan("s2", 2))
	for _, nodes := range [][]*node{one, two} {
		if !isReachable(t, nodes[0], address(1), nodes[1], address(2), long) {
			t.Error("nodes of one slice do not reach each other")
		}
	}
	alone := lan("s3", 1)
	three := build(t, h, alone)
	if isReachable(t, three[0], address(1), one[1], address(2), short) {
		t.Error("a node reaches another slice")
	}
	if got, err := h.Slices(); err != nil || !slices.Equal(got, []string{"s1", "s2", "s3"}) {
		t.Errorf("Slices: %v, %v", got, err)
	}
	must(t, h.RemoveNetwork(context.Background(), "s2"))
	if !isReachable(t, one[0], address(1), one[1], address(2), long) {
		t.Error("the end of one slice ended another")
	}
	if got := two[0].interfaces(); got != "" {
		t.Errorf("a node of a slice that was dropped has %s", got)
	}
}

// The first frame must arrive: an ARP request is repeated only after a second.
func TestFirstPacketArrives(t *testing.T) {
	h := open(t, Auto)
	for i, l := range []Link{lan("s1", 2), lan("s2", 2, Shape{Rate: 10_000}), lan("s3", 2, Shape{Loss: 1e-9}), lan("s4", 2, Shape{Delay: 1})} {
		if h.CheckLink(l) != nil {
			continue
		}
		for range 3 {
			retry(t, func() error {
				nodes := build(t, h, l)
				arrives := isReachable(t, nodes[0], address(1), nodes[1], address(2), short)
				must(t, h.RemoveNetwork(context.Background(), l.Slice))
				if !arrives {
					return fmt.Errorf("link %d: frames sent immediately do not arrive", i)
				}
				return nil
			})
		}
	}
}

// A neighbour that knows the MAC address of the node before would send to it for up to a
// minute.
func TestReplacedNodeIsReachedAtOnce(t *testing.T) {
	h := open(t, Auto)
	for i, shapes := range [][]Shape{nil, {{Rate: 10_000}}} {
		l := lan(fmt.Sprint("s", i), 2, shapes...)
		nodes := build(t, h, l)
		expect := func(patience time.Duration) {
			t.Helper()
			for _, net := range []string{"10.0.0.", "fd00::"} {
				if !isReachable(t, nodes[0], net+"1", nodes[1], net+"2", patience) {
					t.Errorf("%v: %s2 is not reached in %v", shapes, net, patience)
				}
			}
		}
		expect(long)
		l.Ends[1].ID, l.Ends[1].MAC = "node3/0", net.HardwareAddr{2, 0, 0, 0, 1, 3}
		setLink(t, h, l)
		nodes[1].restart()
		plug(t, h, l, nodes)
		expect(time.Second)
	}
}
