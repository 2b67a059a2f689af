package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

type router struct {
	s *scene
	// budget is the number of comparisons with boxes and other lines that detours may still
	// use. When it is spent, lines run straight.
	budget int
	titles []rect // titles of frames, which lines also avoid
	// detours are segments that later detours avoid.
	detours [][2]point
}

// lineGap is the distance of a line from boxes that are not its own.
const lineGap = 6.0

// hubGap is the preferred distance of a line from other hubs, because a closer line seems to
// end at the hub.
const hubGap = 16.0

func (s *scene) routeLines() {
	r := router{s: s, budget: 60_000_000, titles: s.titleRects()}
	var alike grouping[[2]int, int]
	for i := range s.edges {
		e := &s.edges[i]
		if e.stub > 0 {
			foot := s.vertices[e.from].stubEnds[e.stub-1]
			e.path = []point{{foot.x, s.vertices[e.from].y}, foot}
			e.drawn = polyline(e.path)
			continue
		}
		alike.add(ordered(e.from, e.to), i)
	}
	for _, pair := range alike.keys {
		r.routePair(alike.of[pair])
	}
}

// bows are the distances by which lines bend to one side, in the order of the attempts. After
// the first fewBows of them a detour is tried.
var bows = []float64{0, 26, -26, 46, -46, 76, -76, 116, -116, 170, -170}

const fewBows = 5

// laneGap is the distance between parallel detours. It is not a multiple of the steps in
// waypoints, so that parallel detours do not coincide.
const laneGap = 9.0

// routePair gives all lines between two boxes their paths, side by side. It tries curves with little bow, a detour with
// few turns, curves with more bow, and any detour; if none is free, the lines run straight through boxes.
func (r *router) routePair(edges []int) {
	e := &r.s.edges[edges[0]]
	p, q := r.s.vertices[e.from].point, r.s.vertices[e.to].point
	const anyTurns = 99
	near := r.obstacles(e, p, q, hubGap)
	around := func(maxTurns int, lane float64) bool {
		ways := make([][]point, len(edges))
		for k := range edges {
			ways[k] = r.detour(p, q, near, lane*float64(k))
			if ways[k] == nil || len(ways[k]) > maxTurns+2 {
				return false
			}
		}
		for k, i := range edges {
			r.s.edges[i].path, r.s.edges[i].drawn = ways[k], rounded(ways[k])
			for n := 1; n < len(ways[k]); n++ {
				r.detours = append(r.detours, [2]point{ways[k][n-1], ways[k][n]})
			}
		}
		return true
	}
	for k, bow := range bows {
		if k == fewBows && around(2, laneGap) || r.bend(edges, p, q, near, bow) {
			return
		}
	}
	if around(anyTurns, laneGap) {
		return
	}
	near = r.obstacles(e, p, q, lineGap)
	if !around(anyTurns, laneGap) && !around(anyTurns, 1) {
		r.bend(edges, p, q, nil, 0)
	}
}

// bend draws the edges from p to q as curves side by side, the middle one with the given bow.
// If a curve would cross one of the boxes, bend changes nothing and returns false.
func (r *router) bend(edges []int, p, q point, boxes []rect, bow float64) bool {
	apart := func(k int) float64 { return bow + 24*(2*float64(k)-float64(len(edges)-1)) }
	for k := range edges {
		if crossesBox(arc(p, q, apart(k)), boxes) {
			return false
		}
	}
	for k, i := range edges {
		r.s.edges[i].path, r.s.edges[i].drawn = arc(p, q, apart(k)), curve(p, q, apart(k))
	}
	return true
}

