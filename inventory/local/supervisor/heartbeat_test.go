package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A process is reported once when it hangs, and once when it answers again.
func TestHeartbeatReportsWhoHangsAndWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Heartbeat{Every: time.Second, Limit: 8}
		var reports []bool
		var hangs chan struct{}
		pings := 0
		ping := func() {
			if pings++; hangs != nil {
				<-hangs
			}
		}
		stop := make(chan struct{})
		go h.Watch(stop, ping, func(b bool) { reports = append(reports, b) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if pings < 20 || len(reports) > 0 {
			t.Errorf("%d pings, reports %v of a process that answers", pings, reports)
		}
		hangs = make(chan struct{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(reports, []bool{true}) {
			t.Errorf("ten seconds after it began to hang: %v", reports)
		}
		was := pings
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(reports) != 1 || pings != was {
			t.Errorf("an hour later: %v, %d more pings", reports, pings-was)
		}
		close(hangs)
		hangs = nil
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(reports, []bool{true, false}) || pings == was {
			t.Errorf("after it went on: %v, %d more pings", reports, pings-was)
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
		reported := false
		go h.watch(stop, looks, func() { <-hangs }, func(bool) { reported = true })
		looks <- time.Now() // which pings
		for range h.Limit - 1 {
			time.Sleep(time.Hour)
			looks <- time.Now()
			synctest.Wait()
			if reported {
				t.Fatal("reported after fewer looks than the limit")
			}
		}
		looks <- time.Now()
		synctest.Wait()
		if !reported {
			t.Error("not reported at the limit")
		}
		close(hangs)
		close(stop)
		synctest.Wait()
	})
}
