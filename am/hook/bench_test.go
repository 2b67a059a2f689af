package hook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// BenchmarkAllocateDelete is what hooks cost those who call: pairs of changes as
// Allocate and Delete of one node make them, from eight callers at a time, without
// hooks, with one that takes all at once, and with one that hangs. p99 is of one change;
// cpu-µs is what each change had of the processors, deliveries included, which tells
// more than the time where they have other work, too.
func BenchmarkAllocateDelete(b *testing.B) {
	takes := func(context.Context, string, Event) error { return nil }
	hangs := func(ctx context.Context, _ string, _ Event) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name  string
		hooks []Hook
		take  func(context.Context, string, Event) error
	}{
		{"none", nil, nil},
		{"takes", []Hook{{Name: "h"}}, takes},
		{"hangs", []Hook{{Name: "h"}}, hangs},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newBench(b, c.hooks...)
			s.limits, s.take = Limits{Grace: time.Millisecond}, c.take
			s.start()
			var n atomic.Int64
			var mu sync.Mutex
			var took []time.Duration
			// A file that has to grow is slower for all.
			for i := range 400 {
				id := fmt.Sprint("ballast", i)
				s.commit(func(*store.View) (cs store.ChangeSet, err error) {
					cs.PutDocument(am.Document{ID: id, Text: make([]byte, 64<<10)})
					return cs, nil
				})
			}
			s.commit(func(*store.View) (cs store.ChangeSet, err error) {
				for i := range 400 {
					cs.Remove(store.DocumentKey(fmt.Sprint("ballast", i)))
				}
				return cs, nil
			})
			commit := func(d store.Decision) {
				began := time.Now()
				if err := s.store.Commit(context.Background(), d); err != nil {
					b.Error(err)
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
			worked := processor()
			b.ResetTimer()
			var callers sync.WaitGroup
			for caller := range 8 {
				callers.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						x := reserved(fmt.Sprint("s", caller), fmt.Sprint("n", i))
						slice := am.Slice{URN: x.Slice}
						commit(func(*store.View) (cs store.ChangeSet, err error) {
							cs.PutSlice(slice)
							cs.PutSliver(x)
							cs.PutDocument(am.Document{ID: x.ClientID, Slice: x.Slice, Text: make([]byte, 800)})
							cs.Log(am.JournalEntry{Event: "Allocate", Slice: x.Slice, Slivers: []urn.URN{x.URN}})
							return cs, nil
						})
						commit(func(*store.View) (cs store.ChangeSet, err error) {
							cs.Remove(store.SliverKey(x.URN), store.DocumentKey(x.ClientID))
							cs.Log(am.JournalEntry{Event: "Delete", Slice: x.Slice, Slivers: []urn.URN{x.URN}})
							return cs, nil
						})
					}
				})
			}
			callers.Wait()
			b.StopTimer()
			worked = processor() - worked
			slices.Sort(took)
			b.ReportMetric(float64(worked.Microseconds())/float64(len(took)), "cpu-µs/change")
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "changes/s")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			s.halt()
		})
	}
}

// processor is what this process has had of the processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
