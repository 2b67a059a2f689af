package site

import (
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

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
