package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/binder"
	"patchbay/am/mtls"
	"patchbay/am/probe"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/inventory"
	"patchbay/rspec"
)

// site is a running site: all rooms, opened and put together.
type site struct {
	config    *Config
	log       *slog.Logger
	store     *store.Store
	runner    *work.Runner
	working   atomic.Bool // the runner runs
	auth      *credentials.Authorizer
	trusted   *cert.Folder
	reading   sync.Mutex // of the trust folder: one at a time
	staleTold time.Time  // when stale CRLs were last looked for; guarded by reading
	anchors   atomic.Pointer[cert.Anchors]
	tls       *mtls.Context
	server    *server.Server
	listener  net.Listener // before TLS
	admin     net.Listener // nil for none
	socket    *adminSocket // nil for none
	testbeds  *testbeds    // the local ones, which live as long as the site is served
	PublicURL string       // as clients are told
	LocalURL  string       // of the address that is really listened at
}

// openSite opens every room of a site in the order in which they need each
// other. What is wrong is said with the file and the remedy; then nothing is
// left open.
func openSite(ctx context.Context, c *Config, log *slog.Logger) (_ *site, err error) {
	s := &site{config: c, log: log}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	inv, err := inventory.Load(c.Inventory, c.Authority)
	if err != nil {
		return nil, err
	}
	providers, err := loadProviders(c.Providers, inv, c.Inventory, log)
	if err != nil {
		return nil, err
	}
	if err := s.loadAnchors(); err != nil {
		return nil, err
	}
	s.auth = credentials.New(s.anchors.Load(), credentials.Config{
		SHA1Signatures:   c.Credentials.SHA1Signatures,
		SHA1Certificates: c.Credentials.SHA1Certificates,
		MinRSABits:       c.Credentials.MinRSABits,
		Signers:          c.Credentials.Signers,
		Speakers:         c.Credentials.Speakers,
		CacheSize:        c.Credentials.CacheSize,
	})
	s.testbeds = newTestbeds(findTestbeds(c.Providers, inv), log)
	if s.tls, err = mtls.New(c.tls(log)); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if s.store, err = store.Open(c.State, store.Options{Site: c.Authority}); err != nil {
		return nil, err
	}
	if err := s.warnMissing(inv); err != nil {
		return nil, err
	}
	index := binder.NewIndex(inv)
	if err := s.store.Observe(index); err != nil {
		return nil, err
	}
	s.runner = work.New(work.Config{
		Store:      s.store,
		Components: components(inv),
		Interfaces: interfaces(inv),
		Providers:  providers.get,
		Log:        log,

		ServicesMustSucceed: c.ServicesFailure == servicesFail,
	})
	reading := c.reading(inv)
	again := reading
	again.Stored, again.Judge = true, false // what was accepted once stays readable
	aggregate := service.New(service.Config{
		Store:                 s.store,
		Index:                 index,
		Inventory:             inv,
		Leases:                service.Leases(c.Leases),
		GeneratedBy:           "patchbay " + softwareVersion(),
		EmptyDescribeNotFound: c.EmptyDescribe == "not-found",
		ASCIIManifests:        c.ASCIIManifests,
		ManifestExtensions:    c.ManifestExtensions,
		Reading:               again,
		Wake:                  s.runner.Wake,
		Prober: probe.New(probe.Config{
			Components: components(inv),
			Interfaces: interfaces(inv),
			Providers:  s.testbeds.await(providers.probing),
			Log:        log,
		}),
	})
	s.server = server.New(c.Limits.Config, server.Options{
		API: api.New(aggregate, s.auth, api.Config{
			Manager:         inv.Manager,
			PublicURL:       s.PublicURL,
			SoftwareVersion: softwareVersion(),
			Reading:         reading,
		}),
		Log:       log,
		PublicURL: s.PublicURL,
		Chain:     peerChain,
		Ready:     s.ready,
		Manifest: func(sliver string) ([]byte, error) {
			u, err := urn.Parse(sliver)
			if err != nil {
				return nil, am.Errorf(am.BadArgs, "%v", err)
			}
			return aggregate.ManifestOf(u)
		},
		Gauges: s.gauges(),
	})
	// Only who has the store may take the socket, so this comes last.
	if s.socket, err = listenSocket(filepath.Join(filepath.Dir(c.origin.file), socketName)); err != nil {
		log.Warn("providers cannot ask for manifests, so their nodes will not know them", "error", err)
	}
	return s, nil
}

