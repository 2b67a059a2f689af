package site

import (
	"context"

	"patchbay/am/binder"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
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

// Reading is how requests are read at a site.
func (c *Config) Reading(inv *inventory.Inventory) rspec.ReadOptions {
	o := rspec.ReadOptions{
		Managers: append([]urn.URN{inv.Manager}, inv.Managers...), LinkTypes: inv.LinkTypes,
		CopyCrossLinks: inv.CrossLinks == inventory.Copy, Limits: c.Limits.RSpec, Judge: true,
	}
	if inv.LossUnit == inventory.AsFraction {
		o.PacketLoss = rspec.Fraction
	}
	return o
}

func Components(inv func() *inventory.Inventory) func(urn.URN) (component, provider string, ok bool) {
	return func(u urn.URN) (string, string, bool) {
		c, ok := inv().Component(u)
		if !ok {
			return "", "", false
		}
		return c.Name, c.Provider, true
	}
}

func Interfaces(inv func() *inventory.Inventory) func(urn.URN) string {
	return func(u urn.URN) string {
		if i, ok := inv().Interface(u); ok {
			return i.Name
		}
		return ""
	}
}
