package site

import (
	"context"

	"patchbay/am/policy"
	"patchbay/am/store"
)

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
