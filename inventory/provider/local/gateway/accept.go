package gateway

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

type connectionKind int

const (
	public  connectionKind = iota // the node's own port, or through the gateway account
	inside                        // port 22 in a node
	jump                          // the gateway account itself
	relayed                       // through the gateway account to an Address
	raw                           // the own port of a node with an Address
)

// origin is the listener that accepted a connection.
type origin struct {
	kind connectionKind
	node string // owner of the listener; empty: the gateway account
}

// maxAcceptPause is the longest pause after a failed accept.
const maxAcceptPause = time.Second

// accept handles the connections of a listener until the listener is closed.
func (g *gateway) accept(l net.Listener, at origin) {
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			pause = min(max(5*time.Millisecond, 2*pause), maxAcceptPause)
			g.log.Warn("cannot accept a connection", "node", at.node, "error", err)
			time.Sleep(pause)
			continue
		}
		pause = 0
		if !g.addConnection() {
			nc.Close()
			return
		}
		source := sourceOf(nc.RemoteAddr())
		if at.kind == inside {
			source = at.node // root of a node can forge source addresses
		}
		// Connections are added in order of arrival, because the oldest is evicted first.
		guest := g.pending.add(source, nc)
		go func() {
			defer g.removeConnection()
			g.handleConnection(guest, at)
		}()
	}
}

// handleConnection serves a connection, or forwards it to the Address of its endpoint, until it ends.
func (g *gateway) handleConnection(guest *pendingConn, at origin) {
	nc := guest.nc
	defer nc.Close()
	defer g.pending.remove(guest)
	if at.kind != jump {
		d := g.endpointOf(nc, at)
		if d == nil {
			return
		}
		at.node = d.node
		if d.address != "" {
			g.forward(guest, d)
			return
		}
	}
	g.serve(guest, at)
}

// endpointOf returns the endpoint to which a connection leads, or nil if there is none. If the connection
// arrived at port 22 inside a node, its destination address selects a node of the same slice. If no node
// has the address, the node at which the connection arrived is selected.
func (g *gateway) endpointOf(nc net.Conn, from origin) *endpoint {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.endpoints[from.node]
	if own == nil || from.kind != inside {
		return own
	}
	local, ok := addrOf(nc.LocalAddr())
	if !ok {
		return nil
	}
	node, is := g.peers[own.slice][local]
	if !is {
		return own
	}
	d := g.endpoints[node]
	if d == nil || d.slice != own.slice {
		return nil
	}
	return d
}

func addrOf(a net.Addr) (netip.Addr, bool) {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	return t.AddrPort().Addr().Unmap().WithZone(""), true
}

// sourceOf returns the source that limits apply to: an IPv4 address, or a /64 of IPv6.
func sourceOf(a net.Addr) string {
	addr, ok := addrOf(a)
	if !ok {
		return ""
	}
	if addr.Is6() {
		p, err := addr.Prefix(64)
		if err != nil {
			return ""
		}
		return p.String()
	}
	return addr.String()
}

// Limits of connections that have not logged in: in all, and for each source. At its own
// limit, a source loses its oldest such connection. At the limit in all, the source with
// the most such connections loses its oldest one. So a flood evicts its own connections.
const (
	maxPending       = 512
	maxSourcePending = 128
)

// pendingConns are the connections that have not logged in. The zero value is ready.
type pendingConns struct {
	mu       sync.Mutex
	n        int
	bySource map[string][]*pendingConn // by source, the oldest first
}

type pendingConn struct {
	source string
	nc     net.Conn
}

// add records a connection that is not yet authenticated. If there are too many, it closes the oldest one of
// the source, or of the source with the most.
func (w *pendingConns) add(source string, nc net.Conn) *pendingConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bySource == nil {
		w.bySource = make(map[string][]*pendingConn)
	}
	if most := w.bySource[source]; len(most) >= maxSourcePending {
		w.evict(most[0])
	} else if w.n >= maxPending {
		for _, list := range w.bySource {
			if len(list) > len(most) {
				most = list
			}
		}
		w.evict(most[0])
	}
	g := &pendingConn{source, nc}
	w.bySource[source] = append(w.bySource[source], g)
	w.n++
	return g
}

// evict requires that the lock is held.
func (w *pendingConns) evict(g *pendingConn) {
	w.removeLocked(g)
	go g.nc.Close() // Close of a channelConn sends a message, which may wait
}

// remove does nothing in a second call.
func (w *pendingConns) remove(g *pendingConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(g)
}

func (w *pendingConns) removeLocked(g *pendingConn) {
	list := w.bySource[g.source]
	for i, other := range list {
		if other != g {
			continue
		}
		if len(list) == 1 {
			delete(w.bySource, g.source)
		} else {
			w.bySource[g.source] = append(list[:i:i], list[i+1:]...)
		}
		w.n--
		return
	}
}
