package server

import (
	"context"
	"crypto/sha256"
	"net"
	"time"
)

// peer is the client of one connection. A connection serves one request at a time. Only the
// handler of that request uses the fields caller, identified and cert.
type peer struct {
	conn       net.Conn
	tracked    *trackedConn // nil if the listener is not limited
	chain      [][]byte     // of a caller in this process; nil for a connection
	caller     string       // from Options.CallerName; "" for an untrusted caller
	identified time.Time    // when Options.CallerName was last called
	cert       *certificate // the first certificate of the chain; nil if there is no chain
}

type peerKey struct{}

// identifyAgain is the time after which an untrusted caller is identified again. The trusted
// authorities may have changed.
const identifyAgain = 10 * time.Second

// peer returns the client of the connection and its certificates. It identifies a client that is not known yet.
func (s *Server) peer(ctx context.Context) (p *peer, chain [][]byte) {
	p, _ = ctx.Value(peerKey{}).(*peer)
	if p == nil {
		p = new(peer)
	} else if chain = p.chain; chain == nil && s.opt.Chain != nil {
		chain = s.opt.Chain(p.conn)
	}
	if p.cert == nil && len(chain) > 0 {
		sum := certificate(sha256.Sum256(chain[0]))
		p.cert = &sum
	}
	if now := time.Now(); p.caller == "" && now.Sub(p.identified) > identifyAgain && s.opt.CallerName != nil {
		var remote net.Addr
		if p.conn != nil {
			remote = p.conn.RemoteAddr()
		}
		p.caller, p.identified = s.opt.CallerName(remote, chain), now
	}
	return p, chain
}
