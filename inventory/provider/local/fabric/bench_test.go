package fabric

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkRemoveRing removes the links of a shaped ring, one by one and all together.
func BenchmarkRemoveRing(b *testing.B) {
	const nodes = 100
	for _, together := range []bool{false, true} {
		b.Run(fmt.Sprint("Together=", together), func(b *testing.B) {
			h := open(b, Auto)
			for b.Loop() {
				b.StopTimer()
				var names []string
				for i := range nodes {
					l := lan("s1", 2, Shape{Rate: 10_000, Delay: time.Millisecond})
					l.Name = fmt.Sprint("l", i)
					for j := range l.Ends {
						l.Ends[j].ID = fmt.Sprint("e", i, "-", j)
					}
					setLink(b, h, l)
					names = append(names, l.Name)
				}
				b.StartTimer()
				if together {
					must(b, h.RemoveLinks(context.Background(), "s1", names...))
					continue
				}
				for _, name := range names {
					must(b, h.RemoveLinks(context.Background(), "s1", name))
				}
			}
		})
	}
}
