package fabric

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func TestLANsCarryPackets(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 3)
	l.Ends[2].MTU = 1400
	nodes := build(t, h, l)
	if got, want := nodes[0].tell("eth1"), "02:00:00:00:00:01 1500 [10.0.0.1/16 fd00::1/64] up=true"; got != want {
		t.Errorf("the first node has\n %s, want\n %s", got, want)
	}
	if got, want := nodes[2].tell("eth1"), "02:00:00:00:00:03 1400 [10.0.0.3/16 fd00::3/64] up=true"; got != want {
		t.Errorf("the third node has\n %s, want\n %s", got, want)
	}
	for _, pair := range [][2]int{{1, 2}, {2, 3}, {3, 1}} {
		a, b := nodes[pair[0]-1], nodes[pair[1]-1]
		if !reaches(t, a, address(pair[0]), b, address(pair[1]), long) {
			t.Errorf("node %d does not reach node %d", pair[0], pair[1])
		}
		if !reaches(t, a, l.Ends[pair[0]-1].Addresses[1].Addr().String(), b, l.Ends[pair[1]-1].Addresses[1].Addr().String(), long) {
			t.Errorf("node %d does not reach node %d with IPv6", pair[0], pair[1])
		}
	}
}

func TestSlicesAreApart(t *testing.T) {
	h := open(t, Auto)
	one, two := build(t, h, lan("s1", 2)), build(t, h, lan("s2", 2))
	for _, nodes := range [][]*node{one, two} {
		if !reaches(t, nodes[0], address(1), nodes[1], address(2), long) {
			t.Error("nodes of one slice do not reach each other")
		}
	}
	alone := lan("s3", 1)
	three := build(t, h, alone)
	if reaches(t, three[0], address(1), one[1], address(2), short) {
		t.Error("a node reaches another slice")
	}
	if got, err := h.Slices(); err != nil || !slices.Equal(got, []string{"s1", "s2", "s3"}) {
		t.Errorf("Slices: %v, %v", got, err)
	}
	if err := h.Drop(context.Background(), "s2"); err != nil {
		t.Fatal(err)
	}
	if !reaches(t, one[0], address(1), one[1], address(2), long) {
		t.Error("the end of one slice ended another")
	}
	if got := two[0].interfaces(); got != "" {
		t.Errorf("a node of a slice that was dropped has %s", got)
	}
}

func TestLinksOfOneSliceAreApart(t *testing.T) {
	h := open(t, Auto)
	a := lan("s1", 2)
	nodes := build(t, h, a)
	b := lan("s1", 2)
	b.Name = "other"
	for i := range b.Ends {
		b.Ends[i].ID += "b"
		b.Ends[i].IfName = "eth2"
		b.Ends[i].Addresses = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)}), 24)}
	}
	put(t, h, b)
	plug(t, h, b, nodes)
	if !reaches(t, nodes[0], address(1), nodes[1], address(2), long) || !reaches(t, nodes[0], "10.9.0.1", nodes[1], "10.9.0.2", long) {
		t.Error("the nodes do not reach each other on both links")
	}
	ctx := context.Background()
	if err := h.Remove(ctx, "s1", "other"); err != nil {
		t.Fatal(err)
	}
	if got := nodes[0].interfaces(); got != "eth1" {
		t.Errorf("after the removal of a link the node has %q", got)
	}
	if got, err := h.Links(ctx, "s1"); err != nil || !slices.Equal(got, []string{"lan"}) {
		t.Errorf("Links: %v, %v", got, err)
	}
	if err := h.Remove(ctx, "s1", "other"); err != nil {
		t.Errorf("to remove what has gone: %v", err)
	}
}

// The first frame counts: who asks for an address asks again only after a second.
func TestFirstPacketArrives(t *testing.T) {
	h := open(t, Auto)
	for i, l := range []Link{lan("s1", 2), lan("s2", 2, Shape{Rate: 10_000}), lan("s3", 2, Shape{Loss: 1e-9}), lan("s4", 2, Shape{Delay: 1})} {
		if h.Check(l) != nil {
			continue
		}
		for range 3 {
			within(t, func() error {
				nodes := build(t, h, l)
				arrives := reaches(t, nodes[0], address(1), nodes[1], address(2), short)
				if err := h.Drop(context.Background(), l.Slice); err != nil {
					t.Fatal(err)
				}
				if !arrives {
					return fmt.Errorf("link %d: what is sent at once does not arrive", i)
				}
				return nil
			})
		}
	}
}
