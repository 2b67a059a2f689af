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
	"patchbay/am/binder"
	"patchbay/am/dryrun"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/am/policy"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/inventory"
)

// Open opens every room of a site in the order in which they need each
// other. What is wrong is said with the file and the remedy; then nothing is
// left open.
func Open(ctx context.Context, c *Config, log *slog.Logger) (*Site, error) {
	s := &Site{config: c, log: log}
	for _, open := range []func(context.Context) error{
		s.openInventory, // what there is, and who makes slivers of it
		s.openTrust,     // the time, and who may call
		s.listen,        // where they call; a port that is taken is told before anything is changed
		s.listenMetrics, // where monitors on other hosts ask
		s.openRecords,   // what was promised, and who is told of it
		s.openPolicy,    // who may have what
		s.openRunner,    // who brings what is to what was promised
		s.openAggregate, // who decides what is promised
		s.meetInventory, // what was promised by another one
		s.openUpkeep,    // what is out of service
		s.openServer,    // who answers calls
		s.openSocket,    // where providers and operators ask
	} {
		if err := open(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// openRunner makes who brings what is to what was promised, and finds the local
// testbeds that they need.
func (s *Site) openRunner(context.Context) error {
	c := s.config
	needed, err := s.needed()
	if err != nil {
		return err
	}
	s.testbeds = newTestbeds(findTestbeds(c.Providers, needed), s.log)
	if !c.readOnly {
		if s.locked, err = lockProviders(c.Providers, s.log); err != nil {
			return err
		}
		if err := s.testbeds.holdAll(); err != nil {
			return err
		}
	}
	s.runner = work.New(work.Config{
		Store:      s.store,
		Components: Components(s.index.Inventory),
		Interfaces: Interfaces(s.index.Inventory),
		Providers:  s.testbeds.alone(s.providers.get),
		Await: func(ctx context.Context) {
			s.testbeds.start(ctx) // or first attempts would be in vain
			s.working.Store(true)
		},
		Log: s.log,

		ServicesMustSucceed: c.ServicesFailure == servicesFail,
		ProviderNames:       func() []string { return slices.Collect(maps.Keys(providersOf(s.index.Inventory()))) },
		RemoveOrphans:       c.Orphans == orphansRemove,
		OrphansListed:       s.drainOrphaned,
		Limits:              work.Limits{OrphansAfter: c.OrphansAfter, Poll: c.PollProviders, Silent: 3 * c.PollProviders},
	})
	return nil
}

// openAggregate makes who decides what is promised.
func (s *Site) openAggregate(context.Context) error {
	c := s.config
	s.aggregate = service.New(service.Config{
		Store:                 s.store,
		Index:                 s.index,
		Leases:                service.Leases(c.Leases),
		Policy:                s.policy.policy,
		GeneratedBy:           "patchbay " + SoftwareVersion(),
		EmptyDescribeNotFound: c.EmptyDescribe == "not-found",
		ASCIIManifests:        c.ASCIIManifests,
		ManifestExtensions:    c.ManifestExtensions,
		Reading:               c.Reading(s.index.Inventory()),
		Wake:                  s.runner.Wake,
		EndLeases:             s.runner.EndLeases,
		Settled:               s.audit.Settled,
		Silent:                s.runner.Silent,
		Prober: dryrun.New(dryrun.Config{
			Components: Components(s.index.Inventory),
			Interfaces: Interfaces(s.index.Inventory),
			Providers:  s.testbeds.await(s.providers.Probing),
			Log:        s.log,
		}),
	})
	return nil
}

// openInventory reads what there is, and finds the providers that it names.
func (s *Site) openInventory(context.Context) error {
	c := s.config
	if err := c.checkFiles(); err != nil {
		return err
	}
	inv, err := inventory.Load(c.Inventory, c.Authority)
	if err != nil {
		return err
	}
	s.index = binder.NewIndex(inv)
	s.providers, err = loadProviders(c.Providers, inv, c.Inventory, s.log)
	return err
}

// openPolicy reads the rules of a site that is about to serve, and begins to count
// what is held.
func (s *Site) openPolicy(context.Context) error {
	c, inv := s.config, s.index.Inventory()
	s.policy = &policyFile{file: c.Policy, site: PolicySite(inv), log: s.log, policy: policy.New(nil)}
	if err := s.policy.take(func() (*policy.Rules, error) { return c.LoadPolicy(inv) }); err != nil {
		return err
	}
	for _, o := range []store.Observer{s.index, s.policy.policy.Usage()} {
		if err := s.store.Observe(o); err != nil {
			return err
		}
	}
	return nil
}

// openRecords opens what a site that is about to serve keeps: its store, the audit,
// and what of both is still to be told to hooks.
func (s *Site) openRecords(context.Context) (err error) {
	c := s.config
	if s.store, err = c.openStore(s.clock.Now, s.tellBroken); err != nil {
		return err
	}
	if s.audit, err = audit.Open(c.Audit, s.store, audit.Options{Log: s.log, Now: s.clock.Now}); err != nil {
		return err
	}
	return s.openHooks()
}

// tellBroken says what keeps the store from promising anything more.
func (s *Site) tellBroken(why error) {
	s.log.Error("the store promises nothing more; calls that would change something are refused until the next start", "state", s.config.State, "error", why)
}

// openUpkeep reads what is out of service at a site that is about to serve.
func (s *Site) openUpkeep(ctx context.Context) error {
	s.upkeep = newUpkeep(s.config.Maintenance, s.index.Inventory, s.store, s.aggregate, s.log)
	if s.config.readOnly {
		s.upkeep.hold.lockdown = &maintenance.Lockdown{Text: errReadOnly.Error()}
	}
	if err := s.lockRestored(); err != nil {
		return err
	}
	return s.upkeep.read(ctx)
}

// listen opens both listeners and finds out the URLs.
func (s *Site) listen(ctx context.Context) (err error) {
	c := s.config
	s.listener, err = listenTCP(c.Listen, "listen")
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.served():
		return fmt.Errorf("cannot listen at %s: this very site is served already; stop that server first", c.Listen)
	case err != nil:
		return err
	}
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
	s.admin, err = listenTCP(admin, "admin")
	return err
}

// listenMetrics opens the listener for monitors on other hosts.
func (s *Site) listenMetrics(context.Context) (err error) {
	if s.config.Metrics.Listen != "" {
		s.remote, err = openRemoteMetrics(s.config)
	}
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
		return nil, &takenError{addr, key}
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen at %s: ports below 1024 need a right this user has not; choose another with the key %s", addr, key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen at %s: this host has no such address; correct the key %s", addr, key)
	}
	return nil, fmt.Errorf("cannot listen: %w; correct the key %s", err, key)
}

