package site

import (
	"log/slog"
	"sync/atomic"

	"patchbay/am/service"
	"patchbay/am/service/dryrun"
	"patchbay/am/service/maintenance"
	"patchbay/am/service/policy"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/rspec/compile"
)

// CompileOptions returns the options to compile sources for the site.
func (c *Config) CompileOptions() (o compile.Options, err error) {
	o.GivesAddresses = true
	if o.Site, err = c.LoadInventory(); err == nil {
		o.Library, err = c.LoadLibrary()
	}
	return o, err
}

// Previewer returns a service for Service.Preview alone, with the settings of the site. It has no
// store. A provider that cannot be opened is not asked, and is expected to do everything. asks
// reports whether the provider of a component makes dry runs.
func (c *Config) Previewer(inv *inventory.Inventory, plan *maintenance.Plan, dryRuns bool, log *slog.Logger) (s *service.Service, asks func(*inventory.Component) bool) {
	providers, _ := provider.Load(c.Providers, log) // the check of the site reports the errors
	set := &ProviderSet{Found: providers}
	var current atomic.Pointer[inventory.Inventory]
	current.Store(inv)
	x := service.Config{
		Inventory: &current, Plan: plan, Policy: policy.New(nil), Reading: c.ReadOptions(inv), Compile: c.expand,
		HasStages: func(name string) bool { return providers[name] == nil || set.HasStages(name) },
		URL:       func() string { return c.PublicURL },
	}
	if !dryRuns {
		return service.New(x), func(*inventory.Component) bool { return false }
	}
	prober := dryrun.New(dryrun.Config{Components: Components(current.Load), Interfaces: Interfaces(current.Load), Providers: set.DryRunProvider, Log: log})
	x.Prober = prober
	return service.New(x), func(x *inventory.Component) bool { return prober.WantsProbe(x.URN) }
}