// warnMissing tells of components that are gone from the inventory while slivers
// are on them: nobody can look after those, nor take them away. It tells of
// interfaces, too, for what is not there cannot be counted.
func (s *site) warnMissing(inv *inventory.Inventory) error {
	slivers, err := s.store.Slivers()
	if err != nil {
		return err
	}
	held, plugged := make(map[string][]string), make(map[string][]string)
	for _, x := range slivers {
		if _, ok := inv.Component(x.Component); !ok {
			held[x.Component.String()] = append(held[x.Component.String()], x.URN.String())
			continue
		}
		for _, i := range x.Interfaces {
			if _, ok := inv.Interface(i.Component); !ok && !i.Component.IsZero() {
				plugged[i.Component.String()] = append(plugged[i.Component.String()], x.URN.String())
			}
		}
	}
	for _, port := range slices.Sorted(maps.Keys(plugged)) {
		s.log.Warn("slivers use an interface that is missing from the inventory, so what they take of the network is not counted; put it back under its old name until they are gone",
			"interface", port, "slivers", plugged[port], "inventory", s.config.Inventory)
	}
	for _, component := range slices.Sorted(maps.Keys(held)) {
		s.log.Warn("slivers are on a component that is missing from the inventory, so they can be neither looked after nor removed; put it back with drained: true",
			"component", component, "slivers", held[component], "inventory", s.config.Inventory)
	}
	return nil
}

// reading is how requests are read at a site.
func (c *Config) reading(inv *inventory.Inventory) rspec.ReadOptions {
	o := rspec.ReadOptions{
		Managers: append([]urn.URN{inv.Manager}, inv.Managers...), LinkTypes: inv.LinkTypes,
		CopyCrossLinks: inv.CrossLinks == inventory.Copy, Limits: c.Limits.RSpec, Judge: true,
	}
	if inv.LossUnit == inventory.AsFraction {
		o.PacketLoss = rspec.Fraction
	}
	return o
}

func (c *Config) tls(log *slog.Logger) mtls.Config {
	m := mtls.Config{
		SHA1Handshakes: c.Credentials.SHA1Certificates,
		OnHandshakeError: func(remote net.Addr, err error) {
			log.Debug("no connection", "remote", remote, "error", err)
		},
	}
	for _, k := range c.Keys {
		m.Keys = append(m.Keys, mtls.KeyPair{CertFile: k.Certificate, KeyFile: k.Key})
	}
	return m
}

func components(inv *inventory.Inventory) func(urn.URN) (component, provider string, ok bool) {
	return func(u urn.URN) (string, string, bool) {
		c, ok := inv.Component(u)
		if !ok {
			return "", "", false
		}
		return c.Name, c.Provider, true
	}
}

func interfaces(inv *inventory.Inventory) func(urn.URN) string {
	return func(u urn.URN) string {
		if i, ok := inv.Interface(u); ok {
			return i.Name
		}
		return ""
	}
}

func peerChain(c net.Conn) [][]byte {
	if c, ok := c.(*mtls.Conn); ok {
		return c.PeerChain()
	}
	return nil
}

// listen opens both listeners and finds out the URLs.
func (s *site) listen(ctx context.Context) (err error) {
	c := s.config
	if s.listener, err = listenTCP(c.Listen, "listen"); err != nil {
		return err
	}
	real := s.listener.Addr().(*net.TCPAddr)
	host, _, _ := net.SplitHostPort(c.Listen)
	s.LocalURL = publicURL(ctx, net.JoinHostPort(host, strconv.Itoa(real.Port)))
	s.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if s.PublicURL == "" {
		s.PublicURL = s.LocalURL
	}
	admin := c.Admin
	switch {
	case admin == "off":
		return nil
	case admin == "" && strings.HasSuffix(c.Listen, ":0"):
		admin = "127.0.0.1:0"
	case admin == "":
		admin = net.JoinHostPort("127.0.0.1", strconv.Itoa(real.Port%65535+1))
	}
	s.admin, err = listenTCP(admin, "admin")
	return err
}

