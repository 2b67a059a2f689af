package server

import (
	"context"
	"crypto/sha256"
	"net"
	"time"
)

// peer is the other end of one connection. What is below conn belongs to the
// one request of the connection that is served at a time.
type peer struct {
	conn   net.Conn
	guest  *guest // nil where the listener is not limited
	caller string // the name that Options.Who has given; "" for strangers
	asked  time.Time
	cert   *certificate
}

type peerKey struct{}

// askAgain is after how long a stranger may have become known.
const askAgain = 10 * time.Second

// peer is who has sent a request, with the chain that was shown. The handshake
// is done by then.
func (s *Server) peer(ctx context.Context) (p *peer, chain [][]byte) {
	p, _ = ctx.Value(peerKey{}).(*peer)
	if p == nil {
		p = new(peer)
	} else if s.opt.Chain != nil {
		chain = s.opt.Chain(p.conn)
	}
	if p.cert == nil && len(chain) > 0 {
		sum := certificate(sha256.Sum256(chain[0]))
		p.cert = &sum
	}
	if now := time.Now(); p.caller == "" && now.Sub(p.asked) > askAgain && s.opt.Who != nil {
		var remote net.Addr
		if p.conn != nil {
			remote = p.conn.RemoteAddr()
		}
		p.caller, p.asked = s.opt.Who(remote, chain), now
	}
	return p, chain
}
