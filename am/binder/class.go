package binder

import (
	"slices"

	"patchbay/inventory"
)

// classKey identifies the components that offer a sliver type, have a hardware type
// (unless it is empty) and can use a physical link (unless it is nil).
type classKey struct {
	sliverType *inventory.SliverType
	hardware   string
	link       *inventory.Link
}

// class holds the components of one classKey in the order of the inventory, and the
// number of slivers of the type that still fit on each.
type class struct {
	sliverType *inventory.SliverType
	members    []int32 // indexes of components, ascending
	exclusive  int     // the number of members that are exclusive components

	lone  tree // exclusive components
	open  tree // shared components that hold slivers and are not closed
	empty tree // shared components that hold none

	// Counts: members in service, slivers that still fit, members in service whose
	// slivers are all being cleaned, and members under maintenance.
	serving, slots, cleaning, away int
}

func (c *class) makeTrees() {
	n := len(c.members)
	c.lone, c.open, c.empty = newTree(n), newTree(n), newTree(n)
}

// set stores n in the tree target, and 0 in the other two trees.
func (c *class) set(index int, target *tree, n int32) {
	was := c.lone.at(index) + c.open.at(index) + c.empty.at(index) // at most one is not 0
	for _, t := range []*tree{&c.lone, &c.open, &c.empty} {
		v := int32(0)
		if t == target {
			v = n
		}
		if t.at(index) != v {
			t.set(index, v)
		}
	}
	c.slots += int(n) - int(was)
}

func (c *class) has(i int32) bool {
	_, ok := slices.BinarySearch(c.members, i)
	return ok
}
