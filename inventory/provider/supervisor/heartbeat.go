package supervisor

import "time"

// Heartbeat finds out whether a process still answers. It sends a ping and checks for the
// answer at intervals of Every. A process hangs if Limit checks in a row found the same
// ping unanswered.
//
// Heartbeat counts checks, not the time between them. So a process does not count as
// hanging when the clock jumps, when the whole machine is suspended, or when this process
// itself got no processor: each of these costs one check at most.
type Heartbeat struct {
	Every time.Duration
	Limit int
}

// DefaultHeartbeat notices a process that hangs within ten seconds.
var DefaultHeartbeat = Heartbeat{Every: time.Second, Limit: 8}

// Watch calls the function ping repeatedly until stop is closed. A call of ping must return
// when the answer has come, or when no answer can come any more. Calls of ping never overlap.
// Watch calls report with true when the process hangs, and with false when it answers again.
func (h Heartbeat) Watch(stop <-chan struct{}, ping func(), report func(hangs bool)) {
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	h.watch(stop, tick.C, ping, report)
}

// watch is Watch that sends a ping or checks for its answer at each value of ticks.
func (h Heartbeat) watch(stop <-chan struct{}, ticks <-chan time.Time, ping func(), report func(hangs bool)) {
	answered := make(chan struct{}, 1)
	isPinging, missed := false, 0
	for {
		select {
		case <-stop:
			return
		case <-answered:
			if isPinging = false; missed >= h.Limit {
				report(false)
			}
			missed = 0
			continue
		case <-ticks:
		}
		if !isPinging {
			isPinging = true
			go func() {
				ping()
				answered <- struct{}{}
			}()
			continue
		}
		select {
		case <-answered: // the answer and the tick came at the same time, so the tick does not count
			answered <- struct{}{}
			continue
		default:
		}
		if missed++; missed == h.Limit {
			report(true)
		}
	}
}
