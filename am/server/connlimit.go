package server

import (
	"cmp"
	"crypto/sha256"
	"net"
	"net/netip"
	"sync"
)

// Limits of connections; the values are the keys in the configuration.
const (
	limitConnections    = "max_connections"
	limitPerAddress     = "max_connections_per_address"
	limitPerCertificate = "max_connections_per_certificate"
)

// connLimiter limits the connections: in total, per address and per certificate. At a limit, it
// closes a waiting connection to accept the new one. It selects the connection that has waited
// longest, from the address with the most waiting connections. So a client that floods the server
// loses its own connections, and other clients can still connect.
//
// A connection waits during its handshake, until its header and body have arrived, and
// between calls. A connection with a call in progress is never closed. A new connection
// is refused only if no connection under the same limit waits.
type connLimiter struct {
	max, perAddress, perCertificate int
	// closed is called for each connection that was closed or refused because of a limit.
	closed func(limit string, source netip.Prefix)

	mu      sync.Mutex
	clock   uint64 // the number of waits that have begun
	conns   map[*trackedConn]bool
	waiting int
	sources map[netip.Prefix]*source
	certs   map[certificate]int // connections by certificate
}

type certificate [sha256.Size]byte

// source counts the connections of one address. The limiter's lock guards it.
type source struct {
	prefix  netip.Prefix
	n       int
	waiting int
}

// trackedConn is an accepted connection. The limiter's lock guards since and cert.
type trackedConn struct {
	net.Conn
	limiter *connLimiter
	source  *source
	since   uint64       // the limiter's clock when its wait began; 0 during a call
	cert    *certificate // nil before addCertificate
}

func newConnLimiter(max, perAddress, perCertificate int, closed func(string, netip.Prefix)) *connLimiter {
	return &connLimiter{
		max: max, perAddress: perAddress, perCertificate: perCertificate, closed: closed,
		conns: make(map[*trackedConn]bool), sources: make(map[netip.Prefix]*source), certs: make(map[certificate]int),
	}
}

// add counts nc as a waiting connection. At a limit, it closes another connection, or returns nil if no connection can be
// closed.
func (g *connLimiter) add(nc net.Conn) *trackedConn {
	prefix := sourceOf(nc.RemoteAddr())
	g.mu.Lock()
	s := g.sources[prefix]
	if s == nil {
		s = &source{prefix: prefix}
	}
	var limit string
	var out *trackedConn
	switch {
	case s.n >= g.perAddress:
		limit, out = limitPerAddress, g.longestWaiting(func(x *trackedConn) bool { return x.source == s })
	case len(g.conns) >= g.max:
		limit, out = limitConnections, g.longestWaiting(anyConn)
	}
	if limit != "" && out == nil {
		g.mu.Unlock()
		g.closed(limit, prefix)
		return nil
	}
	g.remove(out)
	in := &trackedConn{Conn: nc, limiter: g, source: s}
	g.conns[in], g.sources[prefix] = true, s
	s.n++
	g.setWaiting(in, true)
	g.mu.Unlock()
	g.closeRemoved(out, limit)
	return in
}

// closeRemoved closes out, which may be nil.
func (g *connLimiter) closeRemoved(out *trackedConn, limit string) {
	if out != nil {
		out.Conn.Close()
		g.closed(limit, out.source.prefix)
	}
}

// closeOne frees a descriptor when the process has none left.
func (g *connLimiter) closeOne() {
	g.mu.Lock()
	out := g.longestWaiting(anyConn)
	g.remove(out)
	g.mu.Unlock()
	g.closeRemoved(out, limitConnections)
}

// addCertificate counts conn as a connection of the certificate c. It returns false if c has too
// many connections, and all of them have calls in progress. If the limiter has closed conn
// already, it returns true, since no client reads the answer.
func (g *connLimiter) addCertificate(conn *trackedConn, c certificate) bool {
	g.mu.Lock()
	if !g.conns[conn] || conn.cert != nil {
		g.mu.Unlock()
		return true
	}
	var out *trackedConn
	if g.certs[c] >= g.perCertificate {
		if out = g.longestWaiting(func(x *trackedConn) bool { return x.cert != nil && *x.cert == c }); out == nil {
			g.mu.Unlock()
			return false
		}
		g.remove(out)
	}
	g.certs[c]++
	conn.cert = &c
	g.mu.Unlock()
	g.closeRemoved(out, limitPerCertificate)
	return true
}

// startCall ends the wait of conn, so that it is not closed during the call. It returns false if the limiter has closed
// conn.
func (g *connLimiter) startCall(conn *trackedConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setWaiting(conn, false)
	return g.conns[conn]
}

// endCall makes conn wait again, as the latest. Call it when the answer has been sent.
func (g *connLimiter) endCall(conn *trackedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns[conn] {
		g.setWaiting(conn, false)
		g.setWaiting(conn, true)
	}
}

func (g *connLimiter) count() (total, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns), g.waiting
}

// Close closes the connection and stops counting it.
func (in *trackedConn) Close() error {
	in.limiter.mu.Lock()
	in.limiter.remove(in)
	in.limiter.mu.Unlock()
	return in.Conn.Close()
}

// The callers of the following functions must hold mu.

func anyConn(*trackedConn) bool { return true }

// longestWaiting considers only connections for which match returns true; nil if there is none.
// It selects the connection that has waited longest, from the source with the most waiting
// connections.
func (g *connLimiter) longestWaiting(match func(*trackedConn) bool) (out *trackedConn) {
	for x := range g.conns {
		if x.since == 0 || !match(x) {
			continue
		}
		if out == nil || cmp.Or(cmp.Compare(out.source.waiting, x.source.waiting), cmp.Compare(x.since, out.since)) < 0 {
			out = x
		}
	}
	return out
}

// setWaiting begins or ends the wait of a connection.
func (g *connLimiter) setWaiting(conn *trackedConn, waiting bool) {
	if waiting == (conn.since > 0) {
		return
	}
	step := -1
	conn.since = 0
	if waiting {
		step = 1
		g.clock++
		conn.since = g.clock
	}
	g.waiting += step
	conn.source.waiting += step
}

// remove stops counting conn. It ignores nil and connections that it has removed before.
func (g *connLimiter) remove(conn *trackedConn) {
	if !g.conns[conn] {
		return
	}
	delete(g.conns, conn)
	g.setWaiting(conn, false)
	if conn.source.n--; conn.source.n == 0 {
		delete(g.sources, conn.source.prefix)
	}
	if conn.cert == nil {
		return
	}
	if g.certs[*conn.cert]--; g.certs[*conn.cert] == 0 {
		delete(g.certs, *conn.cert)
	}
}
