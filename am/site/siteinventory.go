package site

import (
	"context"

	"patchbay/am/binder"
	"patchbay/inventory"
)

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
