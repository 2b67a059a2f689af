package site

import (
	"cmp"
	"log/slog"
	"net"

	"patchbay/am/mtls"
	"patchbay/am/server"
)

func (c *Config) TLS(log *slog.Logger) mtls.Config {
	m := mtls.Config{
		SHA1Handshakes:   c.Credentials.SHA1Certificates,
		HandshakeTimeout: cmp.Or(c.Limits.HeaderTimeout, server.DefaultConfig().HeaderTimeout) / 2,
		OnHandshakeError: func(remote net.Addr, err error) {
			log.Debug("no connection", "remote", remote, "error", err)
		},
	}
	for _, k := range c.Keys {
		m.Keys = append(m.Keys, mtls.KeyPair{CertFile: k.Certificate, KeyFile: k.Key})
	}
	return m
}

func peerChain(c net.Conn) [][]byte {
	if c, ok := c.(*mtls.Conn); ok {
		return c.PeerChain()
	}
	return nil
}

// who is the name by which the calls of a chain's owner are counted; "" for
// strangers. It is asked before any limit of calls, so peers take turns.
func (s *Site) who(remote net.Addr, chain [][]byte) (name string) {
	s.tls.InTurn(remote, func() {
		if u, ok := s.auth.Glance(chain, s.clock.Now()); ok {
			name = u.Key()
		}
	})
	return name
}
