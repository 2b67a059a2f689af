package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/audit"
	"patchbay/am/dryrun"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/am/policy"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/rspec/compile"
)

// Open opens all parts of a site in the order of their dependencies. If a part fails, it closes
// the parts that are open, the last one first, and returns an error that names the file and the remedy.
func Open(ctx context.Context, c *Config, log *slog.Logger) (*Site, error) {
	s := &Site{config: c, log: log, found: make(chan struct{}, 1)}
	s.read, _ = ReadConfig(c.Origin.File)
	for _, open := range []func(context.Context) error{
		s.openInventory, // components and providers
		s.openTrust,     // clock, trust anchors, TLS
		s.listen,        // before the site is changed, since the port may be in use
		s.listenMetrics,
		s.openRecords, // store, audit, hooks
		s.openFound,
		s.openPolicy,
		s.openRunner,
		s.openAggregate,
		s.reportInventory,
		s.openMaintenance, // lockdown and maintenance
		s.openAuthority,
		s.openServer,
		s.openSocket,
	} {
		if err := open(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// openRunner also finds the services of providers.
func (s *Site) openRunner(context.Context) error {
	c := s.config
	needed, err := s.usedProviders()
	if err != nil {
		return err
	}
	s.companions = newCompanions(findCompanions(c.Providers, needed), s.log)
	if !c.readOnly {
		lock, err := lockProviders(c.Providers, s.log)
		if err != nil {
			return err
		}
		s.onClose(lock.Close)
	}
	s.runner = work.New(work.Config{
		Store:      s.store,
		Components: Components(s.inventory.Load),
		Interfaces: Interfaces(s.inventory.Load),
		Providers:  s.providers.get,
		Await: func(ctx context.Context) {
			s.companions.start(ctx) // before the first calls of providers, which would fail
			s.working.Store(true)
		},
		Log: s.log,

		ServicesMustSucceed: c.ServicesFailure == servicesFail,
		ProviderNames:       func() []string { return slices.Collect(maps.Keys(providersOf(s.inventory.Load()))) },
		RemoveOrphans:       c.Orphans == orphansRemove,
		OrphansListed:       s.drainOrphaned,
		Found:               s.reportFound,
		Limits:              work.Limits{OrphansAfter: c.OrphansAfter, Poll: c.PollProviders, Silent: 3 * c.PollProviders},
	})
	return nil
}

func (s *Site) openAggregate(context.Context) error {
	c := s.config
	s.aggregate = service.New(service.Config{
		Store:                 s.store,
		Inventory:             &s.inventory,
		Leases:                service.Leases(c.Leases),
		Policy:                s.policy.policy,
		GeneratedBy:           "patchbay " + SoftwareVersion(),
		EmptyDescribeNotFound: c.EmptyDescribe == "not-found",
		ASCIIManifests:        c.ASCIIManifests,
		ManifestExtensions:    c.ManifestExtensions,
		Reading:               c.ReadOptions(s.inventory.Load()),
		Runner:                s.runner,
		Settled:               s.audit.Settled,
		HasStages:             s.providers.HasStages,
		ChangesNodes:          s.providers.ChangesNodes,
		Compile:               c.expand,
		URL:                   func() string { return s.PublicURL },
		Prober: dryrun.New(dryrun.Config{
			Components: Components(s.inventory.Load),
			Interfaces: Interfaces(s.inventory.Load),
			Providers:  s.companions.awaitStart(s.providers.DryRunProvider),
			Log:        s.log,
		}),
	})
	return nil
}

// openInventory also opens the providers that the inventory names.
func (s *Site) openInventory(context.Context) error {
	c := s.config
	if err := c.checkFiles(); err != nil {
		return err
	}
	inv, err := c.LoadInventory()
	if err != nil {
		return err
	}
	if s.providers, err = loadProviders(c.Providers, inv, c.Inventory, s.log); err != nil {
		return err
	}
	s.inventory.Store(inv.WithCleaning(s.providers.cleaningTimes()))
	return nil
}

func (s *Site) openPolicy(context.Context) error {
	c, inv := s.config, s.inventory.Load()
	s.policy = &policyFile{file: c.Policy, site: PolicySite(inv), log: s.log, policy: policy.New(nil)}
	return s.policy.apply(func() (*policy.Rules, error) { return c.LoadPolicy(inv) })
}

func (s *Site) openRecords(context.Context) (err error) {
	c := s.config
	if s.store, err = c.openStore(s.clock.Now, s.logBroken); err != nil {
		return err
	}
	s.onClose(s.store.Close)
	if s.audit, err = audit.Open(c.Audit, s.store, audit.Options{Log: s.log, Now: s.clock.Now}); err != nil {
		return err
	}
	s.onClose(s.audit.Close)
	return s.openHooks()
}

func (s *Site) logBroken(reason error) {
	s.log.Error("the store accepts no more changes; calls that would change something are refused until the next start", "state", s.config.State, "error", reason)
}

// openMaintenance locks the site down if the site is read-only or has just been restored.
func (s *Site) openMaintenance(ctx context.Context) error {
	s.maintenance = newMaintenanceFile(s.config.Maintenance, s.inventory.Load, s.store, s.aggregate, s.log)
	if s.config.readOnly {
		s.maintenance.extra.lockdown = &maintenance.Lockdown{Text: errReadOnly.Error()}
	}
	if err := s.lockRestored(); err != nil {
		return err
	}
	return s.maintenance.read(ctx)
}

// listen opens the listeners for clients and for the admin address, and determines the URLs.
func (s *Site) listen(ctx context.Context) (err error) {
	c := s.config
	s.listener, err = listenTCP(c.Listen, "listen")
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.isServed():
		return fmt.Errorf("cannot listen at %s: this site is served already; stop that server first", c.Listen)
	case err != nil:
		return err
	}
	s.onClose(closeListener(s.listener))
	real := s.listener.Addr().(*net.TCPAddr)
	host, _, _ := net.SplitHostPort(c.Listen)
	s.LocalURL = PublicURLOf(ctx, net.JoinHostPort(host, strconv.Itoa(real.Port)))
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
	if s.admin, err = listenTCP(admin, "admin"); err == nil {
		s.onClose(closeListener(s.admin))
	}
	return err
}

// closeListener ignores errors, because the server has closed the listener at its own end.
func closeListener(l net.Listener) func() error {
	return func() error { l.Close(); return nil }
}

func (s *Site) listenMetrics(context.Context) (err error) {
	if s.config.Metrics.Listen == "" {
		return nil
	}
	if s.remote, err = openRemoteMetrics(s.config); err == nil {
		s.onClose(closeListener(s.remote.listener))
	}
	return err
}

// listenTCP names the remedy in its errors. key is the configuration key of addr.
func listenTCP(addr, key string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &portInUseError{addr, key}
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen at %s: this user may not use ports below 1024; choose another port with the key %s", addr, key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen at %s: this host has no such address; correct the key %s", addr, key)
	}
	return nil, fmt.Errorf("cannot listen: %w; correct the key %s", err, key)
}

