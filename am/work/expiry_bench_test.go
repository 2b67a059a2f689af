package work

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// BenchmarkLeasesEnd measures from the moment at which leases are over until all are
// ended, of a few and of very many: what was reserved goes, what was provisioned gets
// a task to be removed, which the runner sets about meanwhile. One event of each is
// posted. Beside it somebody makes changes all the time: wait-ms is the longest that
// one took. cpu-ms is what the processors had to do in all, which tells more than the
// time where they have other work, too.
func BenchmarkLeasesEnd(b *testing.B) {
	for _, status := range []am.Status{allocated, ready} {
		for _, c := range []struct{ slivers, slices int }{{10, 10}, {10_000, 1}, {10_000, 100}, {10_000, 10_000}} {
			b.Run(fmt.Sprintf("%s/slivers=%d/slices=%d", status.Allocation, c.slivers, c.slices), func(b *testing.B) {
				var ended, longest, worked time.Duration
				for range b.N {
					took, wait, cpu := endLeases(b, status, c.slivers, c.slices)
					ended, longest, worked = ended+took, max(longest, wait), worked+cpu
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(ended.Microseconds())/float64(b.N)/1000, "ms-to-last")
				b.ReportMetric(float64(ended.Microseconds())/float64(b.N*c.slivers), "µs/lease")
				b.ReportMetric(float64(worked.Microseconds())/float64(b.N)/1000, "cpu-ms")
				b.ReportMetric(float64(longest.Microseconds())/1000, "wait-ms")
			})
		}
	}
}

// endLeases has as many leases end at once, and tells when the last one had, and how
// long a change of somebody else took at most.
func endLeases(b *testing.B, status am.Status, slivers, slices int) (took, longest, worked time.Duration) {
	e := newEnv(b, 2)
	e.st.Close()
	var ahead atomic.Int64
	e.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	e.outbox = eachThatWas
	e.open()
	var names []string
	for i := range slivers {
		names = append(names, fmt.Sprintf("s%d-%d", i%slices, i))
	}
	for len(names) > 0 {
		some := names[:min(len(names), 500)]
		names = names[len(some):]
		e.allocate(some...)
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			for _, n := range some {
				s, _, err := v.Sliver(sliverURN(n))
				if err != nil {
					return cs, err
				}
				s.Status, s.Desired.Present, s.Desired.On = status, status == ready, status == ready
				s.ComponentName, s.Provider = s.Component.Name, "double" // or the start would fill them in
				cs.PutSliver(s)
			}
			return cs, nil
		})
	}
	e.start()
	for before := time.Duration(-1); processor()-before > 5*time.Millisecond; { // what is read at a start
		before = processor()
		time.Sleep(100 * time.Millisecond)
	}
	runtime.GC()
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			began := time.Now()
			err := e.st.Commit(context.Background(), func(*store.View) (cs store.ChangeSet, err error) {
				cs.PutDocument(am.Document{ID: "other", Slice: sliceURN("other"), Text: make([]byte, 800)})
				return cs, nil
			})
			if err != nil {
				b.Error(err)
			}
			longest = max(longest, time.Since(began))
			time.Sleep(time.Millisecond)
		}
	})
	worked = -processor()
	began := time.Now()
	ahead.Store(int64(25 * time.Hour))
	e.r.Wake()
	for left := 1; left > 0; {
		time.Sleep(time.Millisecond)
		err := e.st.Read(func(v *store.View) error {
			due, _, err := v.Due(1)
			left = len(due)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	took = time.Since(began)
	worked += processor()
	close(over)
	others.Wait()
	e.stop()
	e.st.Close()
	return took, longest, worked
}

// eachThatWas posts a message of each sliver that was there before.
func eachThatWas(c store.Change) (posted []store.Message) {
	for _, x := range c.Slivers {
		if x.Before != nil {
			text, _ := json.Marshal(x.Before.URN)
			posted = append(posted, store.Message{At: c.At, Slice: x.Before.Slice, To: []string{"h"}, Text: text})
		}
	}
	return posted
}

// processor is what this process has had of the processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
