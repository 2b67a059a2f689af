package supervisor

import "time"

// Heartbeat finds out whether a process still answers. It pings, waits for the
// answer, and looks at the wait once every Every. A process hangs when so many
// looks in a row as Limit says found the same ping unanswered.
//
// Only looks that took place are counted, not the time between them. So a process
// is not blamed when the clock jumps, when the whole machine is suspended, or when
// this process itself got no processor: each of these costs it one look at most.
type Heartbeat struct {
	Every time.Duration
	Limit int
}

// DefaultHeartbeat notices a process that hangs within ten seconds.
var DefaultHeartbeat = Heartbeat{Every: time.Second, Limit: 8}

// Watch pings until stop is closed. ping returns when the answer has come, or when
// none can come any more. Watch calls report with true when the process hangs, and
// with false when it answers again after that. The ping that got no answer stays
// open: no other one is sent before it has returned.
func (h Heartbeat) Watch(stop <-chan struct{}, ping func(), report func(hangs bool)) {
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	h.watch(stop, tick.C, ping, report)
}

// watch is Watch with the times of its looks.
func (h Heartbeat) watch(stop <-chan struct{}, looks <-chan time.Time, ping func(), report func(hangs bool)) {
	answered := make(chan struct{}, 1)
	open, missed := false, 0
	for {
		select {
		case <-stop:
			return
		case <-answered:
			if open = false; missed >= h.Limit {
				report(false)
			}
			missed = 0
			continue
		case <-looks:
		}
		if !open {
			open = true
			go func() {
				ping()
				answered <- struct{}{}
			}()
			continue
		}
		select {
		case <-answered: // it came with the look, which then blames nobody
			answered <- struct{}{}
			continue
		default:
		}
		if missed++; missed == h.Limit {
			report(true)
		}
	}
}
