package site

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/server"
	"patchbay/am/server/mtls"
	"patchbay/am/site/clock"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
)

const (
	// trustMaxChanges is the number of changes in a row after which the trust folder is read
	// although it still changes, because a revocation must not wait.
	trustMaxChanges = 8
	// trustInterval is the interval at which an unchanged trust folder is read again,
	// because CRLs expire.
	trustInterval = time.Hour
)

// Certificates returns the options that say which certificates and CRLs are accepted.
func (c CredentialsConfig) Certificates() cert.Options {
	return cert.Options{SHA1: c.SHA1Certificates, MinRSABits: c.MinRSABits}
}

func (s *Site) openTrust() (_ *clock.Clock, _ *credentials.Authorizer, err error) {
	c := s.config
	s.clock = clock.New(clock.Options{Jump: c.ClockJump})
	if err := s.loadAnchors(); err != nil {
		return nil, nil, err
	}
	s.auth = credentials.New(s.anchors.Load(), credentials.Config{
		SHA1Signatures:   c.Credentials.SHA1Signatures,
		SHA1Certificates: c.Credentials.SHA1Certificates,
		MinRSABits:       c.Credentials.MinRSABits,
		Signers:          c.Credentials.Signers,
		Speakers:         c.Credentials.Speakers,
		CacheSize:        c.Credentials.CacheSize,
	})
	if s.tls, err = mtls.New(c.TLS(s.log)); err == nil {
		s.onClose(func() error { s.tls.Close(); return nil })
	}
	return s.clock, s.auth, err
}

// loadAnchors reads the trust folder when the site is opened. It fails if the folder has no
// trusted certificate.
func (s *Site) loadAnchors() error {
	dir := s.config.Trusted
	s.trustSeen = trustState(dir)
	s.trusted = cert.NewFolder(dir, s.config.Credentials.Certificates())
	a, problems, err := s.trusted.Load(s.clock.Now())
	if err != nil {
		return fmt.Errorf("%w; this folder (key trusted) needs the certificates of the authorities whose users may call", err)
	}
	s.logTrust(a, problems)
	s.logStale(a)
	if len(a.List()) == 0 {
		return fmt.Errorf("%s holds no trusted certificate, so no user could call; put the root of your federation, or authority/authority.pem, into it as NAME.pem", dir)
	}
	s.anchors.Store(a)
	return nil
}

