package fabric

import (
	"context"
	"fmt"
	"testing"
	"time"

	"patchbay/am/testkit/need"
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
				other := beside(b)
				start = time.Now()
				if err := h.Drop(ctx, l.Slice); err != nil {
					b.Fatal(err)
				}
				dropping += time.Since(start)
				b.ReportMetric(float64(other().Microseconds())/1000, "ms/beside")
			}
			ports := float64(b.N * c.n)
			b.ReportMetric(float64(making.Microseconds())/1000/ports, "ms/port")
			b.ReportMetric(making.Seconds()/float64(b.N), "s/link")
			b.ReportMetric(float64(again.Microseconds())/1000/float64(b.N), "ms/again")
			b.ReportMetric(float64(dropping.Microseconds())/1000/float64(b.N), "ms/drop")
		})
	}
}

// beside makes device after device in a namespace that has nothing to do with the
// fabric, and tells the longest that one took.
func beside(b *testing.B) func() time.Duration {
	n, err := newNetwork(newNamespace(b))
	if err != nil {
		b.Fatal(err)
	}
	stop, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		defer n.close()
		var longest time.Duration
		for i := 0; ; i++ {
			start := time.Now()
			if err := n.pair(fmt.Sprintf("v%d", 2*i), fmt.Sprintf("v%d", 2*i+1), usualMTU); err != nil {
				b.Error(err)
			}
			longest = max(longest, time.Since(start))
			select {
			case <-stop:
				most <- longest
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() time.Duration { close(stop); return <-most }
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
