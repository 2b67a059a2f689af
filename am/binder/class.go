package binder

import (
	"slices"

	"patchbay/inventory"
)

// classKey names the components that offer a sliver type and, unless hardware
// is empty, are of that hardware type and, unless link is nil, can use it.
type classKey struct {
	sliverType *inventory.SliverType
	hardware   string
	link       *inventory.Link
}

// class orders the components of one classKey, as in the inventory, by what is
// free on them: how many slivers of the type fit now.
type class struct {
	sliverType *inventory.SliverType
	members    []int32 // indexes of components, ascending
	exclusive  int     // how many of members are exclusive components

	lone  tree // exclusive components
	open  tree // shared components that hold slivers and are not closed
	empty tree // shared components that hold none

	// For explanations: members in service, slivers that would fit, members on
	// which all that is left is being cleaned, and those under maintenance.
	serving, slots, cleaning, away int
}

// plant makes the trees for the members there are.
func (c *class) plant() {
	n := len(c.members)
	c.lone, c.open, c.empty = newTree(n), newTree(n), newTree(n)
}

// set says that n slivers fit on the member at place; kind is where it stands,
// and the trees of other kinds forget it.
func (c *class) set(place int, kind *tree, n int32) {
	was := c.lone.at(place) + c.open.at(place) + c.empty.at(place) // only one is not 0
	for _, t := range []*tree{&c.lone, &c.open, &c.empty} {
		v := int32(0)
		if t == kind {
			v = n
		}
		if t.at(place) != v {
			t.set(place, v)
		}
	}
	c.slots += int(n) - int(was)
}

// has tells whether component i is a member.
func (c *class) has(i int32) bool {
	_, ok := slices.BinarySearch(c.members, i)
	return ok
}