// reloadAnchors reads the trust folder again. If the folder cannot be read, the previous
// certificates stay trusted. If it is empty, no certificate is trusted.
func (s *Site) reloadAnchors() {
	s.reading.Lock()
	defer s.reading.Unlock()
	defer func() {
		// A panic over one file must not end the server.
		if r := recover(); r != nil {
			s.log.Error("the trust folder cannot be read because of a defect in this program; the previous certificates stay trusted; undo the last change of the folder, and report this",
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	a, problems, err := s.trusted.Load(s.clock.Now())
	if err != nil {
		s.log.Error("the trust folder cannot be read; the previous certificates stay trusted", "error", err)
		return
	}
	defer s.logStale(a)
	if a.Generation() == s.anchors.Load().Generation() {
		s.logProblems(problems)
		return
	}
	s.staleLogged = time.Time{} // log all stale CRLs of the new state
	s.anchors.Store(a)
	s.auth.SetAnchors(a)
	s.logTrust(a, problems)
	if len(a.List()) == 0 {
		s.log.Error("the trust folder holds no trusted certificate: no user may call any more", "folder", s.config.Trusted)
		return
	}
	entries := 0
	for _, l := range a.RevocationLists() {
		entries += l.Len()
	}
	s.log.Info("trust folder read", "anchors", len(a.List()), "crls", len(a.RevocationLists()), "revoked", entries,
		"denied", len(a.Denials()), "generation", a.Generation())
}

func (s *Site) logTrust(a *cert.Anchors, problems []cert.Problem) {
	s.logProblems(problems)
	for _, x := range a.RevokedAnchors() {
		s.log.Warn("a certificate of the trust folder is revoked, so it is not trusted", "file", x.Anchor.File, "name", x.Certificate.Name(), "by", display.Place(x.File, x.Line))
	}
	warnExpiry(a, s.clock.Now(), s.log)
}

// logStale logs each CRL that has become out of date since the last call.
func (s *Site) logStale(a *cert.Anchors) {
	now := s.clock.Now()
	for _, l := range a.RevocationLists() {
		if l.IsStale(now) && !l.IsStale(s.staleLogged) {
			s.log.Warn("a CRL is out of date; its entries stay revoked; get a new one from its issuer", "file", l.File, "issuer", l.Issuer(), "next_update", l.NextUpdate)
		}
	}
	s.staleLogged = now
}

// logProblems logs a problem in a file that revokes or denies certificates as an error, because the
// site may admit a user that it must refuse. It logs other problems as warnings.
func (s *Site) logProblems(problems []cert.Problem) {
	for _, p := range problems {
		level := slog.LevelWarn
		if IsRevocationFile(p.File) {
			level = slog.LevelError
		}
		s.log.Log(context.Background(), level, "trust folder", "problem", p.String())
	}
}

// IsRevocationFile reports whether a file of the trust folder revokes or denies certificates.
func IsRevocationFile(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return filepath.Ext(name) == ".crl" || strings.TrimSuffix(name, filepath.Ext(name)) == cert.DeniedFile
}

func (s *Site) watchTrust(ctx context.Context) {
	state := func() string { return trustState(s.config.Trusted) }
	seen, last := s.trustSeen, time.Now() // so that changes since the site was opened are noticed
	watchFiles(ctx, trustMaxChanges, state, func(now string) {
		if now != seen || time.Since(last) >= trustInterval {
			seen, last = now, time.Now()
			s.reloadAnchors()
		}
	})
}

// trustState returns a text that changes when a relevant file of the trust folder changes.
func trustState(dir string) string {
	entries, err := os.ReadDir(dir)
	var b strings.Builder
	fmt.Fprintln(&b, err)
	for _, e := range entries {
		if cert.IsTrustFile(e.Name()) {
			fmt.Fprintln(&b, e.Name(), stampOf(filepath.Join(dir, e.Name())))
		}
	}
	return b.String()
}

func warnExpiry(a *cert.Anchors, now time.Time, log *slog.Logger) {
	for _, x := range a.List() {
		if x.Certificate.NotAfter.Sub(now) < ExpiryWarning {
			log.Warn("a trusted certificate expires", "file", x.File, "name", x.Certificate.URN, "expires", x.Certificate.NotAfter)
		}
	}
}

// ExpiryWarning is the remaining validity below which a certificate causes a warning.
const ExpiryWarning = 30 * 24 * time.Hour

// TLS returns the configuration of the TLS listener.
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

// peerChain returns the certificates of the client, its own first; nil without TLS.
func peerChain(c net.Conn) [][]byte {
	if c, ok := c.(*mtls.Conn); ok {
		return c.PeerChain()
	}
	return nil
}

// nameForLimits returns the name under which limits count a caller's calls; "" for a caller
// without a trusted certificate. It waits for a turn in the queue of handshakes, because no
// limit applies before it returns.
func (s *Site) nameForLimits(remote net.Addr, chain [][]byte) (name string) {
	s.tls.InTurn(remote, func() {
		if u, ok := s.auth.IdentifyCheaply(chain, s.clock.Now()); ok {
			name = u.Key()
		}
	})
	return name
}

// checkDenied returns an error if the deny list in force has a user, a slice or their authority. It is for decisions in
// which nobody presents a certificate.
func (s *Site) checkDenied(user, slice urn.URN) error {
	if a := s.anchors.Load(); !a.Denies(user) && !a.Denies(slice) {
		return nil
	}
	return am.Errorf(am.Forbidden, "%s or its slice is refused by the operator of this aggregate, in the list %s; ask the operator for the reason", user, cert.DeniedFile)
}
