package fabric

import (
	"context"
	"fmt"
	"testing"
	"time"
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
	} {
		b.Run(c.name, func(b *testing.B) {
			h := open(b, Auto)
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
