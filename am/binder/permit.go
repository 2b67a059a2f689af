package binder

import (
	"slices"
	"sort"

	"patchbay/inventory"
)

// Permit is what of a site may be had. The zero Permit is everything.
type Permit struct {
	// Components are their indexes in the inventory, ascending; nil for all.
	Components []int32
	// NoComponent says why not the others, for experimenters.
	NoComponent string
	// SliverTypes are names; nil for all.
	SliverTypes []string
	// NoSliverType says why not the others.
	NoSliverType string
}

// component tells whether component i may be had.
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

// first is the first of types that may be had, or the first of all.
func (p *Permit) first(types []*inventory.SliverType) *inventory.SliverType {
	for _, t := range types {
		if p.sliverType(t) {
			return t
		}
	}
	return types[0]
}

// after is the first place of a kind, behind that of component i, which may not
// be had, where one may be that can. It leaps from one permitted component to
// the next, so that a search costs no more than the smaller of what is free and
// what is permitted.
func (p *Permit) after(c *class, kind, at int, i int32) int {
	if kind == ownHosts {
		return at + 1
	}
	k, _ := slices.BinarySearch(p.Components, i)
	if k == len(p.Components) {
		return len(c.members)
	}
	rest := c.members[at:]
	return at + sort.Search(len(rest), func(j int) bool { return rest[j] >= p.Components[k] })
}

// meets tells whether a member of c may be had.
func (p *Permit) meets(c *class) bool {
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
