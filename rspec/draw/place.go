package draw

import (
	"iter"
	"math"
	"slices"
)

type label struct {
	rect
	lines []string
	dim   bool
}

type placer struct {
	s        *scene
	taken    grid // boxes and labels
	segments grid // the rectangle around each member of lines
	lines    [][2]point
}

// placeLabels places the labels of all edges. It leaves out a label without a free place, whose text remains in the
// tooltip.
func (s *scene) placeLabels() {
	p := placer{s: s, taken: grid{}, segments: grid{}}
	for i := range s.vertices {
		room := s.vertices[i].rect
		if s.vertices[i].shape == hubShape {
			room = room.grown(4) // a label closer to the hub would seem to belong to it
		}
		p.taken.add(room)
	}
	for _, t := range s.titleRects() {
		p.taken.add(t)
	}
	for i := range s.edges {
		for k := 1; k < len(s.edges[i].path); k++ {
			p.addLine(s.edges[i].path[k-1], s.edges[i].path[k])
		}
	}
	for i := range s.vertices {
		for _, w := range s.vertices[i].bars {
			p.addLine(w[0], w[1])
		}
	}
	// The labels at ends come first: they have fewer possible places.
	for i := range s.edges {
		e := &s.edges[i]
		for end := range e.near {
			if e.near[end] != "" {
				p.placeEnd(e, end)
			}
		}
	}
	for i := range s.edges {
		if e := &s.edges[i]; len(e.middle) > 0 {
			p.placeMiddle(e)
		}
	}
}

func (p *placer) addLine(a, b point) {
	p.segments.add(spanned(a, b))
	p.lines = append(p.lines, [2]point{a, b})
}

// visible returns the path of an edge without the parts inside the boxes at its ends.
func (p *placer) visible(e *edge) []point {
	path := slices.Clone(e.path)
	trim := func(r rect) {
		for len(path) > 1 && r.contains(path[0]) {
			if r.contains(path[1]) {
				path = path[1:]
				continue
			}
			in, out := path[0], path[1]
			for range 24 {
				if m := interpolate(in, out, 0.5); r.contains(m) {
					in = m
				} else {
					out = m
				}
			}
			path[0] = out
		}
	}
	trim(p.s.vertices[e.from].rect)
	slices.Reverse(path)
	if e.stub == 0 {
		trim(p.s.vertices[e.to].rect)
	}
	slices.Reverse(path)
	return path
}

func pathLength(path []point) float64 {
	l := 0.0
	for i := 1; i < len(path); i++ {
		l += path[i-1].to(path[i])
	}
	return l
}

// pointAt returns the point p at a distance from the start of the path, and the path's
// direction there.
func pointAt(path []point, distance float64) (p, direction point) {
	for i := 1; i < len(path); i++ {
		l := path[i-1].to(path[i])
		if distance <= l || i == len(path)-1 {
			l = max(l, 1e-9)
			return interpolate(path[i-1], path[i], distance/l), path[i].sub(path[i-1]).times(1 / l)
		}
		distance -= l
	}
	return path[0], point{1, 0}
}

func (p *placer) placeEnd(e *edge, end int) {
	path := p.visible(e)
	if end == 1 {
		slices.Reverse(path)
	}
	text := e.near[end]
	size := point{labelFont.width(text) + 4, labelFont.height()}
	own := p.s.vertices[[2]int{e.from, e.to}[end]].rect
	length := pathLength(path)
	var candidates []candidate
	for _, away := range []float64{0, 8, 16, 26, 38, 52, 70} {
		if away > length*0.62 && away > 0 {
			break
		}
		for _, side := range []float64{1, -1} {
			at, way := pointAt(path, away)
			candidates = append(candidates, candidate{besideBox(own, at, way, size, side), away * 0.25})
		}
	}
	p.placeBest([]string{text}, size, candidates, false)
}

// besideBox returns the centre of a label that touches the box r. The label also touches a
// line that leaves r at the point exit. With side 1 the label is below or right of the line,
// with side -1 above or left.
func besideBox(r rect, exit, direction, size point, side float64) point {
	const gap = 3
	half := size.times(0.5)
	if sideways := math.Abs(exit.x-r.x)/r.hw > math.Abs(exit.y-r.y)/r.hh; sideways {
		x := exit.x + math.Copysign(half.x+gap, direction.x)
		drift := direction.y / max(math.Abs(direction.x), 0.2) * (size.x + gap) // how far the line moves over the label's width
		return point{x, exit.y + side*(half.y+2+max(0, side*drift))}
	}
	y := exit.y + math.Copysign(half.y+gap, direction.y)
	drift := direction.x / max(math.Abs(direction.y), 0.2) * (size.y + gap)
	return point{exit.x + side*(half.x+4+max(0, side*drift)), y}
}

