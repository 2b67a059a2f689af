package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// router leads lines around boxes.
type router struct {
	s *scene
	// budget is how many more times a line may be held against a box or another
	// line in the search of ways around; when it is spent, lines go straight.
	budget int
	titles []rect // of frames, which lines leave free as well
	// runs are the ways around boxes so far, which others do not lie on.
	runs [][2]point
}

// lineGap is how far a line stays away from boxes that are not its own.
const lineGap = 6.0

// hubGap is how far it stays away from hubs while it can: nearer by, it looks
// as if it ended there.
const hubGap = 16.0

// route gives every edge its path.
func (s *scene) route() {
	r := router{s: s, budget: 60_000_000, titles: s.titleRooms()}
	var alike grouping[[2]int, int]
	for i := range s.edges {
		e := &s.edges[i]
		if e.stub > 0 {
			foot := s.vertices[e.from].feet[e.stub-1]
			e.path = []point{{foot.x, s.vertices[e.from].y}, foot}
			e.drawn = polyline(e.path)
			continue
		}
		alike.add(ordered(e.from, e.to), i)
	}
	for _, pair := range alike.keys {
		r.pair(alike.of[pair])
	}
}

// bows are how far lines may bend to one side, in the order in which they are
// tried. After the first few comes a way around boxes.
var bows = []float64{0, 26, -26, 46, -46, 76, -76, 116, -116, 170, -170}

const fewBows = 5

// lane is the distance of parallel ways around boxes. It is no multiple of the
// steps by which ways make room for each other.
const lane = 9.0

// pair routes all lines between two boxes: parallel ones bend together, so that
// they can be told apart.
func (r *router) pair(edges []int) {
	e := &r.s.edges[edges[0]]
	p, q := r.s.vertices[e.from].point, r.s.vertices[e.to].point
	near := r.near(e, p, q, hubGap)
	around := func(mostTurns int, lane float64) bool {
		ways := make([][]point, len(edges))
		for k := range edges {
			ways[k] = r.around(p, q, near, lane*float64(k))
			if ways[k] == nil || len(ways[k]) > mostTurns+2 {
				return false
			}
		}
		for k, i := range edges {
			r.s.edges[i].path, r.s.edges[i].drawn = ways[k], rounded(ways[k])
			for n := 1; n < len(ways[k]); n++ {
				r.runs = append(r.runs, [2]point{ways[k][n-1], ways[k][n]})
			}
		}
		return true
	}
	for k, bow := range bows {
		if k == fewBows && around(2, lane) || r.bend(edges, p, q, near, bow) {
			return
		}
	}
	if around(99, lane) {
		return
	}
	near = r.near(e, p, q, lineGap)
	if !around(99, lane) && !around(99, 1) {
		r.bend(edges, p, q, nil, 0)
	}
}

// bend lets lines bend by a bow and their distance from each other, if none
// meets a box.
func (r *router) bend(edges []int, p, q point, near []rect, bow float64) bool {
	apart := func(k int) float64 { return bow + 24*(2*float64(k)-float64(len(edges)-1)) }
	for k := range edges {
		if hits(arc(p, q, apart(k)), near) {
			return false
		}
	}
	for k, i := range edges {
		r.s.edges[i].path, r.s.edges[i].drawn = arc(p, q, apart(k)), curve(p, q, apart(k))
	}
	return true
}

// near are the boxes that a line from p to q may have to do with, with the
// distance that it keeps from them; that from hubs is given.
func (r *router) near(e *edge, p, q point, hubGap float64) []rect {
	reach := spanned(p, q).grown(320)
	var list []rect
	for i := range r.s.vertices {
		if i != e.from && i != e.to && r.s.vertices[i].overlaps(reach) {
			gap := lineGap
			if r.s.vertices[i].shape == hubShape {
				gap = hubGap
			}
			list = append(list, r.s.vertices[i].grown(gap))
		}
	}
	for _, t := range r.titles {
		if t.overlaps(reach) {
			list = append(list, t.grown(lineGap))
		}
	}
	return list
}

// hits tells whether a path passes through one of the boxes.
func hits(path []point, boxes []rect) bool {
	for i := 1; i < len(path); i++ {
		p, q := path[i-1], path[i]
		left, right, top, bottom := min(p.x, q.x), max(p.x, q.x), min(p.y, q.y), max(p.y, q.y)
		for k := range boxes {
			b := &boxes[k]
			if b.x-b.hw < right && b.x+b.hw > left && b.y-b.hh < bottom && b.y+b.hh > top && b.cuts(p, q) {
				return true
			}
		}
	}
	return false
}

// lane tells whether a line may turn at c without lying on another.
func (r *router) lane(c point) bool {
	r.budget -= len(r.runs)
	spot := rect{c, 3, 3}
	for _, s := range r.runs {
		if spot.cuts(s[0], s[1]) {
			return false
		}
	}
	return true
}

