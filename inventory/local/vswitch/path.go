package vswitch

import "time"

// The queue before a rate holds what the rate forwards in queueTime, and at least
// queueBytes: about ten long frames, so that TCP works at low rates.
const (
	patience     = int64(50 * time.Millisecond)
	leastPatient = 16 << 10
)

// path is a Path of a running link. Times are in ns on a monotonic clock.
type path struct {
	lan   *lan
	delay int64
	loss  float64
	rate  int64
	key   string // equal keys mean that a path is unchanged

	busy      int64 // when the rate has sent all queued frames
	remainder int64 // the part of a nanosecond left over, in bits/10⁹
	last      int64 // when the last frame is due
	queue     queue
	at        int // index in the schedule; -1: it is not in it

	// For a frame that goes to many ports, see lan.flood.
	round     uint64
	receivers int
	one       uint16
}

// isImmediate reports whether frames need not wait.
func (p *path) isImmediate() bool { return p.delay == 0 && p.rate == 0 && p.queue.first == nil }

// enqueue queues a frame with its size on the line, and reports whether there was room.
func (p *path) enqueue(now int64, e entry, bytes int) bool {
	sent := now
	busy, rest := p.busy, p.remainder
	if p.rate > 0 {
		if busy < now {
			busy, rest = now, 0
		}
		if busy-now > max(patience, int64(leastPatient)*8*int64(time.Second)/p.rate) {
			return false
		}
		work := int64(bytes)*8*int64(time.Second) + rest
		busy, rest = busy+work/p.rate, work%p.rate
		sent = busy
	}
	e.due = max(sent+p.delay, p.last)
	if !p.queue.push(e) {
		return false
	}
	p.busy, p.remainder, p.last = busy, rest, e.due
	return true
}
