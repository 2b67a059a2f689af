package site

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/am/follow/audit"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/web"
)

// webOff is the value of web.listen for a site without pages.
const webOff = "off"

// simulatedProvider is the name of the provider whose nodes are simulated, so they have no logins.
const simulatedProvider = "simulated"

// pages is the listener of the pages.
type pages struct {
	config   *Config
	listener net.Listener
	url      string // scheme://host:port
	tls      atomic.Pointer[tls.Config]
	handler  http.Handler
}

// listenPages listens for browsers, unless the pages are off. A site of an earlier version has no key web: then
// it is served without pages if another program uses the default port.
func (s *Site) listenPages() error {
	c := s.config.Web
	if c.Listen == webOff {
		return nil
	}
	isDefault := c.Listen == ""
	if isDefault {
		host, _, _ := net.SplitHostPort(s.config.Listen)
		port := 0
		if !strings.HasSuffix(s.config.Listen, ":0") {
			port = s.listener.Addr().(*net.TCPAddr).Port + 2
		}
		if port > 1<<16-1 {
			s.log.Warn("no pages are served, since there is no port after those of listen and admin; choose one with the key web.listen")
			return nil
		}
		c.Listen = net.JoinHostPort(host, strconv.Itoa(port))
	}
	l, err := listenTCP(c.Listen, "web.listen")
	if isDefault && errors.Is(err, syscall.EADDRINUSE) {
		s.log.Warn("no pages are served, because another program uses the port; choose another one with the key web.listen, or write off", "address", c.Listen)
		return nil
	}
	if err != nil {
		return err
	}
	s.onClose(closeListener(l))
	s.pages = &pages{config: s.config, listener: l}
	if s.pages.url, err = s.pagesURL(); err != nil {
		return err
	}
	return s.pages.reload()
}

// usesTLS reports whether the listener uses TLS. Without a certificate of its own, a loopback address does not:
// browsers would warn of the server's certificate.
func (x *pages) usesTLS() bool {
	return x.config.Web.Certificate != "" || !x.listener.Addr().(*net.TCPAddr).IP.IsLoopback()
}

// pagesURL returns the URL of the pages for browsers.
func (s *Site) pagesURL() (string, error) {
	if s.config.Web.PublicURL != "" {
		return strings.TrimSuffix(s.config.Web.PublicURL, "/"), nil
	}
	if !s.pages.usesTLS() {
		return "http://" + s.pages.listener.Addr().String(), nil
	}
	u, err := url.Parse(s.PublicURL)
	if err != nil {
		return "", err
	}
	return "https://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(s.pages.listener.Addr().(*net.TCPAddr).Port)), nil
}

// PagesURL returns the URL of the pages; "" if the site serves none.
func (s *Site) PagesURL() string {
	if s.pages == nil {
		return ""
	}
	return s.pages.url
}

// reload reads the certificates again. After an error, the previous ones stay in use. It does nothing
// if x is nil.
func (x *pages) reload() error {
	if x == nil || !x.usesTLS() {
		return nil
	}
	pairs := x.config.Keys
	if x.config.Web.Certificate != "" {
		pairs = []KeyPair{{x.config.Web.Certificate, x.config.Web.Key}}
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	for _, k := range pairs {
		pair, err := tls.LoadX509KeyPair(k.Certificate, k.Key)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Certificate, err)
		}
		t.Certificates = append(t.Certificates, pair)
	}
	x.tls.Store(t)
	return nil
}

// CheckWeb fails if the certificate of the pages cannot be used.
func (c *Config) CheckWeb() error {
	if c.Web.Certificate == "" || c.Web.Key == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(c.Web.Certificate, c.Web.Key); err != nil {
		return c.Origin.errorf("web.certificate", "%v; correct the paths of certificate and key", err)
	}
	return nil
}

// secure returns a function that adds TLS to a listener; nil if the pages use none.
func (x *pages) secure() func(net.Listener) net.Listener {
	if !x.usesTLS() {
		return nil
	}
	return func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return x.tls.Load(), nil },
		})
	}
}

// openPages makes the handler of the pages. It must run after openServer, whose API they call.
func (s *Site) openPages(st *store.Store) (err error) {
	if s.pages == nil {
		return nil
	}
	s.pages.handler, err = web.New(web.Config{
		Site:      s.config.Authority,
		URL:       s.pages.url,
		Aggregate: s.PublicURL,
		Manager:   s.inventory.Load().Manager,
		Authority: s.trialState,
		Transport: s.server.InProcess,
		Free:      s.aggregate.Free,
		Calendar:  s.aggregate.Calendar,
		AheadMax:  s.config.Leases.AheadMax,
		AheadStep: s.config.Leases.AheadStep,
		Admin:     s.server.SocketHandler(),
		IsSimulated: func(component string) bool {
			c, ok := s.inventory.Load().ComponentNamed(component)
			return ok && c.Provider == simulatedProvider
		},
		CompileOptions: s.config.CompileOptions,
		Who: func(p audit.Place, at time.Time) (*audit.Answer, error) {
			files, err := audit.Files(s.config.Audit)
			if err != nil {
				return nil, err
			}
			return audit.Who(files, p, at)
		},
		JournalKeep:  s.config.JournalKeep,
		Lease:        s.config.Leases.Provisioned,
		LongestLease: s.config.Leases.ProvisionedMax,
		Revision:     func() uint64 { return uint64(st.Revision()) },
		SliceRevision: func(slice urn.URN) (n uint64, err error) {
			err = st.Read(func(v *store.View) error { n = v.SliceRevision(slice); return nil })
			return n, err
		},
		BeginStream: s.server.BeginStream,
		Now:         s.clock.Now,
		Log:         s.log,
	})
	return err
}
