package draw

import (
	"iter"
	"math"
	"slices"
)

// label is a text beside a line, in its place.
type label struct {
	rect
	lines []string
	dim   bool
}

// placer looks for places where labels hide nothing.
type placer struct {
	s        *scene
	taken    grid // boxes and labels
	segments grid // those that the lines are in
	lines    [][2]point
}

// letter places all labels; those for which there is no room are left out, and
// are told in tooltips only.
func (s *scene) letter() {
	p := placer{s: s, taken: grid{}, segments: grid{}}
	for i := range s.vertices {
		room := s.vertices[i].rect
		if s.vertices[i].shape == hubShape {
			room = room.grown(4) // else a label beside it seems to be its own
		}
		p.taken.add(room)
	}
	for _, t := range s.titleRooms() {
		p.taken.add(t)
	}
	for i := range s.edges {
		for k := 1; k < len(s.edges[i].path); k++ {
			p.line(s.edges[i].path[k-1], s.edges[i].path[k])
		}
	}
	for i := range s.vertices {
		for _, w := range s.vertices[i].wires {
			p.line(w[0], w[1])
		}
	}
	// The ends first: they have less choice.
	for i := range s.edges {
		e := &s.edges[i]
		for end := range e.near {
			if e.near[end] != "" {
				p.end(e, end)
			}
		}
	}
	for i := range s.edges {
		if e := &s.edges[i]; len(e.middle) > 0 {
			p.middle(e)
		}
	}
}

func (p *placer) line(a, b point) {
	p.segments.add(spanned(a, b))
	p.lines = append(p.lines, [2]point{a, b})
}

// visible is the part of an edge's path outside of its own boxes.
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
				if m := between(in, out, 0.5); r.contains(m) {
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

// along is the point at a distance from the start of a path, and the direction
// there.
func along(path []point, distance float64) (at, direction point) {
	for i := 1; i < len(path); i++ {
		l := path[i-1].to(path[i])
		if distance <= l || i == len(path)-1 {
			l = max(l, 1e-9)
			return between(path[i-1], path[i], distance/l), path[i].sub(path[i-1]).times(1 / l)
		}
		distance -= l
	}
	return path[0], point{1, 0}
}

// end places the label at one end of an edge: as near to the box as can be.
func (p *placer) end(e *edge, end int) {
	path := p.visible(e)
	if end == 1 {
		slices.Reverse(path)
	}
	text := e.near[end]
	size := point{labelFont.width(text) + 4, labelFont.height()}
	own := p.s.vertices[[2]int{e.from, e.to}[end]].rect
	length := pathLength(path)
	var tries []try
	for _, away := range []float64{0, 8, 16, 26, 38, 52, 70} {
		if away > length*0.62 && away > 0 {
			break
		}
		for _, side := range []float64{1, -1} {
			at, way := along(path, away)
			tries = append(tries, try{hug(own, at, way, size, side), away * 0.25})
		}
	}
	p.best([]string{text}, size, tries, false)
}

// hug is the middle of a label that stands where a line leaves a box, with one
// edge along the box and one along the line: below it or right of it, or on the
// other side.
func hug(own rect, at, way, size point, side float64) point {
	const gap = 3
	half := size.times(0.5)
	if sideways := math.Abs(at.x-own.x)/own.hw > math.Abs(at.y-own.y)/own.hh; sideways {
		x := at.x + math.Copysign(half.x+gap, way.x)
		drift := way.y / max(math.Abs(way.x), 0.2) * (size.x + gap) // of the line beside the label
		return point{x, at.y + side*(half.y+2+max(0, side*drift))}
	}
	y := at.y + math.Copysign(half.y+gap, way.y)
	drift := way.x / max(math.Abs(way.y), 0.2) * (size.y + gap)
	return point{at.x + side*(half.x+4+max(0, side*drift)), y}
}

// middle places the label of an edge about its middle.
func (p *placer) middle(e *edge) {
	path := p.visible(e)
	length := pathLength(path)
	size := point{most(e.middle, labelFont.width) + 4, labelFont.height() * float64(len(e.middle))}
	var tries []try
	for _, t := range []float64{0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.16, 0.84} {
		for _, side := range []float64{-1, 1} {
			at, way := along(path, length*t)
			tries = append(tries, try{beside(at, way, size, side), math.Abs(t-0.5) * 16})
		}
	}
	p.best(e.middle, size, tries, true)
}

// beside is the middle of a label at a point of a line, on one side of it: up
// and down, or right and left of a steep line, whichever way the line runs.
func beside(at, way, size point, side float64) point {
	normal := point{-way.y, way.x}
	steep := math.Abs(way.y) > 0.9
	if steep && normal.x < 0 || !steep && normal.y < 0 {
		normal = normal.times(-1)
	}
	normal = normal.times(side)
	return at.add(normal.times(math.Abs(normal.x)*size.x/2 + math.Abs(normal.y)*size.y/2 + 2))
}

// try is a possible place and how bad it is by itself.
type try struct {
	at  point
	bad float64
}

// worst is how bad a place may be: a label across three lines is no help.
const worst = 24

// best takes the place that covers the fewest lines, and none of boxes, labels
// and what is beyond them.
func (p *placer) best(text []string, size point, tries []try, dim bool) {
	found, least := rect{}, math.Inf(1)
	for _, t := range tries {
		r := rect{t.at, size.x / 2, size.y / 2}
		if t.bad >= least || p.taken.hits(r.grown(1)) {
			continue
		}
		bad := t.bad
		for i := range p.segments.near(r) {
			if r.cuts(p.lines[i][0], p.lines[i][1]) {
				bad += 7
			}
			if bad >= min(least, worst) {
				break
			}
		}
		if bad < min(least, worst) {
			found, least = r, bad
		}
	}
	if math.IsInf(least, 1) {
		p.s.left++
		return
	}
	p.taken.add(found)
	p.s.labels = append(p.s.labels, label{found, text, dim})
}

// grid finds rects by place.
type grid struct {
	rects []rect
	cells map[[2]int][]int // numbers of rects
	// seen is the last question in which a rect, by number, was come across.
	seen      []int
	questions int
}

const gridCell = 120.0

// cellsOf are the cells that r lies in.
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

// near are the numbers of the rects that r overlaps, each once.
func (g *grid) near(r rect) iter.Seq[int] {
	return func(yield func(int) bool) {
		g.questions++
		for c := range cellsOf(r) {
			for _, i := range g.cells[c] {
				if g.seen[i] == g.questions {
					continue
				}
				g.seen[i] = g.questions
				if g.rects[i].overlaps(r) && !yield(i) {
					return
				}
			}
		}
	}
}

// hits tells whether r overlaps any.
func (g *grid) hits(r rect) bool {
	for range g.near(r) {
		return true
	}
	return false
}
