package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// version is the version string of the SSH server.
const version = "SSH-2.0-Patchbay"

// Limits of connections.
const (
	handshakeTime = 20 * time.Second
	askedTime     = 2 * time.Minute // after a valid key was offered: its owner may have to unlock it
	maxTries      = 6               // as OpenSSH

	probeTime = 60 * time.Second // after this silence a keepalive is sent
	maxProbes = 3

	maxLogins        = 4096 // in all; beyond that the share with the most logins loses its oldest
	maxNodeLogins    = 256
	maxAccountLogins = 128 // of an account at a node, or of a key at the gateway account
	maxSourceRelays  = 64  // connections of one source forwarded to a node's Address

	maxUserLogged = 64 // bytes of a user name in the log
)

// login is an authenticated connection, or one that is forwarded to an Address.
type login struct {
	g     *gateway
	kind  kind
	node  string // empty for the gateway account
	slice string // the node's slice
	user  string
	key   []byte
	to    string // the Address, if the connection is forwarded
	held  []string
	share string       // see shareFor
	order uint64       // increases with each login
	out   bool         // evicted: it is ended and no longer counted
	stop  func() error // closes the connection

	conn    *ssh.ServerConn
	remote  net.Addr
	local   net.Addr
	line    *watched
	proof   bool          // made by VerifyLogin, not by a user
	slots   chan struct{} // one for each channel
	over    chan struct{} // closed with the connection
	working sync.WaitGroup
}

// end closes the connection.
func (c *login) end() { c.stop() }

// errDenied is the only reason given for a refused key, so that a client cannot find out
// which accounts exist.
var errDenied = errors.New("the key does not open this account")

// keyUsed is the key of ssh.Permissions.ExtraData under which the public key is stored.
type keyUsed struct{}

// attempt records a handshake.
type tries struct {
	user string // of the last offered key, for the log
	// offered is called when a valid key is offered. The peer has not yet proven that it
	// holds the private key.
	offered func()
}

// config returns the server configuration of a handshake.
func (g *gateway) config(at entrance, host []ssh.Signer, tried *tries) *ssh.ServerConfig {
	known := ssh.SupportedAlgorithms()
	c := &ssh.ServerConfig{
		ServerVersion:           version,
		MaxAuthTries:            maxTries,
		PublicKeyAuthAlgorithms: known.PublicKeyAuths,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			tried.user = plain(m.User()[:min(len(m.User()), maxUserLogged)])
			blob := key.Marshal()
			g.mu.Lock()
			defer g.mu.Unlock()
			if !g.allows(&login{kind: at.kind, node: at.node, user: m.User(), key: blob}) {
				return nil, errDenied
			}
			tried.offered()
			return &ssh.Permissions{ExtraData: map[any]any{keyUsed{}: blob}}, nil
		},
	}
	// Only key exchanges that cost the server little.
	c.KeyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519,
		ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384, ssh.KeyExchangeECDHP521,
		ssh.KeyExchangeDH14SHA256,
	}
	c.Ciphers, c.MACs = known.Ciphers, known.MACs
	for _, k := range host {
		c.AddHostKey(k)
	}
	return c
}

// isAllowed reports whether the endpoints still allow c. The lock is held.
func (g *gateway) allows(c *login) bool {
	d := g.endpoints[c.node]
	switch c.kind {
	case public:
		return d != nil && d.address == "" && (d.opens(c.user, c.key) || g.proves(d, c))
	case inside:
		return d != nil && d.address == "" && d.opensInside(c.user, c.key)
	case jump:
		for _, d := range g.nodesOf(c.key) {
			if _, is := d.accounts[c.user]; is || c.user == User {
				return true
			}
		}
	case relayed:
		return d != nil && d.address == c.to && d.knows(c.key)
	case raw:
		return d != nil && d.address == c.to
	}
	return false
}

// isVerification reports whether c logged in with a key of VerifyLogin. The lock is held.
func (g *gateway) proves(d *endpoint, c *login) bool {
	_, is := d.accounts[c.user]
	return is && g.proofs[d.node][sha256.Sum256(c.key)]
}