type portInUseError struct{ addr, key string }

func (e *portInUseError) Error() string {
	switch e.key {
	case "admin":
		return fmt.Sprintf("cannot listen at %s for health and metrics: another program uses that port, perhaps another site of this host; stop it, or choose another port with the key admin (default: the port after the port of listen)", e.addr)
	case "listen":
		return fmt.Sprintf("cannot listen at %s: another program uses that port, perhaps another site of this host, which by default also uses the next port for health and metrics; stop it, or choose another port with the key listen", e.addr)
	}
	return fmt.Sprintf("cannot listen at %s: another program uses that port; stop it, or choose another port with the key %s", e.addr, e.key)
}

func (*portInUseError) Unwrap() error { return syscall.EADDRINUSE }

func (s *Site) openServer(context.Context) error {
	c := s.config
	s.operations = operate.New(operate.Config{
		Store: s.store, Inventory: s.inventory.Load, Plan: s.maintenance.shown.Load, Wake: s.runner.Wake, Manifest: s.aggregate.Inspect, Reading: c.ReadOptions,
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax, Orphans: s.orphanCounts, Silent: s.runner.Silent,
	})
	var admit func() error
	if c.AuditRequired {
		admit = s.audit.Admit
	}
	inv := s.inventory.Load()
	s.api = api.New(s.aggregate, s.auth, api.Config{
		Admit:           admit,
		Now:             s.clock.Now,
		Manager:         inv.Manager,
		PublicURL:       s.PublicURL,
		SoftwareVersion: SoftwareVersion(),
		Reading:         c.ReadOptions(inv),
		Language:        compile.Language,
	})
	s.server = server.New(c.Limits.Config, server.Options{
		API:            s.api,
		Authority:      s.authority(),
		Log:            s.log,
		Audit:          s.audit.Call,
		PublicURL:      s.PublicURL,
		Chain:          peerChain,
		CallerName:     s.callerName,
		Ready:          s.checkReady,
		AllowsRemote:   s.remote.admits,
		Manifest:       s.manifest,
		SocketHandlers: s.endpoints(),
		Numbers:        s.numbers(),
		Durations:      []*server.Durations{s.providers.calls},
	})
	return s.audit.Start(c.Authority)
}

// manifest is for the provider of the sliver.
func (s *Site) manifest(sliver string) ([]byte, error) {
	u, err := urn.Parse(sliver)
	if err != nil {
		return nil, am.Errorf(am.BadArgs, "%v", err)
	}
	return s.aggregate.ManifestOf(u)
}

// openSocket must run last, because only the process that has opened the store may replace the
// socket. If it fails, the site still serves calls.
func (s *Site) openSocket(context.Context) (err error) {
	if s.socket, err = listenSocket(filepath.Join(filepath.Dir(s.config.Origin.File), SocketName), s.log); err != nil {
		s.log.Warn("the admin socket cannot be opened; providers cannot get manifests, and commands must read the site's files", "error", err)
		return nil
	}
	s.onClose(func() error { s.socket.remove(); return nil })
	return nil
}
