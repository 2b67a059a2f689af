package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/rspec/view"
)

type group struct {
	nodes []int // indexes of Document.Nodes
	level int   // the level of grouping, as in groupKey
}

// groupNodes returns the groups of nodes that share a box. It begins with level 0 of groupKey (1 in an advertisement)
// and raises the level until there are at most maxBoxes groups.
func groupNodes(d *view.Document) []group {
	first := 0
	if d.Kind == view.Advertisement {
		first = 1
	}
	peers := neighbours(d)
	var groups []group
	for level := first; level <= 4; level++ {
		var alike grouping[string, int]
		for i := range d.Nodes {
			alike.add(groupKey(d, i, level, peers), i)
		}
		groups = groups[:0]
		for _, key := range alike.keys {
			groups = append(groups, group{alike.of[key], level})
		}
		if len(groups) <= maxBoxes {
			break
		}
	}
	return groups
}

// groupKey returns equal texts for nodes that share a box. At level 0 no nodes share a box; at
// level 1 nodes of the same kind with the same links do; at level 2 nodes of the same kind; at
// level 3 all nodes of a manager; at level 4 all nodes.
func groupKey(d *view.Document, i, level int, peers [][]string) string {
	n := &d.Nodes[i]
	switch level {
	case 0:
		return fmt.Sprint(i)
	case 1:
		return groupKey(d, i, 2, peers) + fmt.Sprintf("\x00%q", peers[i])
	case 2:
		return fmt.Sprintf("%d\x00%q\x00%q\x00%s", n.Manager, n.SliverTypes, n.HardwareType, useOf(n))
	case 3:
		return fmt.Sprint(n.Manager)
	}
	return ""
}

// neighbours returns a sorted list without duplicates for each node. The texts identify the
// nodes and larger links with which the node is linked.
func neighbours(d *view.Document) [][]string {
	lists := make([][]string, len(d.Nodes))
	for i := range d.Links {
		l := &d.Links[i]
		for k, e := range l.Ends {
			switch {
			case e.Node < 0:
			case len(l.Ends) == 2 && l.Shared == "":
				other := l.Ends[1-k]
				lists[e.Node] = append(lists[e.Node], fmt.Sprintf("node %d %s", other.Node, other.Authority))
			default:
				lists[e.Node] = append(lists[e.Node], fmt.Sprintf("link %d", i))
			}
		}
	}
	for i := range lists {
		slices.Sort(lists[i])
		lists[i] = slices.Compact(lists[i])
	}
	return lists
}

// nameRange returns the first and the last name of the nodes, each shortened.
func (g group) nameRange(d *view.Document, shorten func(string) string) string {
	names := make([]string, len(g.nodes))
	for i, n := range g.nodes {
		names[i] = d.Nodes[n].Name
	}
	slices.SortStableFunc(names, compareNatural)
	between := "…"
	if len(names) == 2 {
		between = ", "
	}
	return shorten(cleaned(names[0])) + between + shorten(cleaned(names[len(names)-1]))
}

// compareNatural orders names with numbers by value: pc2 before pc10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		da, db := leadingDigits(a), leadingDigits(b)
		if da > 0 && db > 0 {
			x, y := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func groupOf(groups []group) map[int]int {
	of := map[int]int{}
	for i, g := range groups {
		for _, n := range g.nodes {
			of[n] = i
		}
	}
	return of
}

// grouping keeps the keys in the order of their first use.
type grouping[K comparable, V any] struct {
	keys []K
	of   map[K][]V
}

func (g *grouping[K, V]) add(key K, v V) {
	if g.of == nil {
		g.of = map[K][]V{}
	}
	if g.of[key] == nil {
		g.keys = append(g.keys, key)
	}
	g.of[key] = append(g.of[key], v)
}

// oneOf returns the only word, or a number such as "3 kinds".
func oneOf(words []string, kind string) string {
	if len(words) > 1 {
		return fmt.Sprintf("%d %ss", len(words), kind)
	}
	return cleaned(words[0])
}
