package draw

import (
	"math"
	"slices"
)

// block is what the layout moves as one: a box, a bus with all that hangs on
// it, a frame.
type block struct {
	rect
	members []int // vertices
}

// Distances of the layout.
const (
	clearance  = 26.0 // between boxes that are not joined
	partGap    = 44.0 // between unconnected parts
	framePad   = 26.0 // around what is in a frame
	frameTitle = 26.0 // above it
	frameGap   = 90.0 // between frames
	margin     = 24.0 // around everything
	proportion = 1.5  // width to height, where there is a choice
)

// lay gives every vertex its place, and the frames theirs.
func (s *scene) lay() {
	regions := map[int][]int{}
	var order []int
	for i := range s.vertices {
		f := s.vertices[i].frame
		if !s.framed {
			f = 0
		}
		if regions[f] == nil {
			order = append(order, f)
		}
		regions[f] = append(regions[f], i)
	}
	slices.Sort(order)
	var tops []*block
	s.frames = make([]rect, len(s.picture.Managers))
	framed := map[int]*block{}
	for _, f := range order {
		blocks := s.blocks(regions[f])
		if f < 0 {
			tops = append(tops, blocks...)
			continue
		}
		a := s.arrangement(blocks)
		a.gap = s.gaps(regions[f])
		all := a.place()
		if s.framed {
			width := frameFont.width(s.frameName(f)) + 40
			pad := box(all.left()-framePad, all.top()-framePad-frameTitle, max(all.right()+framePad, all.left()-framePad+width), all.bottom()+framePad)
			all = pad
		}
		b := &block{rect: all, members: regions[f]}
		framed[f] = b
		tops = append(tops, b)
	}
	if len(tops) > 1 {
		a := s.arrangement(tops)
		a.gap = point{frameGap, frameGap * 0.7}
		for _, need := range a.need {
			a.gap.x = max(a.gap.x, need.x-20)
		}
		a.frames = true
		a.place()
		a.plumb()
	}
	for f, b := range framed {
		if s.framed && f < len(s.frames) {
			s.frames[f] = b.rect
		}
	}
	s.titles()
}

// move shifts a block with all its members.
func (s *scene) move(b *block, to point) {
	d := to.sub(b.point)
	b.point = to
	for _, m := range b.members {
		v := &s.vertices[m]
		v.point = v.point.add(d)
		for i := range v.feet {
			v.feet[i] = v.feet[i].add(d)
		}
		for i := range v.wires {
			v.wires[i][0], v.wires[i][1] = v.wires[i][0].add(d), v.wires[i][1].add(d)
		}
	}
}

// mirror turns a block over, along x or y. The title of a frame stays on top.
func (s *scene) mirror(b *block, x, y bool, header float64) {
	flip := func(p point) point {
		if x {
			p.x = 2*b.x - p.x
		}
		if y {
			p.y = 2*b.y + header - p.y
		}
		return p
	}
	for _, m := range b.members {
		v := &s.vertices[m]
		v.point = flip(v.point)
		for i := range v.feet {
			v.feet[i] = flip(v.feet[i])
		}
		for i := range v.wires {
			v.wires[i][0], v.wires[i][1] = flip(v.wires[i][0]), flip(v.wires[i][1])
		}
	}
}

// gaps is how far apart joined boxes must be for the labels between them.
func (s *scene) gaps(vertices []int) point {
	in := map[int]bool{}
	for _, v := range vertices {
		in[v] = true
	}
	g := leastGap
	for i := range s.edges {
		e := &s.edges[i]
		if in[e.from] && in[e.to] && e.stub == 0 {
			need := e.gap()
			g = point{max(g.x, need.x), max(g.y, need.y)}
		}
	}
	return g
}

// leastGap is for lines without labels.
var leastGap = point{54, 46}

