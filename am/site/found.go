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
	return withFound(inv, s.store)
}

func withFound(inv *inventory.Inventory, st *store.Store) (*inventory.Inventory, error) {
	var found []am.FoundComponent
	err := st.Read(func(v *store.View) error {
		return v.Components(func(f am.FoundComponent) bool { found = append(found, f); return true })
	})
	return inv.WithFound(found), err
}

// openFound adds found capabilities to the inventory.
func (s *Site) openFound(context.Context) error {
	inv, err := s.withFound(s.inventory.Load())
	if err == nil && inv != s.inventory.Load() {
		s.inventory.Store(inv)
	}
	return err
}

// reportFound makes watchFound use new records. It never blocks.
func (s *Site) reportFound() {
	select {
	case s.found <- struct{}{}:
	default:
	}
}

// watchFound replaces the inventory after the runner has found capabilities, until ctx ends.
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

// useFound puts the current inventory with all found capabilities in place of the current one.
// While a reload runs, useFound only asks watchFound to call it again, because a stop must not
// wait for a reload.
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
