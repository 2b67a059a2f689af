package site

import (
	"context"
	"errors"
	"path/filepath"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/operate"
	"patchbay/am/server"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// openServer makes what answers calls, those of operators among them.
func (s *Site) openServer(context.Context) error {
	c := s.config
	s.operations = operate.New(operate.Config{
		Store: s.store, Inventory: s.index.Inventory, Plan: s.upkeep.shown.Load, Wake: s.runner.Wake, Manifest: s.aggregate.Inspect,
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax, Unpromised: s.unpromisedOn,
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
		API:         s.api,
		Log:         s.log,
		Audit:       s.audit.Call,
		PublicURL:   s.PublicURL,
		Chain:       peerChain,
		Who:         s.who,
		Ready:       s.ready,
		Manifest:    s.manifest,
		Maintenance: s.upkeep.answer,
		Held:        s.policy.held,
		Doors:       s.doors(),
		Gauges:      s.gauges(),
		Durations:   []*server.Durations{s.providers.calls},
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

// ready tells what is missing to serve calls.
func (s *Site) ready() error {
	if len(s.anchors.Load().List()) == 0 {
		return errors.New("the trust folder holds no certificate, so nobody may call")
	}
	if !s.working.Load() {
		return errors.New("the runner does not run")
	}
	if err := s.audit.Err(); err != nil {
		return err
	}
	if err := s.store.Err(); err != nil {
		return err
	}
	return s.store.Read(func(*store.View) error { return nil })
}
