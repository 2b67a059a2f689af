package server

import (
	"cmp"
	"crypto/sha256"
	"net"
	"net/netip"
	"sync"
)

// The limits that a gate keeps, by their keys in the configuration.
const (
	limitConnections    = "max_connections"
	limitPerAddress     = "max_connections_per_address"
	limitPerCertificate = "max_connections_per_certificate"
)

// gate bounds the connections: all, those of one address, those of one
// certificate. When there are too many, one gives way to the newcomer: of those of
// the address or certificate at its limit, or of all, the one from the address with
// the most waiting connections that has waited longest. So who floods the server
// pushes out their own connections, and a good client gets in.
//
// A connection waits while its handshake is not done, its header or body has
// not come, or nothing is asked. One that a call of is worked on never gives
// way. A newcomer is refused only when none of those that could is waiting.
type gate struct {
	most, perAddress, perCertificate int
	// ended is called for each connection that was ended or refused for a limit.
	ended func(limit string, source netip.Prefix)

	mu      sync.Mutex
	clock   uint64 // counts the beginnings of waits
	guests  map[*guest]bool
	waiting int
	sources map[netip.Prefix]*source
	certs   map[certificate]int
}

// certificate is the fingerprint of the first certificate of a chain.
type certificate [sha256.Size]byte

// source counts the connections of one address; the gate's lock guards it.
type source struct {
	prefix     netip.Prefix
	n, waiting int
}

// guest is a connection that was let in. What is not of net.Conn belongs to the gate.
type guest struct {
	net.Conn
	gate   *gate
	source *source
	since  uint64 // the gate's clock when its wait began; 0 while it is served
	cert   *certificate
}

func newGate(most, perAddress, perCertificate int, ended func(string, netip.Prefix)) *gate {
	return &gate{
		most: most, perAddress: perAddress, perCertificate: perCertificate, ended: ended,
		guests: make(map[*guest]bool), sources: make(map[netip.Prefix]*source), certs: make(map[certificate]int),
	}
}

// enter lets nc in, and another out if need be; nil when nobody can give way.
func (g *gate) enter(nc net.Conn) *guest {
	prefix := sourceOf(nc.RemoteAddr())
	g.mu.Lock()
	s := g.sources[prefix]
	if s == nil {
		s = &source{prefix: prefix}
	}
	var limit string
	var out *guest
	switch {
	case s.n >= g.perAddress:
		limit, out = limitPerAddress, g.longest(func(x *guest) bool { return x.source == s })
	case len(g.guests) >= g.most:
		limit, out = limitConnections, g.longest(anyGuest)
	}
	if limit != "" && out == nil {
		g.mu.Unlock()
		g.ended(limit, prefix)
		return nil
	}
	g.drop(out)
	in := &guest{Conn: nc, gate: g, source: s}
	g.guests[in], g.sources[prefix] = true, s
	s.n++
	g.setWaiting(in, true)
	g.mu.Unlock()
	g.end(out, limit)
	return in
}

// end closes a guest that was dropped for a limit.
func (g *gate) end(out *guest, limit string) {
	if out != nil {
		out.Conn.Close()
		g.ended(limit, out.source.prefix)
	}
}

// relieve ends one connection that waits, because the process has no descriptor left.
func (g *gate) relieve() {
	g.mu.Lock()
	out := g.longest(anyGuest)
	g.drop(out)
	g.mu.Unlock()
	g.end(out, limitConnections)
}

// certify counts a guest under the certificate its peer has proven; false when
// that has too many connections, all of them served. One that had to go is let
// pass: nobody hears the answer.
func (g *gate) certify(in *guest, c certificate) bool {
	g.mu.Lock()
	if !g.guests[in] || in.cert != nil {
		g.mu.Unlock()
		return true
	}
	var out *guest
	if g.certs[c] >= g.perCertificate {
		if out = g.longest(func(x *guest) bool { return x.cert != nil && *x.cert == c }); out == nil {
			g.mu.Unlock()
			return false
		}
		g.drop(out)
	}
	g.certs[c]++
	in.cert = &c
	g.mu.Unlock()
	g.end(out, limitPerCertificate)
	return true
}

// serve says that a call of the guest is worked on now; false when the guest
// has had to go.
func (g *gate) serve(in *guest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setWaiting(in, false)
	return g.guests[in]
}

// wait says that the guest's call is answered.
func (g *gate) wait(in *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.guests[in] {
		g.setWaiting(in, false)
		g.setWaiting(in, true)
	}
}

// count is the number of connections, and of those that wait.
func (g *gate) count() (all, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.guests), g.waiting
}

// Close makes room at the gate.
func (in *guest) Close() error {
	in.gate.mu.Lock()
	in.gate.drop(in)
	in.gate.mu.Unlock()
	return in.Conn.Close()
}

// In the following the caller holds mu.

func anyGuest(*guest) bool { return true }

// longest is, of the guests that match, the one from the source with the most waiting
// ones that has waited longest; nil when none of them waits.
func (g *gate) longest(match func(*guest) bool) (out *guest) {
	for x := range g.guests {
		if x.since == 0 || !match(x) {
			continue
		}
		if out == nil || cmp.Or(cmp.Compare(out.source.waiting, x.source.waiting), cmp.Compare(x.since, out.since)) < 0 {
			out = x
		}
	}
	return out
}

// setWaiting counts a guest as waiting from now on, or as served.
func (g *gate) setWaiting(in *guest, waiting bool) {
	if waiting == (in.since > 0) {
		return
	}
	step := -1
	in.since = 0
	if waiting {
		step = 1
		g.clock++
		in.since = g.clock
	}
	g.waiting += step
	in.source.waiting += step
}

// drop forgets a guest; nil, and one that is forgotten already, changes nothing.
func (g *gate) drop(in *guest) {
	if !g.guests[in] {
		return
	}
	delete(g.guests, in)
	g.setWaiting(in, false)
	if in.source.n--; in.source.n == 0 {
		delete(g.sources, in.source.prefix)
	}
	if in.cert == nil {
		return
	}
	if g.certs[*in.cert]--; g.certs[*in.cert] == 0 {
		delete(g.certs, *in.cert)
	}
}
