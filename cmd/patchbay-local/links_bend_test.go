package main

import (
	"fmt"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
)

// nodesCannotChangeLinks has root of a node change its own side of a link. Links of other slices
// are not affected, and traffic of the node still has the properties of its link.
func nodesCannotChangeLinks(t *testing.T, b *testSite) {
	const slow = 10e6
	ten := linkProperties{capacity: slow / 1000, latency: 5}
	late := linkProperties{latency: 10}
	others := b.join(t, "others", 30, []testLink{between("both", ten, ten)})
	s := b.join(t, "hostile", 40, []testLink{between("capacity", ten, ten), between("latency", late, late)})
	inside := &arena{testSite: b}
	inside.copyProgram(t, s.id("a"), programOfTests(t))
	inside.facts.Time = 6 * time.Second // longer than others are measured

	t.Run("bend", func(t *testing.T) {
		for _, word := range []string{"bend-qdiscs", "bend-offloads", "bend-mtu", "bend-address", "bend-name"} {
			if got := inside.task(s.id("a"), word); got != "done" {
				t.Fatalf("%s cannot be tried: %s", word, got)
			}
		}
		s.measure(t, "its own")
		others.measure(t, "others")
	})
	for _, tt := range []struct{ word, link, device string }{
		{"flood-frames", "capacity", "eth1"}, {"flood-arp", "capacity", "eth1"}, {"flood-udp", "capacity", "eth1"}, {"flood-udp", "latency", "eth2"},
	} {
		t.Run(tt.word+" over "+tt.link, func(t *testing.T) {
			inside.facts.Address, inside.facts.Device = s.address("b", tt.link)+":9", tt.device
			before := s.item(t, "b", tt.link)
			ended := make(chan string, 1)
			go func() { ended <- inside.task(s.id("a"), tt.word) }()
			others.measure(t, "others meanwhile")
			if got := <-ended; got != "done" {
				t.Fatalf("it cannot be tried: %s", got)
			}
			if tt.link != "capacity" {
				return
			}
			// Counters may be a second old, and older where they are read slowly.
			time.Sleep(1100 * time.Millisecond)
			wait.Clear(t, func() string {
				after := s.item(t, "b", tt.link)
				came := float64(after.RxBytes-before.RxBytes) * 8 / inside.facts.Time.Seconds()
				if came > 2*slow {
					t.Fatalf("%.1f Mbit/s came out of a link of 10", came/1e6)
				}
				// On a busy host, the flood may be no more than the link carries.
				if came < slow/10 || came > 0.97*slow && after.Dropped <= before.Dropped {
					return fmt.Sprintf("of the flood %.1f Mbit/s came out of a link of 10, and dropped are told to be: %+v, then %+v", came/1e6, before, after)
				}
				return ""
			})
		})
	}
	t.Run("bend-mac", func(t *testing.T) {
		if got := inside.task(s.id("a"), "bend-mac"); got != "done" {
			t.Fatalf("it cannot be tried: %s", got)
		}
		others.measure(t, "others")
	})
	t.Run("delete-links", func(t *testing.T) {
		if got := inside.task(s.id("a"), "delete-links"); got != "done" {
			t.Fatalf("it cannot be tried: %s", got)
		}
		others.measure(t, "others")
		// The node has its links again after a restart.
		b.set(t, s.id("a"), provider.Resource{"restart_serial": "1"})
		b.await(t, s.id("a"), provider.StateReady)
		s.measure(t, "its own after a restart")
	})
}