// obstacles returns the boxes and titles near a line from p to q, enlarged by the distance
// that the line must keep. For hubs, this distance is the parameter hubGap.
func (r *router) obstacles(e *edge, p, q point, hubGap float64) []rect {
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

func crossesBox(path []point, boxes []rect) bool {
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

// isFree reports whether no earlier detour passes near the point c. It spends budget.
func (r *router) isFree(c point) bool {
	r.budget -= len(r.detours)
	spot := rect{c, 3, 3}
	for _, s := range r.detours {
		if spot.cuts(s[0], s[1]) {
			return false
		}
	}
	return true
}

// detour finds a short path with few turns along the corners of boxes. It returns nil if there
// is no such path or the budget is spent. The parameter lane is the distance from the first of
// several parallel lines; 0 for the first.
func (r *router) detour(p, q point, boxes []rect, lane float64) []point {
	if r.budget -= 4 * len(boxes) * len(boxes); r.budget < 0 {
		return nil
	}
	return r.shortest(r.waypoints(p, q, boxes, lane), boxes, lane)
}

// waypoints returns p, q and the corners of boxes at which a path may turn.
func (r *router) waypoints(p, q point, boxes []rect, lane float64) []point {
	waypoints := []point{p, q}
	for _, b := range boxes {
		for _, at := range []point{{-1, -1}, {1, -1}, {-1, 1}, {1, 1}} {
			// Find a free place beside earlier detours.
			corner, found := point{}, false
			for out := 2 + lane; out < 2+lane+20; out += 5 {
				c := point{b.x + at.x*(b.hw+out), b.y + at.y*(b.hh+out)}
				if slices.ContainsFunc(boxes, func(b rect) bool { return b.contains(c) }) {
					break
				}
				free := r.isFree(c)
				if free || !found {
					corner, found = c, true
				}
				if free {
					break
				}
			}
			if found {
				waypoints = append(waypoints, corner)
			}
		}
	}
	return waypoints
}

// shortest returns the shortest path from the first waypoint to the second by the algorithm A*, where a turn counts as a
// distance. It returns nil if there is no path or the budget is spent.
func (r *router) shortest(waypoints []point, boxes []rect, lane float64) []point {
	p, q := waypoints[0], waypoints[1]
	const turn = 45 // a turn costs as much as this distance
	cost, from, done := make([]float64, len(waypoints)), make([]int, len(waypoints)), make([]bool, len(waypoints))
	for i := range cost {
		cost[i] = math.Inf(1)
	}
	cost[0] = 0
	for {
		at := -1
		for i := range waypoints {
			if !done[i] && !math.IsInf(cost[i], 1) && (at < 0 || cost[i]+waypoints[i].to(q) < cost[at]+waypoints[at].to(q)) {
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
		if r.budget -= len(waypoints) * len(boxes) / 2; r.budget < 0 {
			return nil
		}
		for i := range waypoints {
			if at == 0 && i == 1 && lane > 0 {
				continue // the straight line belongs to the first lane
			}
			c := cost[at] + waypoints[at].to(waypoints[i]) + turn
			if done[i] || c >= cost[i] || crossesBox([]point{waypoints[at], waypoints[i]}, boxes) {
				continue
			}
			cost[i], from[i] = c, at
		}
	}
	var way []point
	for i := 1; i != 0; i = from[i] {
		way = slices.Insert(way, 0, waypoints[i])
	}
	return slices.Insert(way, 0, p)
}

// arc returns points of a curve that in its middle deviates by bow from the straight line.
func arc(p, q point, bow float64) []point {
	if bow == 0 {
		return []point{p, q}
	}
	c := control(p, q, bow)
	const steps = 16
	path := make([]point, 0, steps+1)
	for i := range steps + 1 {
		t := float64(i) / steps
		path = append(path, interpolate(interpolate(p, c, t), interpolate(c, q, t), t))
	}
	return path
}

// control returns the control point of a quadratic curve. The side to which the curve bends
// does not depend on the order of p and q.
func control(p, q point, bow float64) point {
	d := q.sub(p)
	if d.x < 0 || d.x == 0 && d.y < 0 {
		d = d.times(-1)
	}
	l := max(d.length(), 1e-9)
	return interpolate(p, q, 0.5).add(point{-d.y / l, d.x / l}.times(2 * bow))
}

// curve returns SVG syntax; bow is as in arc.
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

func rounded(way []point) string {
	var b strings.Builder
	b.WriteString("M" + coordinates(way[0]))
	for i := 1; i < len(way)-1; i++ {
		before, at, after := way[i-1], way[i], way[i+1]
		r := min(12, before.to(at)/2, at.to(after)/2)
		in := interpolate(at, before, r/max(before.to(at), 1e-9))
		out := interpolate(at, after, r/max(at.to(after), 1e-9))
		fmt.Fprintf(&b, " L%s Q%s %s", coordinates(in), coordinates(at), coordinates(out))
	}
	b.WriteString(" L" + coordinates(way[len(way)-1]))
	return b.String()
}

func coordinates(p point) string { return decimal(p.x) + "," + decimal(p.y) }

func decimal(v float64) string {
	s := fmt.Sprintf("%.1f", v)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}
