package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

// TestLinks sends traffic between real nodes, over links made by each of the means that this
// host has. The packages fabric and vswitch test each property with each of the means.
func TestLinks(t *testing.T) {
	require.Root(t)
	require.TUN(t)
	ten := linkProperties{capacity: 10e3}
	all := between("all, each way its own", linkProperties{10e3, 20, 1}, linkProperties{20e3, 5, 5})
	t.Run("VSwitch", func(t *testing.T) {
		newTestSite(t, "links-vs", "emulator: vswitch").join(t, "shaped", 0, []testLink{
			all, {"LAN of 10 Mbit", "abc", map[pair]linkProperties{"ab": ten, "ac": ten, "ba": ten, "bc": ten, "ca": ten, "cb": ten}},
		}).measure(t, "vswitch")
	})
	b := newTestSite(t, "links-t")
	t.Run("Properties", func(t *testing.T) {
		b.join(t, "shaped", 0, []testLink{
			all, between("10 Mbit there", ten, linkProperties{}), between("10 there, 100 back", ten, linkProperties{capacity: 100e3}),
			between("1000 Mbit", linkProperties{capacity: 1000e3}, linkProperties{capacity: 1000e3}),
			between("10 ms there", linkProperties{latency: 10}, linkProperties{}), between("5 %", linkProperties{loss: 5}, linkProperties{loss: 5}),
			{"LAN of pairs", "abc", map[pair]linkProperties{
				"ab": {capacity: 10e3}, "ba": {capacity: 10e3}, "ac": {latency: 10}, "ca": {latency: 20}, "bc": {loss: 5}, "cb": {latency: 5, loss: 10},
			}},
		}).measure(t, "auto")
	})
	t.Run("Linktest", func(t *testing.T) { linktestMeasures(t, b) })
	t.Run("Hostile", func(t *testing.T) { nodesCannotChangeLinks(t, b) })
}

// linktestMeasures measures a link between nodes with the command, as operators do.
func linktestMeasures(t *testing.T, b *testSite) {
	require.Tool(t, "ping")
	require.Tool(t, "iperf3")
	// The names are unique on this testbed.
	b.join(t, "measured", 20, []testLink{
		{"lan", "xy", map[pair]linkProperties{"xy": {capacity: 10e3, latency: 5}, "yx": {capacity: 20e3, latency: 5}}}, {name: "other", nodes: "yz"},
	})
	run := func(args ...string) (string, error) {
		out, err := exec.Command(binary(), append([]string{"linktest"}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := run("--time", "1s", "--json", b.settings, "x", "y")
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
		{"NoLink", "share no link with an address", []string{b.settings, "x", "z"}},
		{"OneNode", "FROM and TO are the same node", []string{b.settings, "x", "x"}},
		{"NoNode", "there is no node nope", []string{b.settings, "x", "nope"}},
		{"Time", "--time is not between 1s and 1m0s", []string{"--time", "0s", b.settings, "x", "y"}},
	} {
		if out, err := run(tt.args...); err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v: %s", tt.name, err, out)
		}
	}
}
