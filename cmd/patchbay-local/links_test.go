package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// drawnLinks are links of all kinds, for what makes them: all properties alone
// and together, each direction alone, and of a LAN.
func drawnLinks() []drawn {
	same := func(name string, a asked) drawn { return between(name, a, a) }
	oneWay := func(name string, a asked) drawn { return between(name, a, asked{}) }
	ten := asked{capacity: 10e3}
	return []drawn{
		same("1 Mbit", asked{capacity: 1e3}), same("10 Mbit", ten),
		same("100 Mbit", asked{capacity: 100e3}), same("1000 Mbit", asked{capacity: 1000e3}),
		oneWay("10 Mbit there", ten),
		between("10 there, 100 back", ten, asked{capacity: 100e3}),
		same("1 %", asked{loss: 1}), same("5 %", asked{loss: 5}), same("10 %", asked{loss: 10}),
		oneWay("10 % there", asked{loss: 10}),
		same("10 Mbit, 5 %", asked{capacity: 10e3, loss: 5}),
		{"LAN of 10 Mbit", "abc", map[pair]asked{"ab": ten, "ac": ten, "ba": ten, "bc": ten, "ca": ten, "cb": ten}},
		same("1 ms", asked{latency: 1}), same("10 ms", asked{latency: 10}), same("100 ms", asked{latency: 100}),
		oneWay("10 ms there", asked{latency: 10}),
		same("10 Mbit, 10 ms", asked{capacity: 10e3, latency: 10}),
		between("all, each way its own", asked{10e3, 20, 1}, asked{20e3, 5, 5}),
		drawn{"LAN of pairs", "abc", map[pair]asked{
			"ab": {capacity: 10e3}, "ba": {capacity: 10e3}, "ac": {latency: 10}, "ca": {latency: 20}, "bc": {loss: 5}, "cb": {latency: 5, loss: 10},
		}},
	}
}

// TestLinksAreAsAsked sends real traffic between real nodes, over links made by
// each of the means that this host has. BenchmarkLinks measures the same, and is
// strict.
func TestLinksAreAsAsked(t *testing.T) {
	require.Root(t)
	require.TUN(t)
	emulators := []string{"auto", "vswitch"}
	// One value of each property; by the vswitch what is made otherwise there.
	drop := map[string][]string{"auto": {"1 Mbit", "100 Mbit", "1 %", "10 %", "1 ms", "100 ms"}}
	drop["vswitch"] = append([]string{"10 Mbit", "5 %", "1000 Mbit", "10 Mbit there", "10 there, 100 back", "10 ms there", "10 Mbit, 10 ms", "LAN of pairs"}, drop["auto"]...)
	sites := make(map[string]*linkSite)
	for _, emulator := range emulators {
		all := slices.DeleteFunc(drawnLinks(), func(l drawn) bool { return slices.Contains(drop[emulator], l.name) })
		sites[emulator] = newBed(t, "links-"+emulator[:2], "emulator: "+emulator).join(t, "shaped", 0, all)
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

// What no means can do is refused before anything is reserved, by name.
func TestImpossibleLatencyIsRefused(t *testing.T) {
	require.Root(t)
	b := newBed(t, "links-no")
	s := b.draw("refused", 0, []drawn{between("slow", asked{latency: 61_000}, asked{})})
	for _, dry := range []bool{true, false} {
		changes, err := b.provider.Set(t.Context(), s.updates(), dry)
		if err != nil || len(changes) != 2 {
			t.Fatalf("set: %v, %v", changes, err)
		}
		refused := 0
		for _, c := range changes {
			if c.Err != nil {
				refused++
				if !strings.Contains(c.Err.Error(), "latency") || !strings.Contains(c.Err.Error(), "slow") {
					t.Errorf("refused with %q, which names neither the property nor the link", c.Err)
				}
			}
		}
		if refused == 0 {
			t.Errorf("dry run %v: latency was promised where nothing can make it: %v", dry, changes)
		}
	}
	for _, letter := range s.letters() {
		if r := look(t, b.provider, s.id(letter)); !provider.Gone(r) {
			s.remove(t, s.id(letter))
		}
	}
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
