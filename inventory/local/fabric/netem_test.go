package fabric

import (
	"math"
	"testing"
	"time"

	"patchbay/testdata/need"
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
		if got := roundTrip(t, nodes[0], address(1), to, 10); got < want || got > want+want/20+10*ms {
			t.Errorf("there and back takes %v, want %v", got, want)
		}
	}
	if got := rate(t, nodes[0], address(1), nodes[1], address(2), 500*ms, ms); got < 8 || got > 10.7 {
		t.Errorf("10 Mbit/s let %.2f through", got)
	}
}

func TestNetemLosesSinglePackets(t *testing.T) {
	h := withNetem(t)
	l := lan("s1", 2, Shape{To: []string{b}, Loss: 0.1})
	nodes := build(t, h, l)
	const packets = 8000
	got, alone := lost(t, nodes[0], address(1), nodes[1], address(2), packets, 32)
	if far := 5 * math.Sqrt(0.09/packets); math.Abs(got-0.1) > far || alone < 150 {
		t.Errorf("%.4f of the packets are lost, want 0.1 ± %.4f; in %d pieces some were lost", got, far, alone)
	}
	if c := counters(t, h)[b]; c.Dropped < packets/20 {
		t.Errorf("Counters: %+v", c)
	}
}
