package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"

	"patchbay/inventory/local/fdsocket"
	"patchbay/inventory/local/sandbox"
)

// Main is the gateway process. It does not return.
func Main() {
	// The reader of the standard error may be gone.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	debug.SetGCPercent(50)
	if err := run(os.NewFile(3, "control"), agents{}, sandbox.Gateway, stderrLog()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// gateway is the state of the gateway process.
type gateway struct {
	log     *slog.Logger
	keeper  *sender
	agents  nodes
	proving chan struct{}
	asks    asks
	waiting waiting
	stalls  stalls

	failures, evictions seldom // limit how often these are logged

	mu        sync.Mutex
	host      []ssh.Signer // host keys of the gateway account
	jump      net.Listener
	endpoints map[string]*endpoint
	keys      index
	peers     map[string]map[netip.Addr]string
	proofs    map[string]map[fingerprint]bool // by node: keys that VerifyLogin uses
	conns     map[*login]struct{}
	held      map[string]int // logins by limit: node, account, key
	logins    int            // without logins of VerifyLogin
	shares    map[string]int // logins by share, see shareFor
	came      uint64         // logins since the start
	open      int            // open connections of any kind
	ending    bool
	ended     chan struct{} // closed when the gateway is ending and no connection is open
}

// run serves the Manager until the Manager ends, and then the open sessions until they
// end.
func run(control *os.File, a nodes, confine func(uid, gid int) error, log *slog.Logger) error {
	c, err := fdsocket.FromFile(control)
	if err != nil {
		return fmt.Errorf("the connection to the testbed is missing: %w", err)
	}
	g := &gateway{
		log: log, keeper: &sender{c: c}, agents: a, proving: make(chan struct{}, maxProofs),
		endpoints: make(map[string]*endpoint), keys: make(index),
		peers:  make(map[string]map[netip.Addr]string),
		proofs: make(map[string]map[fingerprint]bool),
		conns:  make(map[*login]struct{}), held: make(map[string]int), shares: make(map[string]int),
		ended: make(chan struct{}),
	}
	if err := g.begin(c, confine); err != nil {
		return err
	}
	for {
		var o order
		files, err := c.Receive(&o, maxOrder, 2)
		if err != nil {
			break // the Manager is gone
		}
		g.obey(o, files)
	}
	g.end()
	<-g.ended
	return nil
}

// begin drops all rights before anything from outside is read.
func (g *gateway) begin(c *fdsocket.Conn, confine func(uid, gid int) error) error {
	var o order
	files, err := c.Receive(&o, maxOrder, 1)
	if err != nil {
		return err
	}
	if o.Kind != orderBegin || o.Begin == nil {
		return errors.New("the first order is not the one to begin")
	}
	err = confine(o.Begin.UID, o.Begin.GID)
	if err == nil && len(files) == 1 {
		g.host, err = hostKeys(o.Begin.HostKey)
		if err == nil {
			g.jump, err = listener(files[0])
		}
	}
	g.done(o.Number, err)
	if err == nil && g.jump != nil {
		go g.accept(g.jump, entrance{kind: jump})
	}
	return err
}

// reply replies to an order.
func (g *gateway) done(number uint64, err error) {
	w := word{Number: number, Kind: wordDone}
	if err != nil {
		w.Error = err.Error()
		if len(w.Error) > maxWord/8 {
			w.Error = w.Error[:maxWord/8]
		}
	}
	g.keeper.send(w) // if the Manager is gone, Receive in run fails
}

// execute carries out an order.
func (g *gateway) obey(o order, files []*os.File) {
	switch o.Kind {
	case orderPut:
		g.done(o.Number, g.put(o, files))
	case orderPeers:
		g.mu.Lock()
		g.peers[o.Slice] = o.Peers
		if len(o.Peers) == 0 {
			delete(g.peers, o.Slice)
		}
		g.mu.Unlock()
		g.done(o.Number, nil)
	case orderRemove:
		g.mu.Lock()
		g.replace(o.Node, nil)
		g.mu.Unlock()
		g.done(o.Number, nil)
	case orderPing:
		g.mu.Lock() // a gateway with a deadlock must not answer
		ending := g.ending
		g.mu.Unlock()
		if !ending {
			g.done(o.Number, nil)
		}
	case orderProve:
		go func() { g.done(o.Number, g.prove(o.Node)) }()
	case orderGiven:
		g.asks.given(o, files)
	default:
		closeFiles(files)
		g.done(o.Number, fmt.Errorf("an order %q is not known", o.Kind))
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// listener returns a listener for a file, and closes the file.
func listener(f *os.File) (net.Listener, error) {
	defer f.Close()
	return net.FileListener(f)
}

// setEndpoint adds or replaces an endpoint.
func (g *gateway) put(o order, files []*os.File) (err error) {
	var fresh []net.Listener
	defer func() {
		if err != nil {
			for _, l := range fresh {
				l.Close()
			}
		}
	}()
	for _, f := range files {
		l, bad := listener(f)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		fresh = append(fresh, l)
	}
	if err != nil {
		return err
	}
	if o.Endpoint == nil {
		return errors.New("an order to put an endpoint has none")
	}
	d, err := newEndpoint(o.Endpoint)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.endpoints[d.node]
	if o.Public == listenSame && (old == nil || old.public == nil) || o.Inside == listenSame && (old == nil || old.in == nil) {
		return errors.New("an order to put an endpoint keeps a listener that the gateway does not have")
	}
	next := 0
	take := func(how string, of func(*endpoint) net.Listener) (l net.Listener, isNew bool) {
		switch {
		case how == listenSame:
			return of(old), false
		case how == listenNew && next < len(fresh):
			next++
			return fresh[next-1], true
		}
		return nil, false
	}
	var newPublic, newInside bool
	d.public, newPublic = take(o.Public, func(d *endpoint) net.Listener { return d.public })
	d.in, newInside = take(o.Inside, func(d *endpoint) net.Listener { return d.in })
	g.replace(d.node, d)
	if newPublic {
		go g.accept(d.public, entrance{kind: public, node: d.node})
	}
	if newInside {
		go g.accept(d.in, entrance{kind: inside, node: d.node})
	}
	return nil
}

// replaceEndpoint replaces the endpoint of a node by d, or removes it if d is nil. It
// closes the listeners that are no longer used, and ends the sessions that d does not
// allow. The lock is held.
func (g *gateway) replace(node string, d *endpoint) {
	old := g.endpoints[node]
	if d != nil {
		g.endpoints[node] = d
		g.keys.add(d, 1)
	} else {
		delete(g.endpoints, node)
	}
	if old == nil {
		return
	}
	g.keys.add(old, -1)
	for _, l := range []net.Listener{old.public, old.in} {
		if l != nil && (d == nil || l != d.public && l != d.in) {
			l.Close()
		}
	}
	for c := range g.conns {
		if !g.allows(c) {
			go c.end() // it may wait for a peer that does not read
		}
	}
}

// endpointsFor returns the endpoints that key opens through the gateway account. The lock
// is held.
func (g *gateway) nodesOf(key []byte) []*endpoint {
	var list []*endpoint
	for node := range g.keys[fingerprint(sha256.Sum256(key))] {
		if d := g.endpoints[node]; d != nil && d.knows(key) {
			list = append(list, d)
		}
	}
	return list
}

// shutDown stops accepting connections. Open sessions continue.
func (g *gateway) end() {
	g.asks.end()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ending = true
	for _, d := range g.endpoints {
		for _, l := range []net.Listener{d.public, d.in} {
			if l != nil {
				l.Close()
			}
		}
	}
	if g.jump != nil {
		g.jump.Close()
	}
	if g.open == 0 {
		close(g.ended)
	}
}

// addConnection counts a connection, and reports whether the gateway still takes any. The
// caller must call removeConnection if it does.
func (g *gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending {
		return false
	}
	g.open++
	return true
}

func (g *gateway) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open--; g.ending && g.open == 0 {
		close(g.ended)
	}
}

// ask asks the Manager for a connection. kind is askAgent or askEndpoint.
func (g *gateway) ask(ctx context.Context, kind, node string) (*os.File, error) {
	return g.asks.ask(ctx, g.keeper, kind, node)
}