func (p *placer) placeMiddle(e *edge) {
	path := p.visible(e)
	length := pathLength(path)
	size := point{largestOf(e.middle, labelFont.width) + 4, labelFont.height() * float64(len(e.middle))}
	var candidates []candidate
	for _, t := range []float64{0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.16, 0.84} {
		for _, side := range []float64{-1, 1} {
			at, way := pointAt(path, length*t)
			candidates = append(candidates, candidate{besideLine(at, way, size, side), math.Abs(t-0.5) * 16})
		}
	}
	p.placeBest(e.middle, size, candidates, true)
}

// besideLine returns the centre of a label next to the point p of a line. With side 1 the
// label is below or right of the line. With side -1 it is above a line, or left of a steep
// one.
func besideLine(p, direction, size point, side float64) point {
	normal := point{-direction.y, direction.x}
	steep := math.Abs(direction.y) > 0.9
	if steep && normal.x < 0 || !steep && normal.y < 0 {
		normal = normal.times(-1)
	}
	normal = normal.times(side)
	return p.add(normal.times(math.Abs(normal.x)*size.x/2 + math.Abs(normal.y)*size.y/2 + 2))
}

type candidate struct {
	at   point
	cost float64
}

// maxCost excludes a label across three lines, which is unreadable.
const maxCost = 24

// placeBest places a label at the cheapest candidate. The label must cover no box and no other
// label. If no candidate costs less than maxCost, the label counts as unplaced.
func (p *placer) placeBest(text []string, size point, candidates []candidate, dim bool) {
	found, least := rect{}, math.Inf(1)
	for _, t := range candidates {
		r := rect{t.at, size.x / 2, size.y / 2}
		if t.cost >= least || p.taken.overlapsAny(r.grown(1)) {
			continue
		}
		cost := t.cost
		for i := range p.segments.overlapping(r) {
			if r.cuts(p.lines[i][0], p.lines[i][1]) {
				cost += 7
			}
			if cost >= min(least, maxCost) {
				break
			}
		}
		if cost < min(least, maxCost) {
			found, least = r, cost
		}
	}
	if math.IsInf(least, 1) {
		p.s.unplaced++
		return
	}
	p.taken.add(found)
	p.s.labels = append(p.s.labels, label{found, text, dim})
}

// grid finds the rects that overlap another one, by the cells of a square grid.
type grid struct {
	rects []rect
	cells map[[2]int][]int // the numbers of the rects in each cell
	// seen is, for each rect, the number of the last query that found it.
	seen    []int
	queries int
}

const gridCell = 120.0

func cellsOf(r rect) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		for x := int(math.Floor(r.left() / gridCell)); x <= int(math.Floor(r.right()/gridCell)); x++ {
			for y := int(math.Floor(r.top() / gridCell)); y <= int(math.Floor(r.bottom()/gridCell)); y++ {
				if !yield([2]int{x, y}) {
					return
				}
			}
		}
	}
}

func (g *grid) add(r rect) {
	if g.cells == nil {
		g.cells = map[[2]int][]int{}
	}
	i := len(g.rects)
	g.rects, g.seen = append(g.rects, r), append(g.seen, 0)
	for c := range cellsOf(r) {
		g.cells[c] = append(g.cells[c], i)
	}
}

// overlapping yields the numbers of the rects that overlap r, each once. Its queries cannot be nested.
func (g *grid) overlapping(r rect) iter.Seq[int] {
	return func(yield func(int) bool) {
		g.queries++
		for c := range cellsOf(r) {
			for _, i := range g.cells[c] {
				if g.seen[i] == g.queries {
					continue
				}
				g.seen[i] = g.queries
				if g.rects[i].overlaps(r) && !yield(i) {
					return
				}
			}
		}
	}
}

func (g *grid) overlapsAny(r rect) bool {
	for range g.overlapping(r) {
		return true
	}
	return false
}