// takenError says that somebody has a port; it is syscall.EADDRINUSE.
type takenError struct{ addr, key string }

func (e *takenError) Error() string {
	switch e.key {
	case "admin":
		return fmt.Sprintf("cannot listen at %s for health and metrics, by default the port after that of listen: another program has that port, perhaps another site of this host; stop it, or choose another with the key admin", e.addr)
	case "listen":
		return fmt.Sprintf("cannot listen at %s: another program has that port, perhaps another site of this host, which also takes the port after its own for health and metrics; stop it, or choose another with the key listen", e.addr)
	}
	return fmt.Sprintf("cannot listen at %s: another program has that port; stop it, or choose another with the key %s", e.addr, e.key)
}

func (*takenError) Unwrap() error { return syscall.EADDRINUSE }

// openServer makes what answers calls, those of operators among them.
func (s *Site) openServer(context.Context) error {
	c := s.config
	s.operations = operate.New(operate.Config{
		Store: s.store, Inventory: s.index.Inventory, Plan: s.upkeep.shown.Load, Wake: s.runner.Wake, Manifest: s.aggregate.Inspect,
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax, Orphans: s.orphanCounts, Silent: s.runner.Silent,
	})
	var admit func() error
	if c.AuditRequired {
		admit = s.audit.Admit
	}
	inv := s.index.Inventory()
	s.api = api.New(s.aggregate, s.auth, api.Config{
		Admit:           admit,
		Now:             s.clock.Now,
		Manager:         inv.Manager,
		PublicURL:       s.PublicURL,
		SoftwareVersion: SoftwareVersion(),
		Reading:         c.Reading(inv),
	})
	s.server = server.New(c.Limits.Config, server.Options{
		API:            s.api,
		Log:            s.log,
		Audit:          s.audit.Call,
		PublicURL:      s.PublicURL,
		Chain:          peerChain,
		CallerName:     s.who,
		Ready:          s.ready,
		AllowsRemote:   s.remote.admits,
		Manifest:       s.manifest,
		Maintenance:    s.upkeep.answer,
		Held:           s.policy.held,
		SocketHandlers: s.doors(),
		Numbers:        s.numbers(),
		Durations:      []*server.Durations{s.providers.calls},
	})
	return s.audit.Start(c.Authority)
}

// manifest is that of a sliver, for its provider.
func (s *Site) manifest(sliver string) ([]byte, error) {
	u, err := urn.Parse(sliver)
	if err != nil {
		return nil, am.Errorf(am.BadArgs, "%v", err)
	}
	return s.aggregate.ManifestOf(u)
}

// openSocket comes last, for only who has the store may take the socket. A site can
// do without.
func (s *Site) openSocket(context.Context) (err error) {
	if s.socket, err = listenSocket(filepath.Join(filepath.Dir(s.config.Origin.File), SocketName), s.log); err != nil {
		s.log.Warn("providers cannot ask for manifests, so their nodes will not know them", "error", err)
	}
	return nil
}
