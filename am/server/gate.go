package server

import (
	"container/list"
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
// certificate. When there are too many, one gives way to the newcomer: the one
// that has waited longest among those of the address or certificate at its
// limit; when all together are too many, of the address that has most. So who
// floods the server pushes out himself, and a good client gets in.
//
// A connection waits while its handshake is not done, its header or body has
// not come, or nothing is asked. One that a call of is worked on never gives
// way. A newcomer is refused only when none of those that could is waiting.
//
// Every step takes the same time however many connections there are, except
// that a certificate at its limit has its connections looked through.
type gate struct {
	most, perAddress, perCertificate int
	// told is told of each connection that was ended or refused for a limit.
	told func(limit string, source netip.Prefix)

	mu      sync.Mutex
	n       int
	order   uint64 // counts the beginnings of waits
	sources map[netip.Prefix]*source
	// ranks are the sources by the number of their connections that wait; of
	// equals, who has had that number longest comes first.
	ranks []*list.List
	certs map[certificate]map[*guest]bool
}

// certificate is the fingerprint of the first certificate of a chain.
type certificate [sha256.Size]byte

// source is one address with its connections; the gate's lock guards it.
type source struct {
	prefix  netip.Prefix
	n       int
	waiting list.List     // of *guest, who has waited longest first
	rank    *list.Element // in the gate's ranks; nil while none waits
}

// guest is a connection that was let in. What is not of net.Conn belongs to the gate.
type guest struct {
	net.Conn
	gate   *gate
	source *source
	place  *list.Element // among those waiting; nil while it is served
	since  uint64        // the gate's order when its wait began
	cert   *certificate
	gone   bool
}

func newGate(most, perAddress, perCertificate int, told func(string, netip.Prefix)) *gate {
	g := &gate{
		most: most, perAddress: perAddress, perCertificate: perCertificate, told: told,
		sources: make(map[netip.Prefix]*source), certs: make(map[certificate]map[*guest]bool),
	}
	for range min(most, perAddress) + 1 {
		g.ranks = append(g.ranks, list.New())
	}
	return g
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
		limit, out = limitPerAddress, s.longest()
	case g.n >= g.most:
		limit, out = limitConnections, g.fullest()
	}
	if limit != "" && out == nil {
		g.mu.Unlock()
		g.told(limit, prefix)
		return nil
	}
	if out != nil {
		g.drop(out)
	}
	in := &guest{Conn: nc, gate: g, source: s}
	g.sources[prefix] = s
	g.n++
	s.n++
	g.queue(in)
	g.mu.Unlock()
	g.end(out, limit)
	return in
}

// end closes a guest that was dropped for a limit.
func (g *gate) end(out *guest, limit string) {
	if out != nil {
		out.Conn.Close()
		g.told(limit, out.source.prefix)
	}
}

// relieve ends one connection that waits, because the process has no descriptor left.
func (g *gate) relieve() {
	g.mu.Lock()
	out := g.fullest()
	if out != nil {
		g.drop(out)
	}
	g.mu.Unlock()
	g.end(out, limitConnections)
}

// certify counts a guest under the certificate its peer has proven; false when
// that has too many connections, all of them served. One that had to go is let
// pass: nobody hears the answer.
func (g *gate) certify(in *guest, c certificate) bool {
	g.mu.Lock()
	if in.gone || in.cert != nil {
		g.mu.Unlock()
		return true
	}
	var out *guest
	of := g.certs[c]
	if len(of) >= g.perCertificate {
		for x := range of {
			if x.place != nil && (out == nil || x.since < out.since) {
				out = x
			}
		}
		if out == nil {
			g.mu.Unlock()
			return false
		}
		g.drop(out)
		of = g.certs[c] // it is gone when that was the last
	}
	if of == nil {
		of = make(map[*guest]bool)
		g.certs[c] = of
	}
	of[in], in.cert = true, &c
	g.mu.Unlock()
	g.end(out, limitPerCertificate)
	return true
}

// serve says that a call of the guest is worked on now; false when the guest
// has had to go.
func (g *gate) serve(in *guest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unqueue(in)
	return !in.gone
}

// wait says that the guest's call is answered.
func (g *gate) wait(in *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !in.gone {
		g.unqueue(in)
		g.queue(in)
	}
}

// count is the number of connections, and of those that wait.
func (g *gate) count() (all, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, rank := range g.ranks {
		waiting += n * rank.Len()
	}
	return g.n, waiting
}

// Close makes room at the gate.
func (in *guest) Close() error {
	in.gate.mu.Lock()
	if !in.gone {
		in.gate.drop(in)
	}
	in.gate.mu.Unlock()
	return in.Conn.Close()
}

// In the following the caller holds mu.

// longest is who has waited longest of a source; nil when nobody waits.
func (s *source) longest() *guest {
	if e := s.waiting.Front(); e != nil {
		return e.Value.(*guest)
	}
	return nil
}

// fullest is who has waited longest of the source of which most wait.
func (g *gate) fullest() *guest {
	for n := len(g.ranks) - 1; n > 0; n-- {
		if e := g.ranks[n].Front(); e != nil {
			return e.Value.(*source).longest()
		}
	}
	return nil
}

func (g *gate) queue(in *guest) {
	g.order++
	in.since, in.place = g.order, in.source.waiting.PushBack(in)
	g.rank(in.source, in.source.waiting.Len()-1)
}

func (g *gate) unqueue(in *guest) {
	if in.place == nil {
		return
	}
	in.source.waiting.Remove(in.place)
	in.place = nil
	g.rank(in.source, in.source.waiting.Len()+1)
}

// rank puts a source where it belongs when it had another number waiting.
func (g *gate) rank(s *source, had int) {
	if s.rank != nil {
		g.ranks[had].Remove(s.rank)
		s.rank = nil
	}
	if n := s.waiting.Len(); n > 0 {
		s.rank = g.ranks[n].PushBack(s)
	}
}

func (g *gate) drop(in *guest) {
	g.unqueue(in)
	in.gone = true
	g.n--
	if in.source.n--; in.source.n == 0 {
		delete(g.sources, in.source.prefix)
	}
	if in.cert != nil {
		of := g.certs[*in.cert]
		delete(of, in)
		if len(of) == 0 {
			delete(g.certs, *in.cert)
		}
	}
}
