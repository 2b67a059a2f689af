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

const version = "SSH-2.0-Patchbay"

const (
	handshakeTime = 20 * time.Second
	unlockTime    = 2 * time.Minute // after a valid key was offered: its owner may have to unlock it
	maxTries      = 6               // as OpenSSH

	probeTime = 60 * time.Second // after this silence a keepalive is sent
	maxProbes = 3

	maxLogins         = 4096 // in all; beyond that the share with the most logins loses its oldest login
	maxNodeLogins     = 256
	maxAccountLogins  = 128 // of an account at a node, or of a key at the gateway account
	maxSourceForwards = 64  // connections of one source forwarded to a node's Address

	maxUserLogged = 64 // bytes of a user name in the log
)

// login is an authenticated connection, or one that is forwarded to an Address.
type login struct {
	g        *gateway
	kind     connectionKind
	node     string // empty for the gateway account
	slice    string
	user     string
	key      []byte
	to       string   // the Address, if the connection is forwarded
	held     []string // the limits that count this login, see loginsByLimit
	share    string   // see shareFor
	sequence uint64   // increases with each login
	evicted  bool     // ended by evictOldest, and no longer counted
	stop     func() error

	conn           *ssh.ServerConn
	remote         net.Addr
	local          net.Addr
	transport      *throttledConn
	isVerification bool          // made by VerifyLogin, not by a user
	slots          chan struct{} // one for each channel
	closed         chan struct{} // closed with the connection
	working        sync.WaitGroup
}

func (c *login) end() { c.stop() }

// errDenied is the only reason given for a refused key, so that a client cannot find out
// which accounts exist.
var errDenied = errors.New("the key does not open this account")

// keyUsed is the map key of the client's public key in ssh.Permissions.ExtraData.
type keyUsed struct{}

// attempt is the server's knowledge about a client during a handshake.
type attempt struct {
	user string // of the last offered key, for the log
	// offered is called when a valid key is offered. The peer has not yet proven that it
	// holds the private key.
	offered func()
}

