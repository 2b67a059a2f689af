package inventory

import (
	"maps"
	"slices"

	"patchbay/am"
)

// WithFound returns a copy of v that also has what providers have found out: their facts about
// images and components, and the capabilities of exclusive components that nodes have reported.
// A feature in the inventory file comes first, then one that nodes reported. WithFound ignores
// records of another provider, and what an earlier WithFound has added.
func (v *Inventory) WithFound(found []am.FoundComponent, facts map[string]Facts) *Inventory {
	if v.file != nil {
		v = v.file
	}
	if len(found) == 0 && len(facts) == 0 {
		return v
	}
	w := v.clone()
	w.file, w.facts = v, facts
	for _, f := range found {
		c, ok := w.Component(f.URN)
		if !ok || !c.Exclusive || c.Provider != f.Provider {
			continue
		}
		c.Capabilities = withItems(c.Capabilities, f.Capabilities)
	}
	w.addFacts(facts)
	return w
}

// clone returns a copy of v with components, interfaces, links, images and sliver types of its own.
func (v *Inventory) clone() *Inventory {
	w := *v
	types := w.cloneTypes()
	w.Components, w.Interfaces, w.Links = copyEach(v.Components), copyEach(v.Interfaces), copyEach(v.Links)
	portsOf := func(ports []*Interface) (own []*Interface) {
		for _, p := range ports {
			own = append(own, w.Interfaces[p.Index])
		}
		return own
	}
	for _, c := range w.Components {
		c.Interfaces = portsOf(c.Interfaces)
		c.SliverTypes = mapped(c.SliverTypes, types)
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

// cloneTypes gives v sliver types and images of its own. It returns the new types by the old ones.
func (v *Inventory) cloneTypes() map[*SliverType]*SliverType {
	images := pairs(v.Images, copyEach(v.Images))
	types := pairs(v.SliverTypes, copyEach(v.SliverTypes))
	v.Images, v.SliverTypes = mapped(v.Images, images), mapped(v.SliverTypes, types)
	v.DefaultSliverType = types[v.DefaultSliverType]
	for _, t := range v.SliverTypes {
		t.Images, t.DefaultImage, t.images = mapped(t.Images, images), images[t.DefaultImage], mappedValues(t.images, images)
	}
	v.images, v.types = mappedValues(v.images, images), mappedValues(v.types, types)
	v.patterns = slices.Clone(v.patterns)
	for i := range v.patterns {
		v.patterns[i].to = types[v.patterns[i].to]
	}
	return types
}

func pairs[T any](from, to []*T) map[*T]*T {
	m := make(map[*T]*T, len(from))
	for i := range from {
		m[from[i]] = to[i]
	}
	return m
}

func mapped[T any](list []*T, by map[*T]*T) []*T {
	out := make([]*T, len(list))
	for i, x := range list {
		out[i] = by[x]
	}
	return out
}

func mappedValues[T any](m map[string]*T, by map[*T]*T) map[string]*T {
	out := make(map[string]*T, len(m))
	for key, x := range m {
		out[key] = by[x]
	}
	return out
}
