package fabric

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestCapacityHolds(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2, Shape{To: []string{"node2/0"}, Rate: 1000})
	nodes := build(t, h, l)
	for _, mbit := range []int64{1, 10, 100, 1000} {
		l.Shapes[0].Rate = mbit * 1000
		if got := put(t, h, l); got != "bridge+tbf" {
			t.Fatalf("the means are %s", got)
		}
		// A busy processor takes some away, but never gives some.
		best := 0.0
		for range 3 {
			got := rate(t, nodes[0], address(1), nodes[1], address(2), 500*time.Millisecond, 0)
			if got > float64(mbit)*1.05 {
				t.Errorf("%d Mbit/s lets %.2f through", mbit, got)
			}
			if best = max(best, got); best > float64(mbit)*0.95 {
				break
			}
		}
		t.Logf("%d Mbit/s: %.3f", mbit, best)
		// With more the sender is held back before the queue is full.
		if c := counters(t, h); mbit == 1 && (c["node2/0"].Dropped == 0 || c["node2/0"].RxBytes < 80_000 || c["node1/0"].TxBytes < 1<<20) {
			t.Errorf("Counters: %+v", c)
		}
		if best < float64(mbit)*0.9 {
			t.Errorf("%d Mbit/s lets only %.2f through", mbit, best)
		}
	}
	// The other direction was not asked to be slow.
	if got := stream(t, nodes[1], address(2), nodes[0], address(1), 20<<20); got < 20 {
		t.Errorf("without a capacity TCP has only %.1f Mbit/s", got)
	}
	l.Shapes = nil
	if got := put(t, h, l); got != "bridge" {
		t.Errorf("without properties the means are %s", got)
	}
	if got := stream(t, nodes[0], address(1), nodes[1], address(2), 200<<20); got < 1100 {
		t.Errorf("after the capacity was taken back TCP has only %.1f Mbit/s", got)
	}
}

func TestLossIsPerPacket(t *testing.T) {
	h := open(t, NFTables)
	if !h.able.NFTables {
		t.Fatalf("nftables: %s", h.able.Why["nftables"])
	}
	l := lan("s1", 2, Shape{To: []string{"node2/0"}, Loss: 0.1})
	nodes := build(t, h, l)
	for _, c := range []struct {
		loss float64
		many int
	}{{0.01, 1}, {0.1, 1}, {0.1, 32}, {1, 1}} {
		t.Run(fmt.Sprintf("%v/%d", c.loss, c.many), func(t *testing.T) {
			l.Shapes[0].Loss = c.loss
			if got := put(t, h, l); got != "bridge+nftables" {
				t.Fatalf("the means are %s", got)
			}
			const packets = 10000
			got, alone := lost(t, nodes[0], address(1), nodes[1], address(2), packets, c.many)
			// Five times what chance makes differ.
			if far := 5 * math.Sqrt(c.loss*(1-c.loss)/packets); math.Abs(got-c.loss) > far {
				t.Errorf("%.4f of the packets are lost, want %v ± %.4f", got, c.loss, far)
			}
			if c.many > 1 && alone < 200 { // of 313, of which chance spares about ten
				t.Errorf("packets that were sent together are lost together: only in %d pieces some were lost", alone)
			}
			t.Logf("lost %.4f, %d pieces in part", got, alone)
		})
	}
	l.Shapes[0].Loss = 0.02
	put(t, h, l)
	before := counters(t, h)["node2/0"].Dropped
	t.Logf("TCP with 2 %% loss: %.1f Mbit/s", stream(t, nodes[0], address(1), nodes[1], address(2), 8<<20))
	c := counters(t, h)["node2/0"]
	// Each full packet is one draw: were it one for each 64 KiB, far fewer were lost.
	if packets := 8 << 20 / 1448; c.Dropped-before < uint64(packets)/100 {
		t.Errorf("of about %d packets of TCP only %d were lost", packets, c.Dropped-before)
	}
	l.Shapes = nil
	put(t, h, l)
	if got, _ := lost(t, nodes[0], address(1), nodes[1], address(2), 4000, 1); got != 0 {
		t.Errorf("without loss %.4f are lost", got)
	}
}

func counters(t testing.TB, h *Host) map[string]Counters {
	t.Helper()
	c, err := h.Counters(context.Background(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
