package draw

import "math"

// arrangement is a graph of blocks that are given places.
type arrangement struct {
	s      *scene
	blocks []*block
	of     map[int]int      // the block of each vertex
	near   [][]int          // the neighbours of each block
	need   map[[2]int]point // how far apart joined blocks must be
	gap    point
	frames bool
}

func (s *scene) arrangement(blocks []*block) *arrangement {
	a := &arrangement{s: s, blocks: blocks, of: map[int]int{}, near: make([][]int, len(blocks)), need: map[[2]int]point{}}
	for i, b := range blocks {
		for _, m := range b.members {
			a.of[m] = i
		}
	}
	same := map[[2]int]bool{} // vertices that an edge joins
	for i := range s.edges {
		x, y, crosses := a.joins(&s.edges[i])
		if !crosses {
			continue
		}
		pair, ends := ordered(x, y), ordered(s.edges[i].from, s.edges[i].to)
		before, seen := a.need[pair]
		a.need[pair] = before.max(s.edges[i].gap())
		if seen && same[ends] { // parallel lines want room for their labels, up to a point
			a.need[pair] = point{min(a.need[pair].x+24, 220), min(a.need[pair].y+30, 160)}
		}
		same[ends] = true
		if seen {
			continue
		}
		a.near[x] = append(a.near[x], y)
		a.near[y] = append(a.near[y], x)
	}
	return a
}

// joins are the blocks at the ends of an edge, and whether they are two.
func (a *arrangement) joins(e *edge) (x, y int, crosses bool) {
	x, okx := a.of[e.from]
	y, oky := a.of[e.to]
	return x, y, okx && oky && x != y
}

func ordered(x, y int) [2]int { return [2]int{min(x, y), max(x, y)} }

// largest is the greatest width and height of blocks.
func (a *arrangement) largest(list []int) point {
	size := point{}
	for _, i := range list {
		size = size.max(point{a.blocks[i].hw * 2, a.blocks[i].hh * 2})
	}
	return size
}

// place arranges the connected parts, packs them, and gives the room taken.
func (a *arrangement) place() rect {
	var parts []*block
	var loose []int // blocks joined to nothing
	part := make([]bool, len(a.blocks))
	for i := range a.blocks {
		if part[i] {
			continue
		}
		list := a.reach(i)
		for _, j := range list {
			part[j] = true
		}
		if len(list) == 1 {
			loose = append(loose, i)
			continue
		}
		a.placePart(list)
		parts = append(parts, a.wrap(list))
	}
	if len(loose) > 0 {
		a.tile(loose)
		parts = append(parts, a.wrap(loose))
	}
	return a.pack(parts)
}

// reach are all blocks connected with block i, in order of distance.
func (a *arrangement) reach(i int) []int {
	seen := map[int]bool{i: true}
	list := []int{i}
	for k := 0; k < len(list); k++ {
		for _, j := range a.near[list[k]] {
			if !seen[j] {
				seen[j] = true
				list = append(list, j)
			}
		}
	}
	return list
}

// wrap makes one block of several that have places.
func (a *arrangement) wrap(list []int) *block {
	w := &block{}
	for _, i := range list {
		w.rect = w.rect.union(a.blocks[i].rect)
		w.members = append(w.members, i)
	}
	return w
}

// shift moves blocks (by number) with a wrapped one.
func (a *arrangement) shift(w *block, to point) {
	d := to.sub(w.point)
	w.point = to
	for _, i := range w.members {
		a.put(i, a.blocks[i].point.add(d))
	}
}

func (a *arrangement) put(i int, p point) { a.s.move(a.blocks[i], p) }

// tile sets blocks in rows, as many as make a fair picture.
func (a *arrangement) tile(list []int) {
	if a.frames {
		a.shelve(list)
		return
	}
	cell := a.largest(list).add(point{clearance, clearance})
	columns := len(list)
	if columns > 4 {
		columns = int(math.Ceil(math.Sqrt(float64(columns) * proportion * cell.y / cell.x)))
		columns = max(1, min(columns, len(list)))
	}
	for k, i := range list {
		a.put(i, point{float64(k % columns), float64(k / columns)}.scaled(cell))
	}
}

// shelve sets blocks of different size on shelves of one width.
func (a *arrangement) shelve(list []int) {
	parts := make([]*block, len(list))
	for k, i := range list {
		parts[k] = a.wrap([]int{i})
	}
	a.pack(parts)
}

// pack sets wrapped blocks on shelves, in their order, and gives the room taken.
func (a *arrangement) pack(parts []*block) rect {
	if len(parts) == 0 {
		return rect{}
	}
	gap := partGap
	if a.frames {
		gap = frameGap * 0.6
	}
	area, widest := 0.0, 0.0
	for _, p := range parts {
		area += (p.hw*2 + gap) * (p.hh*2 + gap)
		widest = max(widest, p.hw*2)
	}
	// The width that leaves the picture nearest to its proportion.
	best, bestWidth := math.Inf(1), widest
	for _, k := range []float64{0.8, 1, 1.15, 1.3, 1.5, 1.8} {
		width := max(widest, math.Sqrt(area*proportion)*k)
		w, h := shelves(parts, width, gap, nil)
		if off := math.Abs(math.Log(w/h/proportion)) + 0.4*math.Log(w*h/area); off < best-1e-9 {
			best, bestWidth = off, width
		}
	}
	all := rect{}
	shelves(parts, bestWidth, gap, func(p *block, at point) {
		a.shift(p, at)
		all = all.union(p.rect)
	})
	return all
}

// shelves walks along shelves of a width and gives the room they take. Each
// part stands in the middle of its shelf's height.
func shelves(parts []*block, width, gap float64, put func(*block, point)) (w, h float64) {
	for i := 0; i < len(parts); {
		used, high, j := 0.0, 0.0, i
		for ; j < len(parts); j++ {
			next := used + parts[j].hw*2
			if j > i && next > width+1e-6 {
				break
			}
			used, high = next+gap, max(high, parts[j].hh*2)
		}
		x := 0.0
		for ; i < j; i++ {
			if put != nil {
				put(parts[i], point{x + parts[i].hw, h + high/2})
			}
			x += parts[i].hw*2 + gap
		}
		w, h = max(w, used-gap), h+high+gap
	}
	return w, h - gap
}
