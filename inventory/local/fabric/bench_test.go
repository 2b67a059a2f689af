package fabric

import (
	"context"
	"fmt"
	"testing"
	"time"

	"patchbay/testdata/need"
)

// BenchmarkPorts makes LANs, with the namespaces of their nodes already there.
func BenchmarkPorts(b *testing.B) {
	for _, c := range []struct {
		name   string
		n      int
		shapes []Shape
	}{
		{"2", 2, nil},
		{"300", 300, nil},
		{"300Shaped", 300, []Shape{{Rate: 100_000}}},
		{"300Relayed", 300, []Shape{{Rate: 100_000, Delay: time.Millisecond, Loss: 0.01}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := open(b, Auto)
			if err := h.Check(lan("s0", c.n, c.shapes...)); err != nil {
				b.Skip(err)
			}
			var nodes []*node
			for range c.n {
				nodes = append(nodes, newNode(b))
			}
			ctx := context.Background()
			var making, dropping, again time.Duration
			b.ResetTimer()
			for i := range b.N {
				l := lan(fmt.Sprintf("s%d", i), c.n, c.shapes...)
				start := time.Now()
				put(b, h, l)
				plug(b, h, l, nodes)
				making += time.Since(start)
				start = time.Now()
				put(b, h, l)
				plug(b, h, l, nodes)
				again += time.Since(start)
				start = time.Now()
				if _, err := h.Counters(ctx, l.Slice); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/counters")
				start = time.Now()
				if err := h.Drop(ctx, l.Slice); err != nil {
					b.Fatal(err)
				}
				dropping += time.Since(start)
			}
			ports := float64(b.N * c.n)
			b.ReportMetric(float64(making.Microseconds())/1000/ports, "ms/port")
			b.ReportMetric(making.Seconds()/float64(b.N), "s/link")
			b.ReportMetric(float64(again.Microseconds())/1000/float64(b.N), "ms/again")
			b.ReportMetric(float64(dropping.Microseconds())/1000/float64(b.N), "ms/drop")
		})
	}
}

func BenchmarkTry(b *testing.B) {
	need.NetNS(b)
	for b.Loop() {
		if _, err := Try(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCapacity tells what gets through of what was asked, in per cent.
func BenchmarkCapacity(b *testing.B) {
	for _, mbit := range []int64{1, 10, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("%dMbit", mbit), func(b *testing.B) {
			h := open(b, Auto)
			nodes := build(b, h, lan("s1", 2, Shape{Rate: mbit * 1000}))
			for range b.N {
				got := rate(b, nodes[0], address(1), nodes[1], address(2), 2*time.Second, 0)
				b.ReportMetric(got/float64(mbit)*100, "%")
			}
		})
	}
}
