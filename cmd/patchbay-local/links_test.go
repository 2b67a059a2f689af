package main

import (
	"encoding/json"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

// TestLinks measures links between real nodes with linktest, over links made by each of the means
// that this host has. The packages fabric and vswitch test each property with each of the means.
func TestLinks(t *testing.T) {
	require.Root(t)
	require.TUN(t)
	require.Tool(t, "ping")
	require.Tool(t, "iperf3")
	t.Run("VSwitch", func(t *testing.T) { linktestMeasures(t, newTestSite(t, "links-vs", "emulator: vswitch")) })
	b := newTestSite(t, "links-t")
	t.Run("Linktest", func(t *testing.T) { linktestMeasures(t, b) })
	t.Run("Hostile", func(t *testing.T) { nodesCannotChangeLinks(t, b) })
}

// linktestMeasures measures a link between nodes with the command, as operators do.
func linktestMeasures(t *testing.T, b *testSite) {
	// The names are unique on this testbed.
	b.join(t, "measured", 20, []testLink{
		{"lan", "xy", map[pair]linkProperties{"xy": {capacity: 10e3, latency: 5}, "yx": {capacity: 20e3, latency: 5}}}, {name: "other", nodes: "yz"},
	}).measure(t, "the link")
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"NoLink", "share no link with an address", []string{b.settings, "x", "z"}},
		{"OneNode", "FROM and TO are the same node", []string{b.settings, "x", "x"}},
		{"NoNode", "there is no node nope", []string{b.settings, "x", "nope"}},
		{"Time", "--time is not between 1s and 1m0s", []string{"--time", "0s", b.settings, "x", "y"}},
	} {
		if out, err := runLinktest(tt.args...); err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v: %s", tt.name, err, out)
		}
	}
}

// runLinktest runs the command linktest.
func runLinktest(args ...string) (string, error) {
	out, err := exec.Command(binary(), append([]string{"linktest"}, args...)...).CombinedOutput()
	return string(out), err
}

// measure measures the links between the first two nodes of the first link. It checks that the
// capacity and the latency of each are as requested.
func (s *linkSite) measure(t testing.TB, whose string) {
	t.Helper()
	from, to := s.links[0].nodes[:1], s.links[0].nodes[1:2]
	near := func(got, want float64) bool { return want == 0 || math.Abs(got-want) < want/2 }
	var out string
	for range 3 { // a busy host disturbs now and then
		var err error
		out, err = runLinktest("--time", "1s", "--json", s.settings, s.id(from), s.id(to))
		var results []linkResult
		good := err == nil && json.Unmarshal([]byte(out), &results) == nil && len(results) > 0
		for _, r := range results {
			l := s.links[slices.IndexFunc(s.links, func(l testLink) bool { return l.name == r.Link })]
			there, back := l.asked[pair(from+to)], l.asked[pair(to+from)]
			good = good && near(r.TCP.Out.Line, 1000*float64(there.capacity)) && near(r.TCP.In.Line, 1000*float64(back.capacity)) && r.TCP.Out.Goodput < r.TCP.Out.Line &&
				r.Delay.Least >= there.latency+back.latency && r.Delay.Mean < 20+there.latency+back.latency && r.Delay.Answered > 90
		}
		if good {
			return
		}
	}
	t.Errorf("%s: the links do not have the requested properties: %s", whose, out)
}
