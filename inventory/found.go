package inventory

import (
	"maps"

	"patchbay/am"
	"patchbay/rspec/match"
)

// WithFound returns a copy of v in which exclusive components also have the capabilities that
// their providers have found. A feature in the inventory file comes first. WithFound ignores
// records of another provider, and what an earlier WithFound has added.
func (v *Inventory) WithFound(found []am.FoundComponent) *Inventory {
	if v.file != nil {
		v = v.file
	}
	if len(found) == 0 {
		return v
	}
	w := v.clone()
	w.file = v
	for _, f := range found {
		c, ok := w.Component(f.URN)
		if !ok || !c.Exclusive || c.Provider != f.Provider {
			continue
		}
		all, _, _ := match.ParseItems(f.Capabilities) // the runner has left out malformed items
		maps.Copy(all, c.Capabilities)
		c.Capabilities = all
	}
	return w
}

// clone returns a copy of v with components, interfaces and links of its own.
func (v *Inventory) clone() *Inventory {
	w := *v
	w.Components, w.Interfaces, w.Links = copyEach(v.Components), copyEach(v.Interfaces), copyEach(v.Links)
	portsOf := func(ports []*Interface) (own []*Interface) {
		for _, p := range ports {
			own = append(own, w.Interfaces[p.Index])
		}
		return own
	}
	for _, c := range w.Components {
		c.Interfaces = portsOf(c.Interfaces)
	}
	for _, l := range w.Links {
		l.Interfaces = portsOf(l.Interfaces)
	}
	for _, p := range w.Interfaces {
		p.Component = w.Components[p.Component.Index]
		if p.Link != nil {
			p.Link = w.Links[p.Link.Index]
		}
	}
	w.byURN, w.byName, w.byPort = maps.Clone(v.byURN), maps.Clone(v.byName), maps.Clone(v.byPort)
	for key, c := range w.byURN {
		w.byURN[key] = w.Components[c.Index]
	}
	for key, c := range w.byName {
		w.byName[key] = w.Components[c.Index]
	}
	for key, p := range w.byPort {
		w.byPort[key] = w.Interfaces[p.Index]
	}
	return &w
}

func copyEach[T any](list []*T) []*T {
	out := make([]*T, len(list))
	for i, x := range list {
		y := *x
		out[i] = &y
	}
	return out
}
