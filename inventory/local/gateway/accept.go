package gateway

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// kind is the kind of endpoint that somebody came by.
type kind int

const (
	public  kind = iota // the node's own port, or by the gateway account
	inside              // port 22 in a node
	jump                // the gateway account itself
	relayed             // by the gateway account to an address
	raw                 // by a node's own port to an address
)

// entrance is where a connection came in.
type entrance struct {
	kind kind
	node string // whose listener it is; empty: the gateway account's
}

// maxAcceptPause is the longest pause after a connection could not be accepted.
const maxAcceptPause = time.Second

// accept serves a listener until it is closed.
func (g *gateway) accept(l net.Listener, at entrance) {
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
		if !g.enter() {
			nc.Close()
			return
		}
		source := sourceOf(nc.RemoteAddr())
		if at.kind == inside {
			source = at.node // it can have any address
		}
		// In the order in which they came: who is there first is pushed out first.
		guest := g.waiting.enter(source, nc)
		go func() {
			defer g.leave()
			g.receive(guest, at)
		}()
	}
}

// receive serves a connection that came in at a listener.
func (g *gateway) receive(guest *guest, at entrance) {
	nc := guest.nc
	defer nc.Close()
	defer g.waiting.leave(guest)
	if at.kind != jump {
		d := g.endpointOf(nc, at)
		if d == nil {
			return
		}
		at.node = d.node
		if d.address != "" {
			g.relay(guest, d)
			return
		}
	}
	g.serve(guest, at)
}

// endpointOf is the endpoint of the node that a connection means: inside nodes the
// address that was dialled tells.
func (g *gateway) endpointOf(nc net.Conn, at entrance) *endpoint {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.endpoints[at.node]
	if own == nil || at.kind != inside {
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

// addrOf is the IP address of a TCP address.
func addrOf(a net.Addr) (netip.Addr, bool) {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	return t.AddrPort().Addr().Unmap().WithZone(""), true
}

// sourceOf is who is bounded together: an IPv4 address or an IPv6 network.
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

// Most connections that have not logged in, in all and of one source. The
// oldest of those that have most must go for a new one: an honest client needs
// little time, and whoever fills the room pushes out themselves.
const (
	maxGuests       = 512
	maxSourceGuests = 128
)

// waiting are the connections that have not logged in. The zero value is ready.
type waiting struct {
	mu sync.Mutex
	n  int
	by map[string][]*guest // by source, the oldest first
}

type guest struct {
	source string
	nc     net.Conn
}

// enter lets nc in, and another one out if there are too many.
func (w *waiting) enter(source string, nc net.Conn) *guest {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = make(map[string][]*guest)
	}
	if most := w.by[source]; len(most) >= maxSourceGuests {
		w.evict(most[0])
	} else if w.n >= maxGuests {
		for _, list := range w.by {
			if len(list) > len(most) {
				most = list
			}
		}
		w.evict(most[0])
	}
	g := &guest{source, nc}
	w.by[source] = append(w.by[source], g)
	w.n++
	return g
}

func (w *waiting) evict(g *guest) {
	w.drop(g)
	go g.nc.Close() // one by the gateway account sends a message
}

// leave is called for each that entered; a second time it does nothing.
func (w *waiting) leave(g *guest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(g)
}

func (w *waiting) drop(g *guest) {
	list := w.by[g.source]
	for i, other := range list {
		if other != g {
			continue
		}
		if len(list) == 1 {
			delete(w.by, g.source)
		} else {
			w.by[g.source] = append(list[:i:i], list[i+1:]...)
		}
		w.n--
		return
	}
}
