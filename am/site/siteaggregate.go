package site

import (
	"context"

	"patchbay/am/dryrun"
	"patchbay/am/service"
	"patchbay/am/work"
)

// openRunner makes who brings what is to what was promised, and finds the local
// testbeds that he needs.
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
		ProviderNames:       providerNames(s.index.Inventory),
		RemoveUnpromised:    c.Unpromised == unpromisedRemove,
		Stocked:             s.holdUnpromised,
		Limits:              work.Limits{Unpromised: c.UnpromisedAfter},
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
		Prober: dryrun.New(dryrun.Config{
			Components: Components(s.index.Inventory),
			Interfaces: Interfaces(s.index.Inventory),
			Providers:  s.testbeds.await(s.providers.Probing),
			Log:        s.log,
		}),
	})
	return nil
}