// serve runs the SSH server on a connection.
func (g *gateway) serve(guest *guest, at entrance) {
	nc, source := guest.nc, guest.source
	g.mu.Lock()
	host, slice := g.host, ""
	if at.kind != jump {
		d := g.endpoints[at.node]
		if d == nil || len(d.host) == 0 {
			g.mu.Unlock()
			return
		}
		host, slice = d.host, d.slice
	}
	g.mu.Unlock()
	from := source
	if at.kind == public {
		from = sourceOf(nc.RemoteAddr()) // the client's address, not the gateway account's
	}
	w := &watched{Conn: nc, backlog: &backlog{of: &g.stalls}}
	if in, is := nc.(*channelConn); is {
		w.carrier = in.carrier.line
	}
	deadline := time.AfterFunc(handshakeTime, func() { nc.Close() })
	tried := tries{offered: sync.OnceFunc(func() { deadline.Reset(askedTime) })}
	conn, channels, requests, err := ssh.NewServerConn(w, g.config(at, host, &tried))
	deadline.Stop()
	g.waiting.leave(guest)
	if err != nil {
		if tried.user != "" && g.failures.may() {
			g.log.Info("a login failed", "node", at.node, "user", tried.user, "from", from, "error", err)
		}
		return
	}
	defer conn.Close()
	key, _ := conn.Permissions.ExtraData[keyUsed{}].([]byte)
	c := &login{
		g: g, kind: at.kind, node: at.node, slice: slice, user: conn.User(), key: key,
		stop: conn.Close, conn: conn, remote: nc.RemoteAddr(), local: nc.LocalAddr(),
		line: w, slots: make(chan struct{}, maxChannels), over: make(chan struct{}),
	}
	if err := g.admit(c); err != nil {
		g.log.Warn("a login is refused", "node", c.node, "user", c.user, "from", from, "error", err)
		return
	}
	defer g.dismiss(c)
	if !c.proof {
		sum := sha256.Sum256(key)
		g.log.Info("login", "node", c.node, "user", c.user, "from", from, "key", "SHA256:"+base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	go c.probe(c.over)
	go c.requests(requests)
	c.channels(channels)
	close(c.over)
	c.working.Wait()
}

// admit registers c if the endpoints allow it and no limit is exceeded.
func (g *gateway) admit(c *login) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.allows(c) {
		return errDenied
	}
	c.proof = c.kind == public && g.proves(g.endpoints[c.node], c)
	type bound struct {
		what string
		most int
	}
	var bounds []bound
	switch c.kind {
	case jump:
		bounds = []bound{{"key\x00" + string(c.key), maxAccountLogins}}
	case raw:
		// Forwarded connections are unauthenticated here, so they take no slots of
		// logins.
		bounds = []bound{{"raw\x00" + c.node, maxNodeLogins}, {"raw\x00" + c.node + "\x00" + c.user, maxSourceRelays}}
	default:
		if !c.proof {
			bounds = []bound{{c.node, maxNodeLogins}, {c.node + "\x00" + c.user, maxAccountLogins}}
		}
	}
	for _, b := range bounds {
		if g.held[b.what] >= b.most {
			return fmt.Errorf("already %d connections, at most %d", g.held[b.what], b.most)
		}
	}
	c.share = g.shareOf(c)
	if !c.proof { // there are never many of these
		if g.logins >= maxLogins {
			g.pushOut()
		}
		g.logins++
		g.shares[c.share]++
		g.came++
		c.order = g.came
	}
	for _, b := range bounds {
		g.held[b.what]++
		c.held = append(c.held, b.what)
	}
	g.conns[c] = struct{}{}
	return nil
}

// shareFor returns the share of c, by which logins are limited: the slice of its node. At
// the gateway account it is the slice that the key opens. A key that opens several slices
// has a share of its own, because any user may list the key of another user. Forwarded
// connections share by source. The lock is held.
func (g *gateway) shareOf(c *login) string {
	switch c.kind {
	case raw:
		return "raw\x00" + c.user
	case jump:
		list := g.nodesOf(c.key)
		for _, d := range list {
			if d.slice != list[0].slice {
				return "key\x00" + string(c.key)
			}
		}
		return list[0].slice // the endpoint allowed the key, so there is one
	}
	return c.slice
}

// evictOldest ends the oldest login of the share with the most logins. The lock is held.
func (g *gateway) pushOut() {
	most := ""
	for share, n := range g.shares {
		if n > g.shares[most] {
			most = share
		}
	}
	var oldest *login
	for c := range g.conns {
		if c.share == most && !c.proof && !c.out && (oldest == nil || c.order < oldest.order) {
			oldest = c
		}
	}
	if g.evictions.may() {
		g.log.Warn("the gateway is full: logins of those who have most are ended", "node", oldest.node, "user", oldest.user, "have", g.shares[most])
	}
	g.free(oldest)
	oldest.out = true
	go oldest.end()
}

// releaseLogin removes a login from all counters. The lock is held.
func (g *gateway) free(c *login) {
	if c.proof || c.out {
		return
	}
	g.logins--
	if g.shares[c.share]--; g.shares[c.share] == 0 {
		delete(g.shares, c.share)
	}
}

func (g *gateway) dismiss(c *login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
	g.free(c)
	for _, what := range c.held {
		if g.held[what]--; g.held[what] == 0 {
			delete(g.held, what)
		}
	}
}

// sendKeepalives sends keepalives to a silent peer, and ends the connection after
// maxProbes without an answer. It returns when done is closed.
func (c *login) probe(done <-chan struct{}) {
	tick := time.NewTicker(probeTime)
	defer tick.Stop()
	c.line.heard.Store(time.Now().UnixNano())
	asked := make(chan struct{}, 1)
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		silent := time.Since(time.Unix(0, c.line.heard.Load()))
		if silent > (maxProbes+1)*probeTime {
			c.end()
			return
		}
		if silent < probeTime {
			continue
		}
		select {
		case asked <- struct{}{}:
			go func() { // it waits for the answer, or for the end of the connection
				c.conn.SendRequest("keepalive@openssh.com", true, nil)
				<-asked
			}()
		default:
		}
	}
}
