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
func TestHeartbeatReportsWhoHangsAndWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Heartbeat{Every: time.Second, Limit: 8}
		var mu sync.Mutex
		var reports []bool
		told := func() []bool {
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
		if n := pings.Load(); n < 20 || len(told()) > 0 {
			t.Errorf("%d pings, reports %v of a process that answers", n, told())
		}
		goOn := make(chan struct{})
		hangs.Store(&goOn)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(told(), []bool{true}) {
			t.Errorf("ten seconds after it began to hang: %v", told())
		}
		was := pings.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if more := pings.Load() - was; len(told()) != 1 || more != 0 {
			t.Errorf("an hour later: %v, %d more pings", told(), more)
		}
		hangs.Store(nil)
		close(goOn)
		time.Sleep(time.Minute)
		synctest.Wait()
		if more := pings.Load() - was; !slices.Equal(told(), []bool{true, false}) || more == 0 {
			t.Errorf("after it went on: %v, %d more pings", told(), more)
		}
		close(stop)
		synctest.Wait()
	})
}

// However late a look comes, it counts as one: a suspended machine, a clock that
// jumps and a host without a free processor are no fault of the process.
func TestHeartbeatCountsLooksAndNotTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Heartbeat{Every: time.Second, Limit: 3}
		looks := make(chan time.Time)
		stop, hangs := make(chan struct{}), make(chan struct{})
		var reported atomic.Bool
		go h.watch(stop, looks, func() { <-hangs }, func(hangs bool) { reported.Store(hangs) })
		looks <- time.Now() // which pings
		for range h.Limit - 1 {
			time.Sleep(time.Hour)
			looks <- time.Now()
			synctest.Wait()
			if reported.Load() {
				t.Fatal("reported after fewer looks than the limit")
			}
		}
		looks <- time.Now()
		synctest.Wait()
		if !reported.Load() {
			t.Error("not reported at the limit")
		}
		close(hangs)
		close(stop)
		synctest.Wait()
	})
}
