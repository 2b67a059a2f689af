package fabric

import (
	"context"
	"fmt"
	"slices"
	"testing"
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
					return fmt.Errorf("link %d: what is sent at once does not arrive", i)
				}
				return nil
			})
		}
	}
}
