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

	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local/sandbox"
)

// Main is the gateway process. It does not return.
func Main() {
	// The process must survive the end of the reader of its standard error (SIGPIPE), and of the
	// terminal of "up" (SIGHUP).
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	debug.SetGCPercent(50)
	if err := run(os.NewFile(3, "control"), localAgents{}, sandbox.Gateway, stderrLog()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type gateway struct {
	log       *slog.Logger
	manager   *sender
	agents    nodeAgents
	verifying chan struct{}
	requests  connectionRequests
	pending   pendingConns
	backlogs  backlogs

	failures, evictions rateLimit // limit how often failed logins and evictions are logged

	mu               sync.Mutex
	hostKeys         []ssh.Signer // of the gateway account
	jumpListener     net.Listener
	endpoints        map[string]*endpoint
	keys             index
	peers            map[string]map[netip.Addr]string // by slice: address to node
	verificationKeys map[string]map[fingerprint]bool  // by node: keys that VerifyLogin uses
	conns            map[*login]struct{}
	loginsByLimit    map[string]int // logins by limit: node, account, key
	logins           int            // without logins of VerifyLogin
	loginsByShare    map[string]int // logins by share, see shareFor
	loginCount       uint64
	connections      int // of any kind, also before a login
	ending           bool
	drained          chan struct{} // closed when the gateway is ending and no connection is open
}

// run carries out the Manager's orders until the Manager ends. Then it serves the open
// sessions until the last one ends. The function confine drops the rights of the process.
func run(control *os.File, a nodeAgents, confine func(uid, gid int) error, log *slog.Logger) error {
	c, err := fdsocket.FromFile(control)
	if err != nil {
		return fmt.Errorf("no connection to the testbed: %w", err)
	}
	g := &gateway{
		log: log, manager: &sender{c: c}, agents: a, verifying: make(chan struct{}, maxVerifications),
		endpoints: make(map[string]*endpoint), keys: make(index),
		peers:            make(map[string]map[netip.Addr]string),
		verificationKeys: make(map[string]map[fingerprint]bool),
		conns:            make(map[*login]struct{}), loginsByLimit: make(map[string]int), loginsByShare: make(map[string]int),
		drained: make(chan struct{}),
	}
	if err := g.begin(c, confine); err != nil {
		return err
	}
	for {
		var o order
		files, err := c.Receive(&o, maxOrder, 2)
		if err != nil {
			break // the Manager has ended
		}
		g.execute(o, files)
	}
	g.shutDown()
	<-g.drained
	return nil
}

// begin drops all rights before it opens the gateway account. So the process never has
// rights while it reads data of clients.
func (g *gateway) begin(c *fdsocket.Conn, confine func(uid, gid int) error) error {
	var o order
	files, err := c.Receive(&o, maxOrder, 1)
	if err != nil {
		return err
	}
	if o.Kind != orderBegin || o.Begin == nil {
		return errors.New("the first order is not \"begin\"")
	}
	err = confine(o.Begin.UID, o.Begin.GID)
	if err == nil && len(files) == 1 {
		g.hostKeys, err = parseHostKeys(o.Begin.HostKey)
		if err == nil {
			g.jumpListener, err = listenerOf(files[0])
		}
	}
	g.reply(o.Number, err)
	if err == nil && g.jumpListener != nil {
		go g.accept(g.jumpListener, origin{kind: jump})
	}
	return err
}

func (g *gateway) reply(number uint64, err error) {
	w := gatewayMessage{Number: number, Kind: replyDone}
	if err != nil {
		w.Error = err.Error()
		if len(w.Error) > maxGatewayMessage/8 { // a byte may become six in JSON
			w.Error = w.Error[:maxGatewayMessage/8]
		}
	}
	g.manager.send(w) // an error is ignored: if the Manager has ended, Receive fails in run
}

// execute carries out an order, and replies to it if the Manager expects that. It owns files.
func (g *gateway) execute(o order, files []*os.File) {
	switch o.Kind {
	case orderSet:
		g.reply(o.Number, g.setEndpoint(o, files))
	case orderPeers:
		g.mu.Lock()
		g.peers[o.Slice] = o.Peers
		if len(o.Peers) == 0 {
			delete(g.peers, o.Slice)
		}
		g.mu.Unlock()
		g.reply(o.Number, nil)
	case orderRemove:
		g.mu.Lock()
		g.replaceEndpoint(o.Node, nil)
		g.mu.Unlock()
		g.reply(o.Number, nil)
	case orderPing:
		g.mu.Lock() // in a deadlock there must be no reply
		ending := g.ending
		g.mu.Unlock()
		if !ending {
			g.reply(o.Number, nil)
		}
	case orderVerify:
		go func() { g.reply(o.Number, g.verifyEndpoint(o.Node)) }()
	case orderConnection:
		g.requests.deliver(o, files)
	default:
		closeFiles(files)
		g.reply(o.Number, fmt.Errorf("unknown order %q", o.Kind))
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// listenerOf always closes f.
func listenerOf(f *os.File) (net.Listener, error) {
	defer f.Close()
	return net.FileListener(f)
}

// setEndpoint carries out an order to add or replace an endpoint. files are its new listeners, in the order
// public, inside. After an error, the previous endpoint remains.
func (g *gateway) setEndpoint(o order, files []*os.File) (err error) {
	var fresh []net.Listener
	defer func() {
		if err != nil {
			for _, l := range fresh {
				l.Close()
			}
		}
	}()
	for _, f := range files {
		l, bad := listenerOf(f)
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
		return errors.New("an order to set an endpoint lacks the endpoint")
	}
	d, err := newEndpoint(o.Endpoint)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.endpoints[d.node]
	lacksPublic, lacksInside := old == nil || old.publicListener == nil, old == nil || old.insideListener == nil
	if o.Public == listenSame && lacksPublic || o.Inside == listenSame && lacksInside {
		return errors.New("an order keeps a listener that the gateway does not have")
	}
	next := 0
	// take returns the listener that choice selects, and reports whether it is new.
	take := func(choice string, current func(*endpoint) net.Listener) (l net.Listener, isNew bool) {
		switch {
		case choice == listenSame:
			return current(old), false
		case choice == listenNew && next < len(fresh):
			next++
			return fresh[next-1], true
		}
		return nil, false
	}
	var newPublic, newInside bool
	d.publicListener, newPublic = take(o.Public, func(d *endpoint) net.Listener { return d.publicListener })
	d.insideListener, newInside = take(o.Inside, func(d *endpoint) net.Listener { return d.insideListener })
	g.replaceEndpoint(d.node, d)
	if newPublic {
		go g.accept(d.publicListener, origin{kind: public, node: d.node})
	}
	if newInside {
		go g.accept(d.insideListener, origin{kind: inside, node: d.node})
	}
	return nil
}

// replaceEndpoint makes d the endpoint of the node, or removes the endpoint if d is nil. It closes the
// listeners that are no longer used, and ends the sessions that d does not allow. The lock is held.
func (g *gateway) replaceEndpoint(node string, d *endpoint) {
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
	for _, l := range []net.Listener{old.publicListener, old.insideListener} {
		if l != nil && (d == nil || l != d.publicListener && l != d.insideListener) {
			l.Close()
		}
	}
	for c := range g.conns {
		if !g.isAllowed(c) {
			go c.end() // may wait for a peer that does not read
		}
	}
}

// endpointsFor returns the endpoints that a client with key may reach through the
// gateway account. The lock is held.
func (g *gateway) endpointsFor(key []byte) []*endpoint {
	var list []*endpoint
	for node := range g.keys[fingerprint(sha256.Sum256(key))] {
		if d := g.endpoints[node]; d != nil && d.hasKey(key) {
			list = append(list, d)
		}
	}
	return list
}

// shutDown closes all listeners, and closes g.drained when no connection is left. Open sessions continue.
func (g *gateway) shutDown() {
	g.requests.close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ending = true
	for _, d := range g.endpoints {
		for _, l := range []net.Listener{d.publicListener, d.insideListener} {
			if l != nil {
				l.Close()
			}
		}
	}
	if g.jumpListener != nil {
		g.jumpListener.Close()
	}
	if g.connections == 0 {
		close(g.drained)
	}
}

// addConnection returns false if the gateway accepts no more connections. After true, the
// caller must call removeConnection when the connection ends.
func (g *gateway) addConnection() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ending {
		return false
	}
	g.connections++
	return true
}

func (g *gateway) removeConnection() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.connections--; g.ending && g.connections == 0 {
		close(g.drained)
	}
}

// request takes the kind askAgent or askEndpoint.
func (g *gateway) request(ctx context.Context, kind, node string) (*os.File, error) {
	return g.requests.request(ctx, g.manager, kind, node)
}
