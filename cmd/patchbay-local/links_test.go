package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
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

// TestLinktest measures a link between nodes with the command, as operators do.
func TestLinktest(t *testing.T) {
	require.Root(t)
	require.Tool(t, "ping")
	require.Tool(t, "iperf3")
	b := newTestSite(t, "links-verb")
	b.join(t, "measured", 0, []testLink{
		between("lan", linkProperties{capacity: 10e3, latency: 5}, linkProperties{capacity: 20e3, latency: 5}),
		{name: "other", nodes: "bc"},
	})
	run := func(args ...string) (string, error) {
		out, err := exec.Command(binary(), append([]string{"linktest"}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := run("--time", "1s", "--json", b.settings, "a", "b")
	var results []linkResult
	if err != nil || json.Unmarshal([]byte(out), &results) != nil || len(results) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	r := results[0]
	if near := func(got, want float64) bool { return got > want/2 && got < want*1.5 }; r.Link != "lan" || !near(r.TCP.Out.Line, 10e6) || !near(r.TCP.In.Line, 20e6) ||
		r.TCP.Out.Goodput >= r.TCP.Out.Line || r.Delay.Least < 10 || r.Delay.Mean > 30 || r.Delay.Answered < 90 {
		t.Errorf("measured are %s", out)
	}
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"NoLink", "share no link with an address", []string{b.settings, "a", "c"}},
		{"OneNode", "share no link with an address", []string{b.settings, "a", "a"}},
		{"NoNode", "there is no node nope", []string{b.settings, "a", "nope"}},
		{"Time", "--time is not between 1s and 1m0s", []string{"--time", "0s", b.settings, "a", "b"}},
	} {
		if out, err := run(tt.args...); err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v: %s", tt.name, err, out)
		}
	}
}
