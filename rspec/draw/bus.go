package draw

import (
	"math"
	"slices"
)

// minBusNodes is the minimal number of nodes on a bus. A smaller hub is a box with spokes.
const minBusNodes = 5

// crowdedHub is a number of spokes. Nodes of a hub with so many spokes stand on its bus even
// if they have other links, because the star would be unreadable.
const crowdedHub = 25

const (
	stubLength = 36.0
	busGap     = 20.0
)

// bus places nodes above and below the bars of a hub, and returns a block with the hub and the
// nodes. The parameter edges has the lines from these nodes to the hub. The hub's box is at
// the left, where its other lines end.
func (s *scene) bus(hub int, edges []int) *block {
	h := &s.vertices[hub]
	pitch, high := 0.0, 0.0
	var stubs grouping[int, int] // the edges of each node
	for _, i := range edges {
		e := &s.edges[i]
		stubs.add(e.from, i)
		e.stub = len(stubs.of[e.from])
		v := &s.vertices[e.from]
		pitch = max(pitch, v.hw*2+busGap, labelFont.width(e.near[0])+14)
		high = max(high, v.hh*2)
	}
	// Nodes that are linked with each other form one row. The row turns at the end of the bar
	// and continues below it. The pitch leaves room for the labels of these links.
	nodes := stubs.keys
	linkGap := s.gaps(setOf(nodes))
	areLinked := linkGap.x > 0
	if areLinked {
		pitch = max(pitch, 2*s.vertices[nodes[0]].hw+linkGap.x)
	}
	bars, columns := pageForm(len(nodes), 2, 5, pitch, 2*high+2*stubLength+busGap, h.hw*2+30)
	first := h.hw*2 + 30 + pitch/2             // x of the first column
	step := 2*high + 2*stubLength + busGap + 8 // from one bar to the next
	trunk := first - pitch/2 - 6               // x of the vertical line that joins the bars
	h.point = point{h.hw, float64(bars-1) * step / 2}
	h.bars = nil
	if bars > 1 {
		h.bars = append(h.bars, [2]point{h.point, {trunk, h.y}}, [2]point{{trunk, 0}, {trunk, float64(bars-1) * step}})
	}
	b := &block{members: []int{hub}}
	for bar := range bars {
		y := float64(bar) * step
		here := nodes[:min(2*columns, len(nodes))] // the nodes on this bar
		nodes = nodes[len(here):]
		upper := min(columns, (len(here)+1)/2) // the number of nodes above the bar
		if bars > 1 {
			upper = min(columns, len(here))
		}
		end := first
		for k, i := range here {
			v := &s.vertices[i]
			column, side := float64(k), -1.0
			if k >= upper {
				column, side = float64(k-upper), 1
				if missing := upper - (len(here) - upper); missing > 0 && bars == 1 {
					column += float64(missing) / 2
				}
			}
			if side > 0 && areLinked {
				column = float64(upper-1) - float64(k-upper)
			}
			v.point = point{first + column*pitch, y + side*(stubLength+v.hh)}
			end = max(end, v.x)
			share := v.hw / float64(len(stubs.of[i]))
			for n := range stubs.of[i] {
				foot := v.x - v.hw + share*(2*float64(n)+1)
				if areLinked {
					foot -= share / 2
				}
				v.stubEnds = append(v.stubEnds, point{foot, y})
				end = max(end, foot)
			}
			b.members = append(b.members, i)
		}
		from := point{trunk, y}
		if bars == 1 {
			from = h.point
		}
		h.bars = append(h.bars, [2]point{from, {end, y}})
	}
	s.enclose(b)
	return b
}

// enclose extends the rectangle of a block to its members with their bars.
func (s *scene) enclose(b *block) {
	for _, m := range b.members {
		v := &s.vertices[m]
		b.rect = b.rect.union(v.rect)
		for _, w := range v.bars {
			b.rect = b.rect.union(spanned(w[0], w[1]).grown(2))
		}
	}
}

// neighboursOutside returns the vertices that edges join with v, except the members.
func (s *scene) neighboursOutside(v int, members []int) []int {
	var list []int
	for i := range s.edges {
		e := &s.edges[i]
		other := e.from
		switch v {
		case e.from:
			other = e.to
		case e.to:
		default:
			continue
		}
		if !slices.Contains(members, other) && !slices.Contains(list, other) {
			list = append(list, other)
		}
	}
	return list
}

// fan places buses beside the one node that links them: all at its right, or on
// both sides if there are many.
func (s *scene) fan(node int, buses []*block) *block {
	width, height := 0.0, 0.0
	for _, b := range buses {
		width, height = max(width, b.hw*2), height+b.hh*2+partGap
	}
	gap := leastGap.x + 30
	sides := [][]*block{buses}
	if len(buses) > 1 && width/height < proportion*0.6 {
		sides = [][]*block{buses[:(len(buses)+1)/2], buses[(len(buses)+1)/2:]}
	}
	v := &s.vertices[node]
	v.point = point{}
	all := &block{rect: v.rect, members: []int{node}}
	for k, side := range sides {
		height := -partGap
		for _, b := range side {
			height += b.hh*2 + partGap
		}
		y := -height / 2
		for _, b := range side {
			x := v.hw + gap + b.hw
			if k == 1 {
				s.mirror(b, true, false, 0)
				x = -x
			}
			s.move(b, point{x, y + b.hh})
			y += b.hh*2 + partGap
			all.rect = all.rect.union(b.rect)
			all.members = append(all.members, b.members...)
		}
	}
	return all
}

// pageForm returns the number of bars, and the number of columns of each bar, for n nodes. The
// drawing has nearly the proportion of a page. One bar is used for up to fewColumns columns.
// The parameter sides is the number of sides of a bar that have nodes, 1 or 2; pitch is the
// width of a column. The parameter step is the height of a bar with its nodes, and extra the
// width beside the nodes.
func pageForm(n, sides, fewColumns int, pitch, step, extra float64) (_, columns int) {
	best := math.Inf(1)
	for k := 1; k <= n; k++ {
		c := (n + sides*k - 1) / (sides * k)
		off := math.Abs(math.Log((extra + float64(c)*pitch) / (float64(k) * step) / (proportion * 1.25)))
		if k == 1 && c <= fewColumns {
			off = 0
		}
		if off < best {
			best, columns = off, c
		}
	}
	return (n + sides*columns - 1) / (sides * columns), columns
}
