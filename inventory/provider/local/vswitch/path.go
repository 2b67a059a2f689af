package vswitch

import "time"

// The queue of a path with a rate holds the bytes that the path sends within patience, but at
// least leastPatient. So even at low rates it holds ten long frames, which TCP needs.
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
	key   string // all properties as text; a path with an equal key is unchanged

	busy      int64 // when the rate will have sent all queued frames
	remainder int64 // the fraction of a nanosecond that busy lacks, in units of 1/rate ns
	last      int64 // when the last queued frame is due
	queue     queue
	at        int // index in the schedule; -1 if the path is not in the schedule

	// Used by lan.flood.
	round     uint64 // the last call of flood that has used the path
	receivers int    // ports to which the path leads in that call
	one       uint16 // number of the first of these ports
}

func (p *path) isImmediate() bool { return p.delay == 0 && p.rate == 0 && p.queue.first == nil }

// enqueue appends a frame with the time when it is due, and reports whether the queue had room. The parameter
// bytes is the frame's size on the line.
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
