package draw

import "math"

// arrangement places blocks: those in one frame, or the frames.
type arrangement struct {
	s      *scene
	blocks []*block
	of     map[int]int      // the block of each vertex
	near   [][]int          // the neighbours of each block
	need   map[[2]int]point // the distance that each pair of linked blocks needs
	gap    point            // the usual distance between linked blocks
	frames bool             // the blocks are the frames of managers
}

// arrangement returns the arrangement of the blocks, with the pairs of blocks that edges join and the distances that
// these need.
func (s *scene) arrangement(blocks []*block) *arrangement {
	a := &arrangement{s: s, blocks: blocks, of: map[int]int{}, near: make([][]int, len(blocks)), need: map[[2]int]point{}}
	for i, b := range blocks {
		for _, m := range b.members {
			a.of[m] = i
		}
	}
	same := map[[2]int]bool{} // the pairs of vertices that an edge joins
	for i := range s.edges {
		x, y, crosses := a.joins(&s.edges[i])
		if !crosses {
			continue
		}
		pair, ends := ordered(x, y), ordered(s.edges[i].from, s.edges[i].to)
		before, seen := a.need[pair]
		a.need[pair] = before.max(s.edges[i].gap())
		if seen && same[ends] { // parallel lines need room for their labels, within limits
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

// joins returns the blocks at the ends of an edge. The result crosses reports whether they are
// two different blocks.
func (a *arrangement) joins(e *edge) (x, y int, crosses bool) {
	x, okx := a.of[e.from]
	y, oky := a.of[e.to]
	return x, y, okx && oky && x != y
}

func ordered(x, y int) [2]int { return [2]int{min(x, y), max(x, y)} }

func (a *arrangement) largest(list []int) point {
	size := point{}
	for _, i := range list {
		size = size.max(point{a.blocks[i].hw * 2, a.blocks[i].hh * 2})
	}
	return size
}

// placeAll places all blocks and returns the rectangle around them. Each part, the blocks that are linked with each other,
// is placed by itself; blocks without a link form a grid.
func (a *arrangement) placeAll() rect {
	var parts []*block
	var loose []int // blocks without a link
	placed := make([]bool, len(a.blocks))
	for i := range a.blocks {
		if placed[i] {
			continue
		}
		list := a.connected(i)
		for _, j := range list {
			placed[j] = true
		}
		if len(list) == 1 {
			loose = append(loose, i)
			continue
		}
		a.placePart(list)
		parts = append(parts, a.merged(list))
	}
	if len(loose) > 0 {
		a.placeGrid(loose)
		parts = append(parts, a.merged(loose))
	}
	return a.pack(parts)
}

// connected returns the blocks by increasing distance from block i.
func (a *arrangement) connected(i int) []int {
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

// merged returns one block for placed blocks. Its members are the numbers of these blocks.
func (a *arrangement) merged(list []int) *block {
	w := &block{}
	for _, i := range list {
		w.rect = w.rect.union(a.blocks[i].rect)
		w.members = append(w.members, i)
	}
	return w
}

// moveMerged moves a block that merged has returned, with its members.
func (a *arrangement) moveMerged(w *block, centre point) {
	d := centre.sub(w.point)
	w.point = centre
	for _, i := range w.members {
		a.moveBlock(i, a.blocks[i].point.add(d))
	}
}

func (a *arrangement) moveBlock(i int, p point) { a.s.move(a.blocks[i], p) }

// placeGrid places blocks in a grid of readable proportion. Frames are packed in rows instead, because
// their sizes differ.
func (a *arrangement) placeGrid(list []int) {
	if a.frames {
		a.packLoose(list)
		return
	}
	cell := a.largest(list).add(point{clearance, clearance})
	columns := len(list)
	if columns > 4 {
		columns = int(math.Ceil(math.Sqrt(float64(columns) * proportion * cell.y / cell.x)))
		columns = max(1, min(columns, len(list)))
	}
	for k, i := range list {
		a.moveBlock(i, point{float64(k % columns), float64(k / columns)}.scaled(cell))
	}
}

func (a *arrangement) packLoose(list []int) {
	parts := make([]*block, len(list))
	for k, i := range list {
		parts[k] = a.merged([]int{i})
	}
	a.pack(parts)
}

// pack places parts in rows, which together have nearly the proportion of a page, and returns the rectangle around
// them.
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
	best, bestWidth := math.Inf(1), widest
	for _, k := range []float64{0.8, 1, 1.15, 1.3, 1.5, 1.8} {
		width := max(widest, math.Sqrt(area*proportion)*k)
		w, h := fillRows(parts, width, gap, nil)
		if off := math.Abs(math.Log(w/h/proportion)) + 0.4*math.Log(w*h/area); off < best-1e-9 {
			best, bestWidth = off, width
		}
	}
	all := rect{}
	fillRows(parts, bestWidth, gap, func(p *block, at point) {
		a.moveMerged(p, at)
		all = all.union(p.rect)
	})
	return all
}

// fillRows returns the size of rows of the given width. It calls place, unless place is nil,
// with each part and its centre. The centres of a row have the same height.
func fillRows(parts []*block, width, gap float64, place func(*block, point)) (w, h float64) {
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
			if place != nil {
				place(parts[i], point{x + parts[i].hw, h + high/2})
			}
			x += parts[i].hw*2 + gap
		}
		w, h = max(w, used-gap), h+high+gap
	}
	return w, h - gap
}
