package vswitch

import "time"

const (
	// maxLearnt is how many addresses are known behind one port. One more takes
	// the place of that port's own, so that nobody pushes out the others'.
	maxLearnt = 256
	// maxSilence is how long an address is known without a frame from it.
	maxSilence = int64(5 * time.Minute)
)

// table knows behind which port of a link an address is.
type table struct {
	known map[mac]*learnt
	ports map[uint16]*learnts
}

type learnt struct {
	port uint16
	seen int64
}

// learnts are the addresses that a port was the last to bring, in a ring.
type learnts struct {
	ring []mac
	next int
}

func newTable() *table {
	return &table{known: make(map[mac]*learnt), ports: make(map[uint16]*learnts)}
}

// learn notes that a frame from m came from port.
func (t *table) learn(m mac, port uint16, now int64) {
	l := t.known[m]
	if l != nil && l.port == port {
		l.seen = now
		return
	}
	if l == nil {
		l = new(learnt)
		t.known[m] = l
	}
	l.port, l.seen = port, now
	of := t.ports[port]
	if of == nil {
		of = new(learnts)
		t.ports[port] = of
	}
	if len(of.ring) < maxLearnt {
		of.ring = append(of.ring, m)
		return
	}
	// One that has moved to another port is in that port's ring, too.
	if old := of.ring[of.next]; old != m && t.known[old] != nil && t.known[old].port == port {
		delete(t.known, old)
	}
	of.ring[of.next] = m
	of.next = (of.next + 1) % maxLearnt
}

// find is the port behind which m is.
func (t *table) find(m mac, now int64) (port uint16, ok bool) {
	l := t.known[m]
	if l == nil || now-l.seen > maxSilence {
		return 0, false
	}
	return l.port, true
}
