package binder

import (
	"slices"

	"patchbay/inventory"
)

// Permit has the components and sliver types that a caller may use. The zero Permit allows
// everything.
type Permit struct {
	// Components are the permitted components, as ascending indexes in the inventory; nil
	// permits all.
	Components []int32
	// NoComponent is the text for experimenters when another component is refused.
	NoComponent string
	// SliverTypes are the names of the permitted sliver types; nil permits all.
	SliverTypes []string
	// NoSliverType is the text for experimenters when another sliver type is refused.
	NoSliverType string
}

func (p *Permit) allowsComponent(i int32) bool {
	if p.Components == nil {
		return true
	}
	_, ok := slices.BinarySearch(p.Components, i)
	return ok
}

func (p *Permit) allowsType(t *inventory.SliverType) bool {
	return p.SliverTypes == nil || slices.Contains(p.SliverTypes, t.Name)
}

// firstAllowed returns the first of the types that is permitted; the first of all if none is.
func (p *Permit) firstAllowed(types []*inventory.SliverType) *inventory.SliverType {
	for _, t := range types {
		if p.allowsType(t) {
			return t
		}
	}
	return types[0]
}
