package vswitch

import "time"

// A queue before a rate holds what the rate lets through in so much time, and in
// any case so many bytes: about ten long frames, so that TCP can work at low rates.
const (
	patience     = int64(50 * time.Millisecond)
	leastPatient = 16 << 10
)

// path is a Path at work. Times are in ns, on a clock that never goes back.
type path struct {
	lan   *lan
	delay int64
	loss  float64
	rate  int64
	key   string // tells whether a path is the same as before

	busy int64 // until when the rate is used up by what has come
	rest int64 // what did not fill a nanosecond, in bits/10⁹
	last int64 // when the frame that came last is due
	wait queue
	at   int // its place in the schedule; -1: it waits for nothing

	// For one frame that goes to many, see lan.flood.
	round     uint64
	receivers int
	one       uint16
}

// straight tells whether frames need not wait.
func (p *path) straight() bool { return p.delay == 0 && p.rate == 0 && p.wait.first == nil }

// enter takes a frame of so many bytes on the line; without room it is false.
func (p *path) enter(now int64, e entry, bytes int) bool {
	sent := now
	busy, rest := p.busy, p.rest
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
	if !p.wait.push(e) {
		return false
	}
	p.busy, p.rest, p.last = busy, rest, e.due
	return true
}
