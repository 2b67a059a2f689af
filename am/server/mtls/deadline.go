package mtls

import (
	"net"
	"sync"
	"time"
)

// deadlines are the deadlines of a connection. Until the handshake is done, no deadline is
// later than bound. Afterwards, the deadlines that were set apply.
type deadlines struct {
	mu          sync.Mutex
	bound       time.Time // zero when there is none, or the handshake is done
	read, write time.Time // as they were set
}

// bind sets the latest end of the handshake.
func (d *deadlines) bind(raw net.Conn, bound time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bound = bound
	raw.SetDeadline(bound)
}

func (d *deadlines) lift(raw net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bound.IsZero() {
		return
	}
	d.bound = time.Time{}
	raw.SetReadDeadline(d.read)
	raw.SetWriteDeadline(d.write)
}

// within returns t, or the bound if that is earlier. The caller holds mu.
func (d *deadlines) within(t time.Time) time.Time {
	if !d.bound.IsZero() && (t.IsZero() || d.bound.Before(t)) {
		return d.bound
	}
	return t
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	d := &c.dates
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read, d.write = t, t
	return c.raw.SetDeadline(d.within(t))
}

// SetReadDeadline limits reads, and the handshake. A Read that timed out may be repeated.
func (c *Conn) SetReadDeadline(t time.Time) error {
	d := &c.dates
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = t
	return c.raw.SetReadDeadline(d.within(t))
}

// SetWriteDeadline limits writes. After a Write that timed out, all later writes fail.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	d := &c.dates
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write = t
	return c.raw.SetWriteDeadline(d.within(t))
}
