package site

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory"
)

// foundPause is the minimum time between two changes of the inventory by found capabilities. A
// change takes a while at a site with many components.
const foundPause = 5 * time.Second

// withFound returns inv with the capabilities that providers have found out.
func (s *Site) withFound(inv *inventory.Inventory) (*inventory.Inventory, error) {
	return s.config.withFound(inv, s.store)
}

func (c *Config) withFound(inv *inventory.Inventory, st *store.Store) (*inventory.Inventory, error) {
	var found []am.FoundComponent
	err := st.Read(func(v *store.View) error {
		return v.Components(func(f am.FoundComponent) bool { found = append(found, f); return true })
	})
	facts, _ := inventory.ReadFacts(c.Providers) // patchbay check reports errors
	return inv.WithFound(found, facts), err
}

// LoadInventory reads the inventory of the site, with the facts that its providers state in files,
// and the outbound access that its providers describe unless the inventory states it.
func (c *Config) LoadInventory() (*inventory.Inventory, error) {
	inv, err := inventory.Load(c.Inventory, c.Authority)
	if err != nil {
		return nil, err
	}
	if inv.OutsideAccess == inventory.Unknown {
		inv.OutsideAccess = outsideAccess(findCompanions(c.Providers, providersOf(inv)))
	}
	facts, _ := inventory.ReadFacts(c.Providers) // patchbay check reports errors
	return inv.WithFound(nil, facts), nil
}

// outsideAccess returns the outbound access that all services describe. It returns Unknown if there
// are no services, they differ, or one does not say.
func outsideAccess(services []*Companion) inventory.Choice {
	access := inventory.Unknown
	for i, c := range services {
		own := inventory.Unknown
		if c.Settings.Outbound != nil {
			own = map[bool]inventory.Choice{false: inventory.No, true: inventory.Yes}[*c.Settings.Outbound]
		}
		if i > 0 && own != access {
			return inventory.Unknown
		}
		access = own
	}
	return access
}

// openFound adds found capabilities to the inventory.
func (s *Site) openFound(st *store.Store) (*inventory.Inventory, error) {
	inv, err := s.config.withFound(s.inventory.Load(), st)
	if err == nil {
		s.inventory.Store(inv)
	}
	return inv, err
}

// reportFound makes watchFound use new records. It never blocks.
func (s *Site) reportFound() {
	select {
	case s.found <- struct{}{}:
	default:
	}
}

// factsPause is the interval at which the files of facts are read.
const factsPause = 5 * time.Second

// watchFacts makes watchFound use changed facts, until ctx ends.
func (s *Site) watchFacts(ctx context.Context) {
	ticks := time.NewTicker(factsPause)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		facts, err := inventory.ReadFacts(s.config.Providers)
		if s.inventory.Load().HasFacts(facts) {
			continue
		}
		if err != nil {
			s.log.Warn("facts of providers cannot be used", "error", err)
		}
		s.reportFound()
	}
}

// watchFound replaces the inventory after the runner has found capabilities, or the facts of a
// provider have changed, until ctx ends.
func (s *Site) watchFound(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.found:
		}
		if err := s.useFound(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("capabilities that providers have found are not used yet; Patchbay tries again", "error", err)
			s.reportFound()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(foundPause):
		}
	}
}

// useFound adds all found capabilities to the current inventory. While a reload runs, useFound only
// asks watchFound to call it again, because a stop must not wait for a reload.
func (s *Site) useFound(ctx context.Context) error {
	if !s.reloading.TryLock() {
		s.reportFound()
		return nil
	}
	defer s.reloading.Unlock()
	inv, err := s.withFound(s.inventory.Load())
	if err != nil {
		return err
	}
	return s.aggregate.SetInventory(ctx, inv, func() {})
}
