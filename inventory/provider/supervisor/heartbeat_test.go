package supervisor

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A process is reported once when it hangs, and once when it answers again.
func TestHeartbeatReportsHangAndRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Heartbeat{Every: time.Second, Limit: 8}
		var mu sync.Mutex
		var reports []bool
		reported := func() []bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(reports)
		}
		var hangs atomic.Pointer[chan struct{}]
		var pings atomic.Int64
		ping := func() {
			pings.Add(1)
			if until := hangs.Load(); until != nil {
				<-*until
			}
		}
		stop := make(chan struct{})
		go h.Watch(stop, ping, func(b bool) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, b)
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := pings.Load(); n < 20 || len(reported()) > 0 {
			t.Errorf("%d pings, reports %v of a process that answers", n, reported())
		}
		goOn := make(chan struct{})
		hangs.Store(&goOn)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(reported(), []bool{true}) {
			t.Errorf("ten seconds after it began to hang: %v", reported())
		}
		was := pings.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if more := pings.Load() - was; len(reported()) != 1 || more != 0 {
			t.Errorf("an hour later: %v, %d more pings", reported(), more)
		}
		hangs.Store(nil)
		close(goOn)
		time.Sleep(time.Minute)
		synctest.Wait()
		if more := pings.Load() - was; !slices.Equal(reported(), []bool{true, false}) || more == 0 {
			t.Errorf("after it went on: %v, %d more pings", reported(), more)
		}
		close(stop)
		synctest.Wait()
	})
}

// However late a check is, it counts once: a suspended machine, a clock that jumps, or a
// busy host is not a fault of the process.
func TestHeartbeatCountsChecksNotTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Heartbeat{Every: time.Second, Limit: 3}
		ticks := make(chan time.Time)
		stop, hangs := make(chan struct{}), make(chan struct{})
		var reported atomic.Bool
		go h.watch(stop, ticks, func() { <-hangs }, func(hangs bool) { reported.Store(hangs) })
		ticks <- time.Now() // which pings
		for range h.Limit - 1 {
			time.Sleep(time.Hour)
			ticks <- time.Now()
			synctest.Wait()
			if reported.Load() {
				t.Fatal("reported after fewer checks than the limit")
			}
		}
		ticks <- time.Now()
		synctest.Wait()
		if !reported.Load() {
			t.Error("not reported at the limit")
		}
		close(hangs)
		close(stop)
		synctest.Wait()
	})
}