// listenTCP listens, and says what to do when that is not possible. key is the
// setting that holds addr.
func listenTCP(addr, key string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen at %s: another program has that port; stop it, or choose another with the key %s", addr, key)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen at %s: ports below 1024 need a right this user has not; choose another with the key %s", addr, key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen at %s: this host has no such address; correct the key %s", addr, key)
	}
	return nil, fmt.Errorf("cannot listen: %w; correct the key %s", err, key)
}

// AdminURL is where health and metrics are; "" for nowhere.
func (s *site) AdminURL() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.Addr().String()
}

// serve answers calls until ctx ends, then stops in order: no new calls, the
// calls in progress, the runner, the local testbeds, the store.
func (s *site) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	runnerEnded := make(chan error, 1)
	go func() {
		s.testbeds.start(workers) // or first attempts would be in vain
		s.working.Store(true)
		err := s.runner.Run(workers)
		s.working.Store(false)
		if err != nil && workers.Err() == nil {
			stop(fmt.Errorf("the runner has ended: %w", err))
		}
		runnerEnded <- err
	}()
	serving := 1
	served := make(chan error, 3)
	go func() { served <- s.server.Serve(s.tls.Listener(s.listener)) }()
	if s.admin != nil {
		serving++
		go func() { served <- s.server.ServeAdmin(s.admin) }()
	}
	if s.socket != nil {
		serving++
		go func() { served <- s.server.ServeSocket(s.socket) }()
	}

	var failed error
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			failed = cause
		}
	case failed = <-served:
		serving--
	}
	s.log.Info("stopping: no new calls, finishing those in progress")
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	if err := s.server.Shutdown(patience); err != nil {
		s.log.Warn("calls were cut off", "error", err)
	}
	for ; serving > 0; serving-- {
		<-served
	}
	stopWorkers()
	<-runnerEnded
	s.testbeds.stop()
	return errors.Join(failed, s.close())
}

// close frees what openSite has opened, in the opposite order.
func (s *site) close() error {
	for _, l := range []net.Listener{s.listener, s.admin} {
		if l != nil {
			l.Close()
		}
	}
	if s.socket != nil {
		s.socket.remove()
	}
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	if s.tls != nil {
		s.tls.Close()
	}
	return err
}

// ready tells what is missing to serve calls.
func (s *site) ready() error {
	if len(s.anchors.Load().List()) == 0 {
		return errors.New("the trust folder holds no certificate, so nobody may call")
	}
	if !s.working.Load() {
		return errors.New("the runner does not run")
	}
	return s.store.Read(func(*store.View) error { return nil })
}

// gauges are the numbers that /metrics shows beside those of the server.
func (s *site) gauges() []server.Gauge {
	count := func(f func(*store.View, func()) error) func() float64 {
		return func() float64 {
			n := 0.0
			if err := s.store.Read(func(v *store.View) error { return f(v, func() { n++ }) }); err != nil {
				return -1
			}
			return n
		}
	}
	return []server.Gauge{
		{Name: "tls_connections", Help: "Connections whose TLS state is in memory.", Value: func() float64 { return float64(s.tls.Live()) }},
		{Name: "trust_anchors", Help: "Certificates in the trust folder.", Value: func() float64 { return float64(len(s.anchors.Load().List())) }},
		{Name: "tasks", Help: "Slivers that need work of their providers.", Value: count(func(v *store.View, one func()) error {
			return v.Tasks(func(am.Task) bool { one(); return true })
		})},
		{Name: "slivers", Help: "Slivers kept, those being removed included.", Value: count(func(v *store.View, one func()) error {
			return v.Slivers(func(am.Sliver) bool { one(); return true })
		})},
	}
}

// newLog is the log the configuration asks for.
func (l LogConfig) newLog(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// warnExpiry tells of anchors that are over, or soon will be.
func warnExpiry(a *cert.Anchors, now time.Time, log *slog.Logger) {
	for _, x := range a.List() {
		if x.Certificate.NotAfter.Sub(now) < soon {
			log.Warn("a trusted certificate expires", "file", x.File, "name", x.Certificate.URN, "expires", x.Certificate.NotAfter)
		}
	}
}
