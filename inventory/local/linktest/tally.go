package linktest

import (
	"net/netip"
	"time"
)

// DatagramStats is the result for numbered datagrams in one direction.
type DatagramStats struct {
	Sent     int     `json:"sent"`
	Received int     `json:"received"`
	Loss     float64 `json:"loss"` // per cent of the sent packets
	// Run is the average number of packets lost in a row, 0 if none was lost. It is about
	// 1 if packets are lost independently, and the length of a burst if whole bursts are
	// lost.
	Run      float64 `json:"run"`
	Rate     float64 `json:"rate"`     // of received packets, on the line, bit/s
	Twice    int     `json:"twice"`    // packets received more than once
	Overflow int     `json:"overflow"` // packets lost in the receiver, which was too slow; the link did not lose them
}

type counter struct {
	seen     []uint64 // a bit for each datagram that has arrived
	packets  int      // planned number of datagrams, which are numbered from 0
	received int
	twice    int
	began    time.Time     // arrival of the first datagram
	mark     time.Time     // arrival of the datagram with which the measurement of the rate begins
	marked   int           // number of datagrams received until mark
	last     time.Time     // arrival of the last datagram
	skip     time.Duration // datagrams within this time after the first do not count for the rate
}

func newCounter(n int, skip time.Duration) *counter {
	return &counter{seen: make([]uint64, (n+63)/64), packets: n, skip: skip}
}

func (c *counter) add(number uint64, arrival time.Time) {
	if number >= uint64(c.packets) {
		return
	}
	word, bit := &c.seen[number/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		c.twice++
		return
	}
	*word |= bit
	c.received++
	switch {
	case c.received == 1:
		c.began = arrival
	case c.mark.IsZero() && arrival.Sub(c.began) >= c.skip:
		c.mark, c.marked = arrival, c.received
	}
	c.last = arrival
}

// tally returns the statistics. The parameter sent is the number of datagrams that the
// sender sent, and frame the size of each on the line, in bytes.
func (c *counter) tally(sent, frame int) DatagramStats {
	sent = min(sent, c.packets)
	t := DatagramStats{Sent: sent, Received: min(c.received, sent), Twice: c.twice}
	runs, before := 0, true
	for i := range sent {
		came := c.seen[i/64]>>(i%64)&1 == 1
		if before && !came {
			runs++
		}
		before = came
	}
	if lost := sent - t.Received; lost > 0 {
		t.Loss = 100 * float64(lost) / float64(sent)
		t.Run = float64(lost) / float64(max(runs, 1))
	}
	if d := c.last.Sub(c.mark); !c.mark.IsZero() && d > 0 {
		t.Rate = float64(c.received-c.marked) * float64(frame) * 8 / d.Seconds()
	}
	return t
}

// collect counts the datagrams that come from the address sender. awaitSender waits until
// the sender has finished, and returns the number of datagrams sent. Then collect
// continues until no more datagrams arrive.
func (p pace) collect(u *socket, sender netip.Addr, awaitSender func() (int, error)) (DatagramStats, error) {
	if err := u.SetReadDeadline(time.Now().Add(2*p.time + 2*lineTime)); err != nil {
		return DatagramStats{}, err
	}
	ended := make(chan struct{})
	var total int
	var failed error
	go func() {
		defer close(ended)
		total, failed = awaitSender()
		// Datagrams that are still on the way arrive within quiet.
		_ = u.SetReadDeadline(time.Now().Add(quiet))
	}()
	got := newCounter(p.packets, p.time/3)
	buffer := make([]byte, 64<<10)
	var last time.Time
	for {
		n, at, came, err := u.receive(buffer)
		if err != nil {
			break
		}
		if h, ok := parseHeader(buffer[:n]); ok && h.kind == typeNumbered && h.token == p.token && at.Addr().Unmap() == sender.Unmap() {
			got.add(h.number, came)
		}
		select {
		case <-ended:
		default:
			continue
		}
		if last.IsZero() {
			last = time.Now().Add(patience)
		}
		if next := time.Now().Add(quiet); next.Before(last) { // each datagram restarts the wait
			_ = u.SetReadDeadline(next)
		}
	}
	if <-ended; failed == nil && (total < got.received || total > p.packets) {
		failed = errInvalidResult
	}
	if failed != nil {
		return DatagramStats{}, failed
	}
	t := got.tally(total, frameSize(p.size, sender))
	t.Overflow = int(u.overflow.Load())
	return t, nil
}
