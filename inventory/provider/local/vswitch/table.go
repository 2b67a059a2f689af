package vswitch

import "time"

const (
	// maxLearned is how many addresses are stored for one port. A further address replaces
	// the oldest one of the same port, so that no port displaces the addresses of others.
	maxLearned = 256
	// maxSilence is how long an address is stored without a frame from it.
	maxSilence = int64(5 * time.Minute)
)

// table maps addresses to the ports of a link.
type table struct {
	known map[mac]*learnedAddress
	ports map[uint16]*learnedRing
}

type learnedAddress struct {
	port uint16
	seen int64
}

// learnedRing holds the newest maxLearned addresses that were learned at a port. Some of these
// may have moved to another port since.
type learnedRing struct {
	ring []mac
	next int // index of the oldest
}

func newTable() *table {
	return &table{known: make(map[mac]*learnedAddress), ports: make(map[uint16]*learnedRing)}
}

// learn records that m is behind the port. If the port has maxLearned addresses, learn forgets its oldest one.
func (t *table) learn(m mac, port uint16, now int64) {
	l := t.known[m]
	if l != nil && l.port == port {
		l.seen = now
		return
	}
	if l == nil {
		l = new(learnedAddress)
		t.known[m] = l
	}
	l.port, l.seen = port, now
	of := t.ports[port]
	if of == nil {
		of = new(learnedRing)
		t.ports[port] = of
	}
	if len(of.ring) < maxLearned {
		of.ring = append(of.ring, m)
		return
	}
	// If an address has moved to another port, the ring of that other port has it, too.
	if old := of.ring[of.next]; old != m && t.known[old] != nil && t.known[old].port == port {
		delete(t.known, old)
	}
	of.ring[of.next] = m
	of.next = (of.next + 1) % maxLearned
}

// find sets ok to false if the address is unknown, or was silent for longer than maxSilence.
func (t *table) find(m mac, now int64) (port uint16, ok bool) {
	l := t.known[m]
	if l == nil || now-l.seen > maxSilence {
		return 0, false
	}
	return l.port, true
}
