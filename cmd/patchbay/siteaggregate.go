package main

import (
	"context"

	"patchbay/am/probe"
	"patchbay/am/service"
	"patchbay/am/work"
)

// openRunner makes who brings what is to what was promised, and finds the local
// testbeds that he needs.
func (s *site) openRunner(context.Context) error {
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
		Components: components(s.index.Inventory),
		Interfaces: interfaces(s.index.Inventory),
		Providers:  s.testbeds.alone(s.providers.get),
		Await: func(ctx context.Context) {
			s.testbeds.start(ctx) // or first attempts would be in vain
			s.working.Store(true)
		},
		Log: s.log,

		ServicesMustSucceed: c.ServicesFailure == servicesFail,
		ProviderNames:       providerNames(s.index.Inventory),
		RemoveUnpromised:    c.Unpromised == unpromisedRemove,
		Stocked:             s.holdUnpromised,
		Limits:              work.Limits{Unpromised: c.UnpromisedAfter},
	})
	return nil
}

// openAggregate makes who decides what is promised.
func (s *site) openAggregate(context.Context) error {
	c := s.config
	s.aggregate = service.New(service.Config{
		Store:                 s.store,
		Index:                 s.index,
		Leases:                service.Leases(c.Leases),
		Policy:                s.policy.policy,
		GeneratedBy:           "patchbay " + softwareVersion(),
		EmptyDescribeNotFound: c.EmptyDescribe == "not-found",
		ASCIIManifests:        c.ASCIIManifests,
		ManifestExtensions:    c.ManifestExtensions,
		Reading:               c.reading(s.index.Inventory()),
		Wake:                  s.runner.Wake,
		EndLeases:             s.runner.EndLeases,
		Settled:               s.audit.Settled,
		Prober: probe.New(probe.Config{
			Components: components(s.index.Inventory),
			Interfaces: interfaces(s.index.Inventory),
			Providers:  s.testbeds.await(s.providers.probing),
			Log:        s.log,
		}),
	})
	return nil
}