// gap is how far apart the ends of an edge must be for its labels.
func (e *edge) gap() point {
	ends, rows := 0.0, 0.0
	for _, t := range e.near {
		if t != "" {
			ends += labelFont.width(t) + 14
			rows++
		}
	}
	middle := 0.0
	for _, t := range e.middle {
		middle = max(middle, labelFont.width(t)+20)
	}
	return point{
		max(leastGap.x, min(max(ends, middle), 190)),
		max(leastGap.y, min((rows+float64(len(e.middle)))*labelFont.height()+26, 100)),
	}
}

// blocks makes a bus of each hub with many nodes of its own, and a block of
// every other vertex.
func (s *scene) blocks(vertices []int) []*block {
	degree := map[int]int{}
	for i := range s.edges {
		degree[s.edges[i].from]++
		degree[s.edges[i].to]++
	}
	in := map[int]bool{}
	for _, v := range vertices {
		in[v] = true
	}
	taken := map[int]bool{}
	var list []*block
	for _, l := range s.ladders(vertices, degree) {
		for _, m := range l.members {
			taken[m] = true
		}
		list = append(list, l)
	}
	hanging := map[int][]int{} // hub → its own nodes' edges
	for i := range s.edges {
		e := &s.edges[i]
		if in[e.from] && in[e.to] && !taken[e.to] && s.vertices[e.to].shape == hubShape && degree[e.from] == 1 && s.vertices[e.from].shape != hubShape {
			hanging[e.to] = append(hanging[e.to], i)
		}
	}
	fans := map[int][]*block{} // node → the buses that hang on it alone
	for _, v := range vertices {
		if len(hanging[v]) < busFrom {
			continue
		}
		b := s.bus(v, hanging[v])
		for _, m := range b.members {
			taken[m] = true
		}
		if others := s.around(v, b.members); len(others) == 1 && in[others[0]] && s.vertices[others[0]].shape != hubShape {
			fans[others[0]] = append(fans[others[0]], b)
			continue
		}
		list = append(list, b)
	}
	for _, v := range vertices {
		if buses := fans[v]; len(buses) > 0 {
			taken[v] = true
			list = append(list, s.fan(v, buses))
		}
	}
	for _, v := range vertices {
		if !taken[v] {
			list = append(list, &block{rect: s.vertices[v].rect, members: []int{v}})
		}
	}
	// In the order of the document, which the packing keeps.
	slices.SortStableFunc(list, func(a, b *block) int { return slices.Min(a.members) - slices.Min(b.members) })
	return list
}

// arrangement is a graph of blocks that are given places.
type arrangement struct {
	s      *scene
	blocks []*block
	joined [][2]int         // blocks that an edge joins, once each, the smaller first
	near   [][]int          // the neighbours of each block
	need   map[[2]int]point // how far apart joined blocks must be
	gap    point
	frames bool
}

func (s *scene) arrangement(blocks []*block) *arrangement {
	a := &arrangement{s: s, blocks: blocks, near: make([][]int, len(blocks)), need: map[[2]int]point{}}
	of := map[int]int{}
	for i, b := range blocks {
		for _, m := range b.members {
			of[m] = i
		}
	}
	for i := range s.edges {
		x, okx := of[s.edges[i].from]
		y, oky := of[s.edges[i].to]
		pair := [2]int{min(x, y), max(x, y)}
		if !okx || !oky || x == y {
			continue
		}
		before, seen := a.need[pair]
		gap := s.edges[i].gap()
		a.need[pair] = point{max(before.x, gap.x), max(before.y, gap.y)}
		if seen {
			continue
		}
		a.joined = append(a.joined, pair)
		a.near[x] = append(a.near[x], y)
		a.near[y] = append(a.near[y], x)
	}
	return a
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
	w, h := 0.0, 0.0
	for _, i := range list {
		w, h = max(w, a.blocks[i].hw*2+clearance), max(h, a.blocks[i].hh*2+clearance)
	}
	columns := int(math.Ceil(math.Sqrt(float64(len(list)) * proportion * h / w)))
	columns = max(1, min(columns, len(list)))
	if len(list) <= 4 && !a.frames {
		columns = len(list)
	}
	if a.frames {
		a.shelve(list)
		return
	}
	for k, i := range list {
		a.put(i, point{float64(k%columns) * w, float64(k/columns) * h})
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
