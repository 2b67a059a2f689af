package mtls

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Context holds the server's keys and the other data that all connections share. Its
// methods may be called concurrently.
type Context struct {
	cfg  Config
	live atomic.Int64
	line line

	mu     sync.Mutex // guards the fields below; never held over file or network I/O
	ring   keyring
	closed bool
}

// New loads the key pairs of cfg. It fails if a file cannot be read, if other users may read
// a key, or if a key has a pass phrase, does not belong to its certificate, or is too weak
// for OpenSSL. The error names the file and the remedy.
func New(cfg Config) (*Context, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	ring, err := newKeyring(cfg)
	if err != nil {
		return nil, err
	}
	return &Context{cfg: cfg, ring: ring}, nil
}

// Reload reads the key files again, for connections accepted from now on. Existing
// connections keep their keys. Reload fails as New does, and then changes nothing. After Close
// it returns net.ErrClosed.
func (c *Context) Reload() error {
	ring, err := newKeyring(c.cfg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		ring.free()
		return net.ErrClosed
	}
	ring, c.ring = c.ring, ring
	c.mu.Unlock()
	ring.free()
	return nil
}

// Live returns the number of connections whose memory in OpenSSL is not freed yet.
func (c *Context) Live() int64 { return c.live.Load() }

// Close frees the keys. Existing connections continue; new connections are closed as soon as
// they are accepted.
func (c *Context) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.ring.free()
}

func (c *Context) newSession() (session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return session{}, net.ErrClosed
	}
	s, err := c.ring.newSession()
	if err == nil {
		c.live.Add(1)
	}
	return s, err
}

func (c *Context) free(s session) {
	s.free()
	c.live.Add(-1)
}

func (c *Context) report(remote net.Addr, err error) {
	if c.cfg.OnHandshakeError != nil {
		c.cfg.OnHandshakeError(remote, err)
	}
}

// Listener returns a listener that accepts connections from l and returns each as a *Conn. Do
// not wrap the result in another listener, because http.Server.ConnContext must see the *Conn;
// wrap l instead. Conn.NetConn returns the connection of l.
func (c *Context) Listener(l net.Listener) net.Listener { return &listener{l, c} }

type listener struct {
	net.Listener
	ctx *Context
}

// Accept returns only errors of the inner listener. It reports an error of a single connection
// to OnHandshakeError, because a returned error would end http.Server.Serve.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s, err := l.ctx.newSession()
		if err == nil {
			c := &Conn{raw: raw, ctx: l.ctx, ssl: s, source: turnOf(raw.RemoteAddr())}
			if d := l.ctx.cfg.HandshakeTimeout; d > 0 {
				c.dates.bind(raw, time.Now().Add(d))
			}
			return c, nil
		}
		raw.Close()
		l.ctx.report(raw.RemoteAddr(), err)
	}
}
