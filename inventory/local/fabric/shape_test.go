package fabric

import (
	"context"
	"testing"
)

func TestCapacityHolds(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2, Shape{To: []string{"node2/0"}, Rate: 1000})
	nodes := build(t, h, l)
	for _, mbit := range []int64{1000, 100, 10, 1} {
		l.Shapes[0].Rate = mbit * 1000
		if got := put(t, h, l); got != "bridge+tbf" {
			t.Fatalf("the means are %s", got)
		}
		least := 0.9
		if mbit == 1000 {
			least = 0.2 // how near it comes is for benchmarks
		}
		flows(t, nodes[0], address(1), nodes[1], address(2), float64(mbit), least, 1.05, 0)
	}
	// With a higher capacity the sender is held back before the queue is full.
	if c := counters(t, h); c["node2/0"].Dropped == 0 || c["node2/0"].RxBytes < 40_000 || c["node1/0"].TxBytes < 1<<20 {
		t.Errorf("Counters: %+v", c)
	}
	// The other direction was not asked to be slow.
	if got := stream(t, nodes[1], address(2), nodes[0], address(1), 4<<20); got < 5 {
		t.Errorf("without a capacity TCP has only %.1f Mbit/s", got)
	}
	l.Shapes = nil
	if got := put(t, h, l); got != "bridge" {
		t.Errorf("without properties the means are %s", got)
	}
	if got := stream(t, nodes[0], address(1), nodes[1], address(2), 4<<20); got < 5 {
		t.Errorf("after the capacity was taken back TCP has only %.1f Mbit/s", got)
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
