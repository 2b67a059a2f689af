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

	"patchbay/am/display"
	"patchbay/am/mtls"
	"patchbay/am/server"
	"patchbay/credentials"
	"patchbay/credentials/cert"
)

const (
	// trustLatest is after how many changes in a row the trust folder is read though it
	// is not quiet: a revocation must not wait for whatever else goes on there.
	trustLatest = 8
	// trustInterval is how often it is read where nothing seems to change: a CRL
	// gets out of date by itself.
	trustInterval = time.Hour
)

// Certificates is which certificates, and CRLs, are accepted.
func (c CredentialsConfig) Certificates() cert.Options {
	return cert.Options{SHA1: c.SHA1Certificates, MinRSABits: c.MinRSABits}
}

// openTrust opens the site's clock, and what tells who calls.
func (s *Site) openTrust(context.Context) (err error) {
	c := s.config
	if s.clock, err = c.OpenClock(s.log); err != nil {
		return err
	}
	if err := s.loadAnchors(); err != nil {
		return err
	}
	s.auth = credentials.New(s.anchors.Load(), credentials.Config{
		SHA1Signatures:   c.Credentials.SHA1Signatures,
		SHA1Certificates: c.Credentials.SHA1Certificates,
		MinRSABits:       c.Credentials.MinRSABits,
		Signers:          c.Credentials.Signers,
		Speakers:         c.Credentials.Speakers,
		CacheSize:        c.Credentials.CacheSize,
	})
	s.tls, err = mtls.New(c.TLS(s.log))
	return err
}

// loadAnchors reads the trust folder of a site that is about to serve.
func (s *Site) loadAnchors() error {
	dir := s.config.Trusted
	s.trustSeen = trustState(dir)
	s.trusted = cert.NewFolder(dir, s.config.Credentials.Certificates())
	a, problems, err := s.trusted.Load(s.clock.Now())
	if err != nil {
		return fmt.Errorf("%w; the certificates of the authorities whose users may come belong into this folder (key trusted)", err)
	}
	s.tellTrust(a, problems)
	s.tellStale(a)
	if len(a.List()) == 0 {
		return fmt.Errorf("%s holds no trusted certificate, so nobody could call; put the root of your federation, or authority/authority.pem, into it as NAME.pem", dir)
	}
	s.anchors.Store(a)
	return nil
}

// reloadAnchors reads the trust folder again. A folder that cannot be read
// changes nothing, whatever the reason; one that has become empty is taken by
// its word.
func (s *Site) reloadAnchors() {
	s.reading.Lock()
	defer s.reading.Unlock()
	defer func() {
		// A running site must not end over a file.
		if r := recover(); r != nil {
			s.log.Error("the trust folder cannot be read, by a mistake of this program; what was trusted stays trusted; take the last change of the folder back, and report this",
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	a, problems, err := s.trusted.Load(s.clock.Now())
	if err != nil {
		s.log.Error("the trust folder cannot be read; what was trusted stays trusted", "error", err)
		return
	}
	defer s.tellStale(a)
	if a.Generation() == s.anchors.Load().Generation() {
		s.tellProblems(problems)
		return
	}
	s.staleTold = time.Time{} // of a new state all is told
	s.anchors.Store(a)
	s.auth.SetAnchors(a)
	s.tellTrust(a, problems)
	if len(a.List()) == 0 {
		s.log.Error("the trust folder holds no trusted certificate: nobody may call any more", "folder", s.config.Trusted)
		return
	}
	entries := 0
	for _, l := range a.RevocationLists() {
		entries += l.Len()
	}
	s.log.Info("trust folder read", "anchors", len(a.List()), "crls", len(a.RevocationLists()), "revoked", entries,
		"denied", len(a.Denials()), "generation", a.Generation())
}

// tellTrust logs what an operator should know of a trust folder.
func (s *Site) tellTrust(a *cert.Anchors, problems []cert.Problem) {
	s.tellProblems(problems)
	for _, x := range a.Struck() {
		s.log.Warn("a certificate of the trust folder is revoked, so it is not trusted", "file", x.Anchor.File, "name", x.Certificate.Name(), "by", display.Place(x.File, x.Line))
	}
	warnExpiry(a, s.clock.Now(), s.log)
}

// tellStale logs each CRL that has got out of date since this was last done.
func (s *Site) tellStale(a *cert.Anchors) {
	now := s.clock.Now()
	for _, l := range a.RevocationLists() {
		if l.Stale(now) && !l.Stale(s.staleTold) {
			s.log.Warn("a CRL is out of date; what it lists stays revoked; get a new one from its issuer", "file", l.File, "issuer", l.Issuer(), "next_update", l.NextUpdate)
		}
	}
	s.staleTold = now
}

// tellProblems logs what was passed over. A list that lets somebody in who
// should stay out is worse than one that keeps somebody out.
func (s *Site) tellProblems(problems []cert.Problem) {
	for _, p := range problems {
		level := slog.LevelWarn
		if Revokes(p.File) {
			level = slog.LevelError
		}
		s.log.Log(context.Background(), level, "trust folder", "problem", p.String())
	}
}

// Revokes tells whether a file of the trust folder says who stays out.
func Revokes(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return filepath.Ext(name) == ".crl" || strings.TrimSuffix(name, filepath.Ext(name)) == cert.DeniedFile
}

// watchTrust reads the trust folder again whenever it changes, and now and
// then, until ctx ends.
func (s *Site) watchTrust(ctx context.Context) {
	state := func() string { return trustState(s.config.Trusted) }
	seen, last := s.trustSeen, time.Now() // what has changed while the site was opened counts, too
	watchFiles(ctx, trustLatest, state, func(now string) {
		if now != seen || time.Since(last) >= trustInterval {
			seen, last = now, time.Now()
			s.reloadAnchors()
		}
	})
}

// trustState tells two states of the files apart that matter in the folder.
func trustState(dir string) string {
	entries, err := os.ReadDir(dir)
	var b strings.Builder
	fmt.Fprintln(&b, err)
	for _, e := range entries {
		if cert.Matters(e.Name()) {
			fmt.Fprintln(&b, e.Name(), stampOf(filepath.Join(dir, e.Name())))
		}
	}
	return b.String()
}

// warnExpiry tells of anchors that are over, or soon will be.
func warnExpiry(a *cert.Anchors, now time.Time, log *slog.Logger) {
	for _, x := range a.List() {
		if x.Certificate.NotAfter.Sub(now) < Soon {
			log.Warn("a trusted certificate expires", "file", x.File, "name", x.Certificate.URN, "expires", x.Certificate.NotAfter)
		}
	}
}

// Soon is how long before its end a certificate is warned about.
const Soon = 30 * 24 * time.Hour

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
