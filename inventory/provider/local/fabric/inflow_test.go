package fabric

import (
	"context"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// maxFrames returns the maximum number of frames through a limited port in a duration.
func maxFrames(d time.Duration) uint64 {
	return inflowBurst + uint64(d.Seconds()*inflowRate) + inflowRate/20
}

func needInflow(t testing.TB, h *Host) {
	t.Helper()
	if !h.Features().Inflow {
		t.Skip(h.Features().Missing["inflow"])
	}
}

var ownMAC, otherMAC, foreignMAC, group = []byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}, []byte{2, 9, 9, 9, 9, 9}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func frameOf(to, from []byte) []byte {
	f := make([]byte, 60)
	copy(f, to)
	copy(f[6:], from)
	f[12], f[13] = 0x88, 0xb5
	return f
}

func TestInflowLimitsCirclingFrames(t *testing.T) {
	const frames = 60_000
	for _, tt := range []struct {
		name     string
		means    string
		to, from []byte
		bounded  bool
	}{
		{"broadcast", Auto, group, ownMAC, true},
		{"multicast", Auto, []byte{0x33, 0x33, 0, 0, 0, 1}, ownMAC, true},
		{"foreign address", Auto, otherMAC, foreignMAC, true},
		{"another's address", Auto, otherMAC, otherMAC, true},
		{"own address", Auto, otherMAC, ownMAC, false},
		{"broadcast, by the vswitch", VSwitch, group, ownMAC, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, tt.means)
			needInflow(t, h)
			l := lan("s1", 2)
			if tt.means != Auto {
				l.Shapes = []Shape{{Loss: 0.0001}}
			}
			nodes := build(t, h, l)
			send, frame := rawSender(t, nodes[0]), frameOf(tt.to, tt.from)
			before, start := counters(t, h), time.Now()
			for range frames {
				send(frame)
			}
			took := time.Since(start)
			time.Sleep(50 * time.Millisecond)
			after := counters(t, h)
			got := after["node2/0"].RxPackets - before["node2/0"].RxPackets
			cut := after["node1/0"].Dropped - before["node1/0"].Dropped
			if !tt.bounded {
				if cut != 0 {
					t.Errorf("of frames to one, from the port's address, %d were cut", cut)
				}
				return
			}
			if got > maxFrames(took) {
				t.Errorf("%d of %d frames in %v came through, want at most %d", got, frames, took, maxFrames(took))
			}
			if passed := uint64(frames) - cut; passed > maxFrames(took) {
				t.Errorf("%d of %d frames are counted as cut", cut, frames)
			}
		})
	}
}

// TestInflowLimitsRings has two nodes join two links to a ring.
func TestInflowLimitsRings(t *testing.T) {
	h := open(t, Auto)
	needInflow(t, h)
	first, second := lan("s1", 2), lan("s1", 2)
	second.Name = "other"
	for i := range second.Ends {
		e := &second.Ends[i]
		e.ID, e.IfName, e.MAC[0], e.Addresses = e.ID+"b", "eth2", 6, nil
	}
	nodes := build(t, h, first)
	setLink(t, h, second)
	plug(t, h, second, nodes)
	for _, n := range nodes {
		n.do(func() error {
			a := netlink.NewLinkAttrs()
			a.Name = "ring"
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: a}); err != nil {
				return err
			}
			ring, err := netlink.LinkByName("ring")
			if err != nil {
				return err
			}
			for _, name := range []string{"eth1", "eth2"} {
				l, err := netlink.LinkByName(name)
				if err == nil {
					err = netlink.LinkSetMaster(l, ring)
				}
				if err != nil {
					return err
				}
			}
			return netlink.LinkSetUp(ring)
		})
	}
	send, frame := rawSender(t, nodes[0]), frameOf(group, foreignMAC)
	for range 400 {
		send(frame)
	}
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	before := counters(t, h)
	time.Sleep(500 * time.Millisecond)
	after, took := counters(t, h), time.Since(start)
	for id, c := range after {
		if got := c.RxPackets - before[id].RxPackets; got > maxFrames(took) {
			t.Errorf("%s got %d frames in %v, want at most %d", id, got, took, maxFrames(took))
		}
	}
}

func TestInflowFollowsLink(t *testing.T) {
	h := open(t, Auto)
	needInflow(t, h)
	l := lan("s1", 3)
	setLink(t, h, l)
	second := lan("s1", 600)
	second.Name = "other"
	setLink(t, h, second)
	known := func() int {
		m, err := h.slices["s1"].net.readOwn()
		must(t, err)
		if len(m) != len(h.slices["s1"].own) {
			t.Errorf("the kernel knows %d ports, and we %d", len(m), len(h.slices["s1"].own))
		}
		return len(m)
	}
	l.Ends = l.Ends[:2]
	l.Ends[1].MAC = foreignMAC
	setLink(t, h, l)
	if got := known(); got != 602 {
		t.Errorf("after an end went the rules know %d ports, want 602", got)
	}
	nodes := []*node{newNode(t), newNode(t)}
	plug(t, h, l, nodes)
	send, frame := rawSender(t, nodes[0]), frameOf(group, ownMAC)
	for range 2 * inflowRate {
		send(frame)
	}
	// As after a crash.
	h.slices["s1"].own = nil
	setLink(t, h, l)
	if got := known(); got != 602 {
		t.Errorf("after a crash the rules know %d ports, want 602", got)
	}
	must(t, h.RemoveLinks(context.Background(), "s1", "lan"))
	if list, err := h.slices["s1"].net.cutFrames(); err != nil || len(list) != 0 {
		t.Errorf("without the link these were too much: %v, %v", list, err)
	}
	if got := known(); got != 600 {
		t.Errorf("without the link the rules know %d ports, want 600", got)
	}
	setLink(t, h, l) // with the names of before
	if got := known(); got != 602 {
		t.Errorf("with the link again the rules know %d ports, want 602", got)
	}
}
