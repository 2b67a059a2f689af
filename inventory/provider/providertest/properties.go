package providertest

import (
	"slices"
	"strings"

	"patchbay/inventory/provider"
)

// The interface that every node is asked to have, and what its link may ask for.
const (
	asksNothing = `"properties":[]`
	asksMuch    = `"properties":[{"capacity":10000,"latency":10}]`
)

// shaped is an update whose interfaces ask for properties.
func shaped(u provider.Update) provider.Update {
	list := slices.Clone(u.Should.List(provider.AttrInterfaces))
	for n := range list {
		list[n] = strings.Replace(list[n], asksNothing, asksMuch, 1)
	}
	u.Should[provider.AttrInterfaces] = list
	return u
}

// checkProperties asks for a link that is slower than others. One who cannot make
// it says so, and then in the kind that is for that.
func (s *suite) checkProperties() {
	if !s.p.Has(provider.AttrInterfaces) {
		return
	}
	c, err := s.dryRun(shaped(s.making(s.o.Node)))
	switch {
	case err != nil:
	case c.Err == nil:
		s.shapes = true
	case c.Err.Kind != provider.Unsupported:
		s.wrong(ruleInterfaces, "a capacity and a latency of a link are refused as %s: %v; if you cannot make them, the kind is unsupported", c.Err.Kind, detail(c.Err))
	}
}

// checkShaping looks whether a node whose properties were accepted tells by what
// means its link is made.
func (s *suite) checkShaping(name string, r provider.Resource) {
	if s.shapes && len(provider.ObservedNode(r).Emulators) == 0 {
		s.note(ruleInterfaces, "a capacity and a latency of a link of %s are accepted, and no emulator tells by what means; if links are not shaped, refuse such nodes with the kind unsupported", name)
	}
}
