package mtls

import (
	"net"
	"net/netip"
	"runtime"
	"sync"
)

// InTurn waits for a turn in the queue of handshakes, and then runs f, a long computation for
// the peer at remote. f must not wait for the peer.
func (c *Context) InTurn(remote net.Addr, f func()) {
	c.line.enter(turnOf(remote))
	defer c.line.leave()
	f()
}

// line is the queue of handshakes that wait for a processor. At most as many handshakes as
// processors compute at a time; more would starve existing connections. Addresses take
// turns, so that many handshakes of one address do not delay others. The zero value is
// ready.
type line struct {
	mu      sync.Mutex
	busy    int                            // the number of turns in use
	waiting map[netip.Addr][]chan struct{} // by address, oldest first
	turns   []netip.Addr                   // waiting addresses in the order of their turns, each once
}

// enter returns when it is the caller's turn; call leave after the work.
func (l *line) enter(source netip.Addr) {
	l.mu.Lock()
	if l.busy < runtime.GOMAXPROCS(0) {
		l.busy++
		l.mu.Unlock()
		return
	}
	if l.waiting == nil {
		l.waiting = make(map[netip.Addr][]chan struct{})
	}
	turn := make(chan struct{})
	if len(l.waiting[source]) == 0 {
		l.turns = append(l.turns, source)
	}
	l.waiting[source] = append(l.waiting[source], turn)
	l.mu.Unlock()
	<-turn
}

// leave passes the turn on to the next address that waits.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.turns) == 0 {
		l.busy--
		return
	}
	source := l.turns[0]
	l.turns = l.turns[1:]
	own := l.waiting[source]
	close(own[0])
	if len(own) == 1 {
		delete(l.waiting, source)
		return
	}
	l.waiting[source] = own[1:]
	l.turns = append(l.turns, source)
}

// turnOf returns the network of a connection's peer: its IPv4 address, or its IPv6 network of
// 64 bits. The queue serves networks in turn.
func turnOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !ip.Is6() {
		return ip
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}
