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
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/follow/audit"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/service/dryrun"
	"patchbay/am/service/maintenance"
	"patchbay/am/service/policy"
	"patchbay/am/site/clock"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/inventory"
	"patchbay/rspec/compile"
)

// Open opens all parts of a site in the order of their dependencies. If a part fails, it closes
// the parts that are open, the last one first, and returns an error that names the file and the remedy.
func Open(ctx context.Context, c *Config, log *slog.Logger) (*Site, error) {
	s := &Site{config: c, log: log, found: make(chan struct{}, 1)}
	s.read, _ = ReadConfig(c.Origin.File)
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open calls the openers. Each gets the parts that it needs from those before it.
func (s *Site) open(ctx context.Context) error {
	providers, err := s.openInventory()
	if err != nil {
		return err
	}
	siteClock, auth, err := s.openTrust()
	if err != nil {
		return err
	}
	// The port may be in use, so listen before the site is changed.
	if err := s.listen(ctx); err != nil {
		return err
	}
	if err := s.listenMetrics(); err != nil {
		return err
	}
	if err := s.listenPages(); err != nil {
		return err
	}
	st, records, err := s.openRecords(siteClock)
	if err != nil {
		return err
	}
	inv, err := s.openFound(st)
	if err != nil {
		return err
	}
	rules, err := s.openPolicy(inv)
	if err != nil {
		return err
	}
	services, runner, err := s.openRunner(st, providers)
	if err != nil {
		return err
	}
	s.aggregate = s.openAggregate(st, providers, rules, services, runner)
	if err := s.reportInventory(ctx, st, s.aggregate); err != nil {
		return err
	}
	plan, err := s.openMaintenance(ctx, st, s.aggregate)
	if err != nil {
		return err
	}
	if err := s.openAuthority(siteClock, auth); err != nil {
		return err
	}
	if err := s.openServer(st, records, auth, plan, runner); err != nil {
		return err
	}
	if err := s.openPages(st); err != nil {
		return err
	}
	s.openSocket()
	return nil
}

// openRunner creates the runner and finds the services of providers; serve starts both. Unless the
// site is read-only, it locks the folder of the providers.
func (s *Site) openRunner(st *store.Store, providers *ProviderSet) (*companions, *work.Runner, error) {
	c := s.config
	needed, err := s.usedProviders()
	if err != nil {
		return nil, nil, err
	}
	s.companions = newCompanions(findCompanions(c.Providers, needed), s.log)
	if !c.readOnly {
		lock, err := lockProviders(c.Providers, s.log)
		if err != nil {
			return nil, nil, err
		}
		s.onClose(lock.Close)
	}
	s.runner = work.New(work.Config{
		Store:      st,
		Components: Components(s.inventory.Load),
		Interfaces: Interfaces(s.inventory.Load),
		Providers:  providers.get,
		Await: func(ctx context.Context) {
			s.companions.start(ctx) // before the first calls of providers, which would fail
			s.working.Store(true)
		},
		Begin: func(v *store.View, limit int) (store.ChangeSet, []am.Sliver, error) {
			return s.aggregate.Begin(v, limit)
		},
		Deadline: func(v *store.View, x *am.Sliver) time.Time { return s.aggregate.Deadline(v, x) },
		Log:      s.log,

		ServicesMustSucceed: c.ServicesFailure == servicesFail,
		ProviderNames:       func() []string { return slices.Collect(maps.Keys(providersOf(s.inventory.Load()))) },
		RemoveOrphans:       c.Orphans == orphansRemove,
		OrphansListed:       s.drainOrphaned,
		Found:               s.reportFound,
		Limits:              work.Limits{OrphansAfter: c.OrphansAfter, Poll: c.PollProviders, Silent: 3 * c.PollProviders},
	})
	return s.companions, s.runner, nil
}

func (s *Site) openAggregate(st *store.Store, providers *ProviderSet, rules *policyFile, services *companions, runner *work.Runner) *service.Service {
	c := s.config
	return service.New(service.Config{
		Store:                 st,
		Inventory:             &s.inventory,
		Leases:                service.Leases(c.Leases),
		Policy:                rules.policy,
		Denied:                s.checkDenied,
		GeneratedBy:           "patchbay " + SoftwareVersion(),
		EmptyDescribeNotFound: c.EmptyDescribe == "not-found",
		ASCIIManifests:        c.ASCIIManifests,
		ManifestExtensions:    c.ManifestExtensions,
		AdExtensions:          c.AdExtensions,
		Reading:               c.ReadOptions(s.inventory.Load()),
		Runner:                runner,
		HasStages:             providers.HasStages,
		ChangesNodes:          providers.ChangesNodes,
		Compile:               c.expand,
		URL:                   func() string { return s.PublicURL },
		Prober: dryrun.New(dryrun.Config{
			Components: Components(s.inventory.Load),
			Interfaces: Interfaces(s.inventory.Load),
			Providers:  services.awaitStart(providers.DryRunProvider),
			Log:        s.log,
		}),
	})
}

// openInventory loads the inventory, and opens the providers that it names.
func (s *Site) openInventory() (*ProviderSet, error) {
	c := s.config
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	inv, err := c.LoadInventory()
	if err != nil {
		return nil, err
	}
	if s.providers, err = loadProviders(c.Providers, inv, c.Inventory, s.log); err != nil {
		return nil, err
	}
	s.inventory.Store(inv.WithCleaning(s.providers.cleaningTimes()))
	return s.providers, nil
}

func (s *Site) openPolicy(inv *inventory.Inventory) (*policyFile, error) {
	c := s.config
	s.policy = &policyFile{file: c.Policy, site: PolicySite(inv), log: s.log, policy: policy.New(nil)}
	return s.policy, s.policy.apply(func() (*policy.Rules, error) { return c.LoadPolicy(inv) })
}

// openRecords opens the store, the audit and the hooks.
func (s *Site) openRecords(siteClock *clock.Clock) (_ *store.Store, _ *audit.Log, err error) {
	c := s.config
	if s.store, err = c.openStore(siteClock.Now, s.logBroken); err != nil {
		return nil, nil, err
	}
	s.onClose(s.store.Close)
	if s.audit, err = audit.Open(c.Audit, s.store, audit.Options{Log: s.log, Now: siteClock.Now}); err != nil {
		return nil, nil, err
	}
	s.onClose(s.audit.Close)
	return s.store, s.audit, s.openHooks(s.store)
}

func (s *Site) logBroken(reason error) {
	s.log.Error("the store accepts no more changes; calls that would change something are refused until the next start", "state", s.config.State, "error", reason)
}

// openMaintenance locks the site down if the site is read-only or has just been restored.
func (s *Site) openMaintenance(ctx context.Context, st *store.Store, aggregate *service.Service) (*maintenanceFile, error) {
	s.maintenance = newMaintenanceFile(s.config.Maintenance, s.inventory.Load, st, aggregate, s.log)
	if s.config.readOnly {
		s.maintenance.extra.lockdown = &maintenance.Lockdown{Text: errReadOnly.Error()}
	}
	if err := s.lockRestored(); err != nil {
		return nil, err
	}
	return s.maintenance, s.maintenance.read(ctx)
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

func (s *Site) listenMetrics() (err error) {
	if s.config.Metrics.Listen == "" {
		return nil
	}
	if s.remote, err = openRemoteMetrics(s.config); err == nil {
		s.onClose(closeListener(s.remote.listener))
	}
	return err
}

// listenTCP listens at addr. key is the configuration key of addr, for the remedy in an error.
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

func (s *Site) openServer(st *store.Store, records *audit.Log, auth *credentials.Authorizer, plan *maintenanceFile, runner *work.Runner) error {
	c := s.config
	s.operations = operate.New(operate.Config{
		Store: st, Inventory: s.inventory.Load, Plan: plan.shown.Load, Wake: runner.Wake, Manifest: s.aggregate.Inspect, Reading: c.ReadOptions,
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax, Orphans: s.orphanCounts, Silent: runner.Silent,
	})
	var admit func() error
	if c.AuditRequired {
		admit = records.Admit
	}
	inv := s.inventory.Load()
	s.api = api.New(s.aggregate, auth, api.Config{
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
		Audit:          records.Call,
		PublicURL:      s.PublicURL,
		Chain:          peerChain,
		CallerName:     s.nameForLimits,
		Ready:          s.checkReady,
		AllowsRemote:   s.remote.admits,
		Manifest:       s.manifest,
		SocketHandlers: s.endpoints(),
		Numbers:        s.numbers(),
		Durations:      []*server.Durations{s.providers.calls},

		AuthorityInProcess: !c.TrialAuthority.Serve,
	})
	return records.Start(c.Authority)
}

// manifest returns the manifest of a sliver, for the provider of the sliver.
func (s *Site) manifest(sliver string) ([]byte, error) {
	u, err := urn.Parse(sliver)
	if err != nil {
		return nil, am.Errorf(am.BadArgs, "%v", err)
	}
	return s.aggregate.ManifestOf(u)
}

// openSocket must run last, because only the process that has opened the store may replace the
// socket. If it fails, the site still serves calls.
func (s *Site) openSocket() {
	socket, err := listenSocket(filepath.Join(filepath.Dir(s.config.Origin.File), SocketName), s.log)
	if err != nil {
		s.log.Warn("the admin socket cannot be opened; providers cannot get manifests, and commands must read the site's files", "error", err)
		return
	}
	s.socket = socket
	s.onClose(func() error { socket.remove(); return nil })
}
