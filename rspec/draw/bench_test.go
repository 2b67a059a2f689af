package draw

import (
	"fmt"
	"io"
	"testing"
)

// BenchmarkSVG draws networks of LANs joined in a ring, and advertisements.
func BenchmarkSVG(b *testing.B) {
	for _, n := range []int{10, 60, 300} {
		w := network(n, 2)
		for i := 0; i < n; i += 10 {
			w.link(upTo(n)[i:min(i+10, n)]...)
			w.link(i, (i+10)%n)
		}
		run(b, fmt.Sprintf("request/%d", n), &w.p)
	}
	for _, n := range []int{60, 300} {
		w := network(n, 1)
		for i := range n * 3 / 2 {
			w.link(i%n, (i*i*7+i*3+1)%n)
		}
		run(b, fmt.Sprintf("tangle/%d", n), &w.p)
	}
	w := network(400, 1) // as much as is drawn
	for i := range 4000 {
		w.link(i%400, (i+1+(i/400*37+i%400*i%400*7)%398)%400)
	}
	run(b, "tangle/most", &w.p)
	w = network(300, 1)
	w.link(upTo(300)...)
	for i := range 300 {
		w.link(i, (i+1)%300)
	}
	run(b, "lan and ring/300", &w.p)
	w = network(1000, 1)
	w.p.Kind = Advertisement
	for i := 1; i < 1000; i++ {
		w.link(0, i)
	}
	run(b, "advertisement/1000", &w.p)
}

func run(b *testing.B, name string, p *Picture) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			if err := SVG(io.Discard, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