// config returns the server's configuration for a handshake with the host keys host. The handshake records
// the user in tried, and calls tried.offered when a valid key is offered.
func (g *gateway) config(at origin, host []ssh.Signer, tried *attempt) *ssh.ServerConfig {
	known := ssh.SupportedAlgorithms()
	c := &ssh.ServerConfig{
		ServerVersion:           version,
		MaxAuthTries:            maxTries,
		PublicKeyAuthAlgorithms: known.PublicKeyAuths,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			tried.user = printable(m.User()[:min(len(m.User()), maxUserLogged)])
			blob := key.Marshal()
			g.mu.Lock()
			defer g.mu.Unlock()
			if !g.isAllowed(&login{kind: at.kind, node: at.node, user: m.User(), key: blob}) {
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

// isAllowed reports whether the present endpoints allow c. The lock is held.
func (g *gateway) isAllowed(c *login) bool {
	d := g.endpoints[c.node]
	switch c.kind {
	case public:
		return d != nil && d.address == "" && (d.allowsLogin(c.user, c.key) || g.isVerification(d, c))
	case inside:
		return d != nil && d.address == "" && d.allowsInsideLogin(c.user, c.key)
	case jump:
		for _, d := range g.endpointsFor(c.key) {
			if _, is := d.accounts[c.user]; is || c.user == User {
				return true
			}
		}
	case relayed:
		return d != nil && d.address == c.to && d.hasKey(c.key)
	case raw:
		return d != nil && d.address == c.to
	}
	return false
}

// isVerification reports whether c logged in with a key of VerifyLogin. The lock is held.
func (g *gateway) isVerification(d *endpoint, c *login) bool {
	_, is := d.accounts[c.user]
	return is && g.verificationKeys[d.node][sha256.Sum256(c.key)]
}

// serve authenticates a connection and serves it until it ends. at is the listener that accepted it.
func (g *gateway) serve(guest *pendingConn, at origin) {
	nc, source := guest.nc, guest.source
	g.mu.Lock()
	host, slice := g.hostKeys, ""
	if at.kind != jump {
		d := g.endpoints[at.node]
		if d == nil || len(d.hostKeys) == 0 {
			g.mu.Unlock()
			return
		}
		host, slice = d.hostKeys, d.slice
	}
	g.mu.Unlock()
	from := source // for the log
	if at.kind == public {
		from = sourceOf(nc.RemoteAddr()) // through the gateway account, source is the key of that login
	}
	w := &throttledConn{Conn: nc, backlog: &backlog{parent: &g.backlogs}}
	if in, is := nc.(*channelConn); is {
		w.carrier = in.carrier.transport
	}
	deadline := time.AfterFunc(handshakeTime, func() { nc.Close() })
	tried := attempt{offered: sync.OnceFunc(func() { deadline.Reset(unlockTime) })}
	conn, channels, requests, err := ssh.NewServerConn(w, g.config(at, host, &tried))
	deadline.Stop()
	g.pending.remove(guest)
	if err != nil {
		if tried.user != "" && g.failures.allow() {
			g.log.Info("login failed", "node", at.node, "user", tried.user, "from", from, "error", err)
		}
		return
	}
	defer conn.Close()
	key, _ := conn.Permissions.ExtraData[keyUsed{}].([]byte)
	c := &login{
		g: g, kind: at.kind, node: at.node, slice: slice, user: conn.User(), key: key,
		stop: conn.Close, conn: conn, remote: nc.RemoteAddr(), local: nc.LocalAddr(),
		transport: w, slots: make(chan struct{}, maxChannels), closed: make(chan struct{}),
	}
	if err := g.admit(c); err != nil {
		g.log.Warn("login refused", "node", c.node, "user", c.user, "from", from, "error", err)
		return
	}
	defer g.removeLogin(c)
	if !c.isVerification {
		sum := sha256.Sum256(key)
		g.log.Info("login", "node", c.node, "user", c.user, "from", from, "key", "SHA256:"+base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	go c.sendKeepalives(c.closed)
	go c.serveRequests(requests)
	c.serveChannels(channels)
	close(c.closed)
	c.working.Wait()
}

// admit registers c. It returns an error if the endpoints do not allow c, or if c exceeds a
// limit of its node, account, key or source. At maxLogins, admit ends another login.
func (g *gateway) admit(c *login) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isAllowed(c) {
		return errDenied
	}
	c.isVerification = c.kind == public && g.isVerification(g.endpoints[c.node], c)
	type limit struct {
		what string
		most int
	}
	var limits []limit
	switch c.kind {
	case jump:
		limits = []limit{{"key\x00" + string(c.key), maxAccountLogins}}
	case raw:
		// The gateway does not authenticate forwarded connections, so limits of their own
		// apply.
		limits = []limit{{"raw\x00" + c.node, maxNodeLogins}, {"raw\x00" + c.node + "\x00" + c.user, maxSourceForwards}}
	default:
		if !c.isVerification {
			limits = []limit{{c.node, maxNodeLogins}, {c.node + "\x00" + c.user, maxAccountLogins}}
		}
	}
	for _, b := range limits {
		if g.loginsByLimit[b.what] >= b.most {
			return fmt.Errorf("there are already %d connections; at most %d are allowed", g.loginsByLimit[b.what], b.most)
		}
	}
	c.share = g.shareFor(c)
	if !c.isVerification { // there are at most maxVerifications of those
		if g.logins >= maxLogins {
			g.evictOldest()
		}
		g.logins++
		g.loginsByShare[c.share]++
		g.loginCount++
		c.sequence = g.loginCount
	}
	for _, b := range limits {
		g.loginsByLimit[b.what]++
		c.held = append(c.held, b.what)
	}
	g.conns[c] = struct{}{}
	return nil
}

// shareFor returns a name. Limits apply to all logins with the same share together. A
// login to a node has the node's slice as its share. A login to the gateway account has
// the slice of the nodes that list the key. A key listed in several slices has its own
// share, because any user may list the key of another user. A connection of kind raw has
// its source as its share. The lock is held.
func (g *gateway) shareFor(c *login) string {
	switch c.kind {
	case raw:
		return "raw\x00" + c.user
	case jump:
		list := g.endpointsFor(c.key)
		for _, d := range list {
			if d.slice != list[0].slice {
				return "key\x00" + string(c.key)
			}
		}
		return list[0].slice // list is not empty, since isAllowed accepted the key
	}
	return c.slice
}

// evictOldest ends the oldest login of the share with the most logins. The lock is held.
func (g *gateway) evictOldest() {
	most := ""
	for share, n := range g.loginsByShare {
		if n > g.loginsByShare[most] {
			most = share
		}
	}
	var oldest *login
	for c := range g.conns {
		if c.share == most && !c.isVerification && !c.evicted && (oldest == nil || c.sequence < oldest.sequence) {
			oldest = c
		}
	}
	if g.evictions.allow() {
		g.log.Warn("the gateway is full: the oldest login of the share with the most logins is ended", "node", oldest.node, "user", oldest.user, "have", g.loginsByShare[most])
	}
	g.releaseLogin(oldest)
	oldest.evicted = true
	go oldest.end()
}

// releaseLogin does nothing for a login that was evicted or never counted. The lock is
// held.
func (g *gateway) releaseLogin(c *login) {
	if c.isVerification || c.evicted {
		return
	}
	g.logins--
	if g.loginsByShare[c.share]--; g.loginsByShare[c.share] == 0 {
		delete(g.loginsByShare, c.share)
	}
}

func (g *gateway) removeLogin(c *login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
	g.releaseLogin(c)
	for _, what := range c.held {
		if g.loginsByLimit[what]--; g.loginsByLimit[what] == 0 {
			delete(g.loginsByLimit, what)
		}
	}
}

// sendKeepalives ends the connection of a silent peer after maxProbes without an answer.
// It returns after stop is closed.
func (c *login) sendKeepalives(stop <-chan struct{}) {
	tick := time.NewTicker(probeTime)
	defer tick.Stop()
	c.transport.lastReceived.Store(time.Now().UnixNano())
	asked := make(chan struct{}, 1)
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		silent := time.Since(time.Unix(0, c.transport.lastReceived.Load()))
		if silent > (maxProbes+1)*probeTime {
			c.end()
			return
		}
		if silent < probeTime {
			continue
		}
		select {
		case asked <- struct{}{}:
			go func() { // SendRequest waits for the answer, or for the end of the connection
				c.conn.SendRequest("keepalive@openssh.com", true, nil)
				<-asked
			}()
		default:
		}
	}
}
