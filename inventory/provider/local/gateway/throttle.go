package gateway

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A peer may make burst requests at once, and rate requests per second after that.
const (
	rate  = 100
	burst = 400
)

// throttledConn delays reading while its peer has made too many requests. So requests wait
// in the peer and do not accumulate here.
type throttledConn struct {
	net.Conn
	lastReceived atomic.Int64 // nanoseconds
	// carrier is the connection with the channel that carries this connection, or nil.
	// charge then charges carrier: a delay of this connection alone would let unread data
	// accumulate in the channel.
	carrier *throttledConn
	backlog *backlog

	mu sync.Mutex
	// paidUntil is the present time or later. Each request adds 1/rate seconds. Reads wait
	// while paidUntil is more than burst/rate seconds in the future.
	paidUntil time.Time
}

func (w *throttledConn) charge() {
	if w.carrier != nil {
		w.carrier.charge()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.paidUntil.Before(now) {
		w.paidUntil = now
	}
	w.paidUntil = w.paidUntil.Add(time.Second / rate)
}

func (w *throttledConn) Read(b []byte) (int, error) {
	w.mu.Lock()
	until := w.paidUntil.Add(-burst * time.Second / rate)
	w.mu.Unlock()
	time.Sleep(time.Until(until))
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.lastReceived.Store(time.Now().UnixNano())
		w.backlog.received(n)
	}
	return n, err
}
