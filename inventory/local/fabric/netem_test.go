package fabric

import (
	"testing"
	"time"

	"patchbay/am/testkit/need"
)

// withNetem is a Host on a kernel that has netem.
func withNetem(t *testing.T) *Host {
	t.Helper()
	h := open(t, Netem)
	if !h.able.Netem {
		if need.Required("netem") {
			t.Fatalf("required by PATCHBAY_REQUIRE: %s", h.able.Why["netem"])
		}
		t.Skip(h.able.Why["netem"])
	}
	return h
}

func TestNetemDelays(t *testing.T) {
	h := withNetem(t)
	const ms = time.Millisecond
	l := lan("s1", 2, Shape{To: []string{a}, Delay: 20 * ms})
	nodes := build(t, h, l)
	to := echo(nodes[1], address(2))
	for _, back := range []time.Duration{0, 10 * ms, 100 * ms} {
		l.Shapes = []Shape{{To: []string{a}, Delay: 20 * ms}, {To: []string{b}, Delay: back, Rate: 10_000}}
		if got := put(t, h, l); got != "bridge+tbf+netem" {
			t.Errorf("the means are %s", got)
		}
		want := 20*ms + back
		takes(t, nodes[0], address(1), to, want, want/20+10*ms)
	}
	flows(t, nodes[0], address(1), nodes[1], address(2), 10, 0.8, 1.07, ms)
}

func TestNetemLosesSinglePackets(t *testing.T) {
	h := withNetem(t)
	l := lan("s1", 2, Shape{To: []string{b}, Loss: 0.1})
	nodes := build(t, h, l)
	const packets = 8000
	loses(t, nodes[0], address(1), nodes[1], address(2), 0.1, packets, 32, 150)
	if c := counters(t, h)[b]; c.Dropped < packets/20 {
		t.Errorf("Counters: %+v", c)
	}
}
