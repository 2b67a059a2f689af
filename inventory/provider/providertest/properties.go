package providertest

import (
	"slices"
	"strings"

	"patchbay/inventory/provider"
)

// noProperties and someProperties are two texts for the same member of an interface in JSON:
// the properties of its link.
const (
	noProperties   = `"properties":[]`
	someProperties = `"properties":[{"capacity":10000,"latency":10}]`
)

// withProperties changes u so that its interfaces request properties.
func withProperties(u provider.Update) provider.Update {
	list := slices.Clone(u.Should.List(provider.AttrInterfaces))
	for n := range list {
		list[n] = strings.Replace(list[n], noProperties, someProperties, 1)
	}
	u.Should[provider.AttrInterfaces] = list
	return u
}

// checkProperties makes a dry run for a node whose link has a capacity and a latency. A
// provider that does not support link properties must refuse the node with the kind
// unsupported.
func (s *suite) checkProperties() {
	if !s.p.Has(provider.AttrInterfaces) {
		return
	}
	c, err := s.dryRun(withProperties(s.newUpdate(s.o.Node)))
	switch {
	case err != nil:
	case c.Err == nil:
		s.acceptsProperties = true
	case c.Err.Kind != provider.Unsupported:
		s.wrong(ruleInterfaces, "a link with a capacity and a latency is refused with the kind %s: %v; if you cannot shape links, use the kind unsupported", c.Err.Kind, detail(c.Err))
	}
}

// checkShaping records a note if the provider accepts link properties but the node r reports
// no emulator.
func (s *suite) checkShaping(name string, r provider.Resource) {
	if s.acceptsProperties && len(provider.ObservedNode(r).Emulators) == 0 {
		s.note(ruleInterfaces, "%s is accepted with a link that has a capacity and a latency, but no emulator is reported; if you cannot shape links, refuse such nodes with the kind unsupported", name)
	}
}
