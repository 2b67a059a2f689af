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

// version is what the server says of itself.
const version = "SSH-2.0-Patchbay"

// Limits of connections.
const (
	handshakeTime = 20 * time.Second
	askedTime     = 2 * time.Minute // once a right key was offered: its owner may have to unlock it
	maxTries      = 6               // like OpenSSH

	probeTime = 60 * time.Second // an idle peer is asked whether it lives
	maxProbes = 3

	maxLogins        = 4096 // in all; then those who have most lose their oldest
	maxNodeLogins    = 256
	maxAccountLogins = 128 // of an account at a node, or of a key at the gateway account
	maxSourceRelays  = 64  // raw connections of a source to a node

	maxUserLogged = 64 // bytes of a name
)

// login is a connection that somebody logged in with, or one that is passed on.
type login struct {
	g     *gateway
	kind  kind
	node  string // empty for the gateway account
	slice string // of the node
	user  string
	key   []byte
	to    string // the address, if it is passed on
	held  []string
	share string       // who is bounded together
	order uint64       // in which they came
	out   bool         // pushed out: it is ended and takes no place any more
	stop  func() error // closes the connection

	conn    *ssh.ServerConn
	remote  net.Addr
	local   net.Addr
	line    *watched
	proof   bool          // not a user's
	slots   chan struct{} // channels
	over    chan struct{} // closed with the connection
	working sync.WaitGroup
}

// end closes the connection.
func (c *login) end() { c.stop() }

// errDenied is the only reason why a key is refused: whether the account
// exists is not told.
var errDenied = errors.New("the key does not open this account")

// keyUsed names the key in the permissions of a connection.
type keyUsed struct{}

// tries are what is noted of a handshake.
type tries struct {
	user string // of the last key that was offered, for the log
	// offered is called when a right key is offered, which does not yet prove
	// that the peer has it.
	offered func()
}

// config is the server's side of a handshake.
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
	// Only exchanges that cost the server little.
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

// allows tells whether the endpoints let c be. The lock is held.
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

// proves tells whether c logs in with a key made for a proof. The lock is held.
func (g *gateway) proves(d *endpoint, c *login) bool {
	_, is := d.accounts[c.user]
	return is && g.proofs[d.node][sha256.Sum256(c.key)]
}

// serve is the SSH server at an endpoint.
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
		from = sourceOf(nc.RemoteAddr()) // not the gateway account's key
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

// admit makes c one of the connections, within limits, if the endpoints still let it be.
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
		// Strangers take no place of those who logged in.
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
	if !c.proof { // of which there are never many
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

// shareOf is who has c with others: its slice; at the gateway account the one
// that the key leads to. A key that leads to several has a share of its own, for
// anybody may list anybody's key. Strangers are their source's. The lock is held.
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
		return list[0].slice // the endpoint let it be, so there is one
	}
	return c.slice
}

// pushOut ends the oldest login of those who have most. The lock is held.
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

// free gives the place of a login to others. The lock is held.
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

// probe asks a peer that is silent whether it lives, and ends the connection
// after maxProbes without a sign. It returns when done is closed.
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
			go func() { // it waits for the answer, or the end of the connection
				c.conn.SendRequest("keepalive@openssh.com", true, nil)
				<-asked
			}()
		default:
		}
	}
}
