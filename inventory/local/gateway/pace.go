package gateway

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// What a peer may ask for: burst at once, then rate in a second.
const (
	rate  = 100
	burst = 400
)

// watched is a connection that remembers when its peer last sent, and does not
// read on while the peer has asked for too much: what was read is served, so
// nothing piles up.
type watched struct {
	net.Conn
	heard atomic.Int64 // ns
	// carrier is the connection in whose channel this one is, if it is in one: it
	// pays, for what is not read here would pile up in that channel.
	carrier *watched
	backlog *backlog

	mu   sync.Mutex
	free time.Time // when all that was asked for is paid
}

// charge notes that the peer asked for something.
func (w *watched) charge() {
	if w.carrier != nil {
		w.carrier.charge()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Second / rate)
}

func (w *watched) Read(b []byte) (int, error) {
	w.mu.Lock()
	until := w.free.Add(-burst * time.Second / rate)
	w.mu.Unlock()
	time.Sleep(time.Until(until))
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.heard.Store(time.Now().UnixNano())
		w.backlog.came(n)
	}
	return n, err
}
