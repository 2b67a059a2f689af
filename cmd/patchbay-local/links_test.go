package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

// testLinks are links of all kinds, for what makes them: all properties alone
// and together, each direction alone, and of a LAN.
func testLinks() []testLink {
	same := func(name string, a linkProperties) testLink { return between(name, a, a) }
	oneWay := func(name string, a linkProperties) testLink { return between(name, a, linkProperties{}) }
	ten := linkProperties{capacity: 10e3}
	return []testLink{
		same("1 Mbit", linkProperties{capacity: 1e3}), same("10 Mbit", ten),
		same("100 Mbit", linkProperties{capacity: 100e3}), same("1000 Mbit", linkProperties{capacity: 1000e3}),
		oneWay("10 Mbit there", ten),
		between("10 there, 100 back", ten, linkProperties{capacity: 100e3}),
		same("1 %", linkProperties{loss: 1}), same("5 %", linkProperties{loss: 5}), same("10 %", linkProperties{loss: 10}),
		oneWay("10 % there", linkProperties{loss: 10}),
		same("10 Mbit, 5 %", linkProperties{capacity: 10e3, loss: 5}),
		{"LAN of 10 Mbit", "abc", map[pair]linkProperties{"ab": ten, "ac": ten, "ba": ten, "bc": ten, "ca": ten, "cb": ten}},
		same("1 ms", linkProperties{latency: 1}), same("10 ms", linkProperties{latency: 10}), same("100 ms", linkProperties{latency: 100}),
		oneWay("10 ms there", linkProperties{latency: 10}),
		same("10 Mbit, 10 ms", linkProperties{capacity: 10e3, latency: 10}),
		between("all, each way its own", linkProperties{10e3, 20, 1}, linkProperties{20e3, 5, 5}),
		testLink{"LAN of pairs", "abc", map[pair]linkProperties{
			"ab": {capacity: 10e3}, "ba": {capacity: 10e3}, "ac": {latency: 10}, "ca": {latency: 20}, "bc": {loss: 5}, "cb": {latency: 5, loss: 10},
		}},
	}
}

// TestLinksHaveRequestedProperties sends real traffic between real nodes, over links made by
// each of the means that this host has.
func TestLinksHaveRequestedProperties(t *testing.T) {
	require.Root(t)
	require.TUN(t)
	emulators := []string{"auto", "vswitch"}
	// One value of each property; by the vswitch what is made otherwise there.
	drop := map[string][]string{"auto": {"1 Mbit", "100 Mbit", "1 %", "10 %", "1 ms", "100 ms"}}
	drop["vswitch"] = append([]string{"10 Mbit", "5 %", "1000 Mbit", "10 Mbit there", "10 there, 100 back", "10 ms there", "10 Mbit, 10 ms", "LAN of pairs"}, drop["auto"]...)
	sites := make(map[string]*linkSite)
	for _, emulator := range emulators {
		all := slices.DeleteFunc(testLinks(), func(l testLink) bool { return slices.Contains(drop[emulator], l.name) })
		sites[emulator] = newTestSite(t, "links-"+emulator[:2], "emulator: "+emulator).join(t, "shaped", 0, all)
	}
	// What waits for the clock does so together.
	results := make(map[string]chan []measured)
	for _, emulator := range emulators {
		results[emulator] = make(chan []measured, 1)
		go func() { results[emulator] <- sites[emulator].measure(t, emulator, roughly) }()
	}
	var rows []measured
	for _, emulator := range emulators {
		rows = append(rows, <-results[emulator]...)
	}
	for _, r := range rows {
		if !r.good {
			t.Errorf("%s, %s, %s, %s: asked for %s, measured %s", r.emulator, r.link, r.pair, r.what, r.asked, r.got)
		}
	}
	var b bytes.Buffer
	printMeasured(&b, rows)
	t.Logf("links:\n%s", &b)
}

// linktestIsInNodes: everybody in a node has the program that measures, by its name.
func linktestIsInNodes(t *testing.T, a *arena) {
	j, err := a.startIn(t.Context(), nodeA, []string{linktestInside, "serve", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.process.Close() })
	r, err := a.linktestAt(t.Context(), nodeA, "127.0.0.1", "--time", "200ms")
	if err != nil || r.TCP.Out.Line < 1e6 || r.Delay.Out == nil || r.UDP.Out.Received == 0 || r.Bursts.In.Received == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := a.ssh(t, nodeA, "patchbay-linktest localhost --only delay --time 200ms"); err != nil || !strings.Contains(out, "there and back") {
		t.Errorf("by the name, from a login: %q, %v", out, err)
	}
}