// around finds a short way with few turns along the corners of boxes; nil if
// there is none or the budget is spent. Parallel lines have lanes, the first of
// which is 0.
func (r *router) around(p, q point, boxes []rect, lane float64) []point {
	if r.budget -= 4 * len(boxes) * len(boxes); r.budget < 0 {
		return nil
	}
	return r.shortest(r.spots(p, q, boxes, lane), boxes, lane)
}

// spots are where a way may begin, end and turn: p, q, and the corners of boxes.
func (r *router) spots(p, q point, boxes []rect, lane float64) []point {
	spots := []point{p, q}
	for _, b := range boxes {
		for _, at := range []point{{-1, -1}, {1, -1}, {-1, 1}, {1, 1}} {
			// Beside the lines that pass here already, while there is room.
			corner, found := point{}, false
			for out := 2 + lane; out < 2+lane+20; out += 5 {
				c := point{b.x + at.x*(b.hw+out), b.y + at.y*(b.hh+out)}
				if slices.ContainsFunc(boxes, func(b rect) bool { return b.contains(c) }) {
					break
				}
				free := r.lane(c)
				if free || !found {
					corner, found = c, true
				}
				if free {
					break
				}
			}
			if found {
				spots = append(spots, corner)
			}
		}
	}
	return spots
}

// shortest is the best way from the first spot to the second; nil if there is none,
// or the budget is used up.
func (r *router) shortest(spots []point, boxes []rect, lane float64) []point {
	p, q := spots[0], spots[1]
	const turn = 45 // a turn is as bad as this much more way
	cost, from, done := make([]float64, len(spots)), make([]int, len(spots)), make([]bool, len(spots))
	for i := range cost {
		cost[i] = math.Inf(1)
	}
	cost[0] = 0
	for {
		at := -1
		for i := range spots {
			if !done[i] && !math.IsInf(cost[i], 1) && (at < 0 || cost[i]+spots[i].to(q) < cost[at]+spots[at].to(q)) {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		if at == 1 {
			break
		}
		done[at] = true
		if r.budget -= len(spots) * len(boxes) / 2; r.budget < 0 {
			return nil
		}
		for i := range spots {
			if at == 0 && i == 1 && lane > 0 {
				continue // the straight line is that of the first lane
			}
			c := cost[at] + spots[at].to(spots[i]) + turn
			if done[i] || c >= cost[i] || hits([]point{spots[at], spots[i]}, boxes) {
				continue
			}
			cost[i], from[i] = c, at
		}
	}
	var way []point
	for i := 1; i != 0; i = from[i] {
		way = slices.Insert(way, 0, spots[i])
	}
	return slices.Insert(way, 0, p)
}

// arc is a line from p to q that bends by bow in its middle, as points.
func arc(p, q point, bow float64) []point {
	if bow == 0 {
		return []point{p, q}
	}
	c := control(p, q, bow)
	const steps = 16
	path := make([]point, 0, steps+1)
	for i := range steps + 1 {
		t := float64(i) / steps
		path = append(path, between(between(p, c, t), between(c, q, t), t))
	}
	return path
}

// control is the point that pulls a quadratic curve out by bow. The side does
// not depend on which end comes first.
func control(p, q point, bow float64) point {
	d := q.sub(p)
	if d.x < 0 || d.x == 0 && d.y < 0 {
		d = d.times(-1)
	}
	l := max(d.length(), 1e-9)
	return between(p, q, 0.5).add(point{-d.y / l, d.x / l}.times(2 * bow))
}

func curve(p, q point, bow float64) string {
	if bow == 0 {
		return polyline([]point{p, q})
	}
	c := control(p, q, bow)
	return fmt.Sprintf("M%s Q%s %s", coordinates(p), coordinates(c), coordinates(q))
}

func polyline(path []point) string {
	var b strings.Builder
	for i, p := range path {
		b.WriteString([]string{"M", " L"}[min(i, 1)])
		b.WriteString(coordinates(p))
	}
	return b.String()
}

// rounded is a way with soft corners.
func rounded(way []point) string {
	var b strings.Builder
	b.WriteString("M" + coordinates(way[0]))
	for i := 1; i < len(way)-1; i++ {
		before, at, after := way[i-1], way[i], way[i+1]
		r := min(12, before.to(at)/2, at.to(after)/2)
		in := between(at, before, r/max(before.to(at), 1e-9))
		out := between(at, after, r/max(at.to(after), 1e-9))
		fmt.Fprintf(&b, " L%s Q%s %s", coordinates(in), coordinates(at), coordinates(out))
	}
	b.WriteString(" L" + coordinates(way[len(way)-1]))
	return b.String()
}

func coordinates(p point) string { return decimal(p.x) + "," + decimal(p.y) }

// decimal prints a coordinate with one digit after the point.
func decimal(v float64) string {
	s := fmt.Sprintf("%.1f", v)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}
