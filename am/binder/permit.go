package binder

import (
	"slices"
	"sort"

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

func (p *Permit) component(i int32) bool {
	if p.Components == nil {
		return true
	}
	_, ok := slices.BinarySearch(p.Components, i)
	return ok
}

func (p *Permit) sliverType(t *inventory.SliverType) bool {
	return p.SliverTypes == nil || slices.Contains(p.SliverTypes, t.Name)
}

// firstAllowed returns the first of all types if none is permitted.
func (p *Permit) firstAllowed(types []*inventory.SliverType) *inventory.SliverType {
	for _, t := range types {
		if p.sliverType(t) {
			return t
		}
	}
	return types[0]
}

// nextAllowed returns the next place at which a search may find a permitted component. The
// given place has component i, which is not permitted. The cost of a search grows only with
// the free or the permitted components, whichever are fewer.
func (p *Permit) nextAllowed(c *class, kind, place int, i int32) int {
	if kind == ownHosts {
		return place + 1
	}
	k, _ := slices.BinarySearch(p.Components, i)
	if k == len(p.Components) {
		return len(c.members)
	}
	rest := c.members[place:]
	return place + sort.Search(len(rest), func(j int) bool { return rest[j] >= p.Components[k] })
}

func (p *Permit) permitsAny(c *class) bool {
	members, permitted := c.members, p.Components
	for len(members) > 0 && len(permitted) > 0 {
		switch m, q := members[0], permitted[0]; {
		case m == q:
			return true
		case m < q:
			j, _ := slices.BinarySearch(members, q)
			members = members[j:]
		default:
			j, _ := slices.BinarySearch(permitted, m)
			permitted = permitted[j:]
		}
	}
	return false
}
