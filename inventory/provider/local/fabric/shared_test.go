package fabric

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/inventory/provider/local/netspace"
)

// sharedLink returns a link of one slice, with ends that differ from other slices'.
func sharedLink(slice string, first, n int, vlan string) Link {
	l := Link{Slice: slice, Name: "lan", Shared: vlan}
	for i := range n {
		l.Ends = append(l.Ends, end(first+i))
	}
	return l
}

func TestSharedVLANsJoinSlices(t *testing.T) {
	h := open(t, Auto)
	ctx := context.Background()
	a, b, c := sharedLink("s1", 1, 2, "public lan"), sharedLink("s2", 3, 1, "public lan"), sharedLink("s3", 4, 1, "other")
	one, two, three := build(t, h, a), build(t, h, b), build(t, h, c)
	for range 2 { // twice is as once
		setLink(t, h, a)
		if !isReachable(t, one[0], address(1), two[0], address(3), long) || !isReachable(t, two[0], address(3), one[1], address(2), long) {
			t.Error("slices on one shared VLAN do not reach each other")
		}
	}
	if isReachable(t, one[0], address(1), three[0], address(4), short) {
		t.Error("another shared VLAN is reached")
	}
	// Frames that leave the slice are shaped like those to its own nodes.
	a.Shapes = []Shape{{Rate: 5000}}
	if got := setLink(t, h, a); got != "bridge+tbf" {
		t.Errorf("the means are %s", got)
	}
	expectRate(t, two[0], address(3), one[0], address(1), 5, 0.4, 1.06, time.Millisecond)
	// With a higher capacity the sender would be slowed down before the queue is full.
	if c := counters(t, h)["node1/0"]; c.Dropped == 0 || c.RxBytes < 40_000 || c.TxBytes == 0 {
		t.Errorf("Counters: %+v", c)
	}
	expectRate(t, one[0], address(1), two[0], address(3), 5, 0.4, 1.06, time.Millisecond)
	h.options.Emulator = VSwitch
	a.Shapes = []Shape{{Loss: 1}}
	setLink(t, h, a)
	if isReachable(t, one[0], address(1), two[0], address(3), short) {
		t.Error("frames with 100 % loss reach the shared VLAN")
	}
	a.Shapes = []Shape{{Delay: 1e6}}
	setLink(t, h, a)
	if !isReachable(t, one[0], address(1), two[0], address(3), long) {
		t.Error("the vswitch does not lead to the shared VLAN")
	}
	a.Shapes, a.Shared = nil, ""
	setLink(t, h, a)
	if isReachable(t, one[0], address(1), two[0], address(3), short) || !isReachable(t, one[0], address(1), one[1], address(2), long) {
		t.Error("a link that left its shared VLAN is still there, or has not even itself")
	}
	count := func() int {
		list, err := os.ReadDir(filepath.Join(h.options.Folder, "shared"))
		must(t, err)
		return len(list)
	}
	if got := count(); got != 2 {
		t.Errorf("there are %d shared VLANs, want 2", got)
	}
	must(t, h.RemoveLinks(ctx, "s2", "lan"))
	if got := count(); got != 1 {
		t.Errorf("there are %d shared VLANs, want 1", got)
	}
	must(t, h.RemoveNetwork(ctx, "s3"))
	if got := count(); got != 0 {
		t.Errorf("there are %d shared VLANs, want none", got)
	}
}

func TestSharedVLANsOfLostNetworks(t *testing.T) {
	h := open(t, Auto)
	a, b := sharedLink("s1", 1, 1, "v"), sharedLink("s2", 2, 1, "v")
	one, two := build(t, h, a), build(t, h, b)
	if err := os.Remove(h.path("s1")); err == nil {
		t.Fatal("a mount was removed")
	}
	must(t, netspace.Remove(h.path("s1")))
	setLink(t, h, a)
	plug(t, h, a, one)
	if !isReachable(t, one[0], address(1), two[0], address(2), long) {
		t.Error("a network that was made again does not reach the shared VLAN")
	}
	must(t, netspace.Remove(h.sharedPath("v")))
	for i, l := range []Link{a, b} {
		setLink(t, h, l)
		plug(t, h, l, [][]*node{one, two}[i])
	}
	if !isReachable(t, one[0], address(1), two[0], address(2), long) {
		t.Error("a shared VLAN that was made again does not join the slices")
	}
}
