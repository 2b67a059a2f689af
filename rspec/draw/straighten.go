package draw

import (
	"math"
	"slices"
)

// align rotates places so that most edges run along the axes, and returns true. If no
// rotation achieves this, align turns the longest direction of the drawing to the x axis and
// returns false.
func align(at []point, near [][]int) (axes bool) {
	var c, s, sx, sy, sxy, edges float64
	middle := mean(at)
	for i := range at {
		for _, j := range near[i] {
			e := at[j].sub(at[i])
			turn := 4 * math.Atan2(e.y, e.x)
			c, s, edges = c+math.Cos(turn), s+math.Sin(turn), edges+1
		}
		p := at[i].sub(middle)
		sx, sy, sxy = sx+p.x*p.x, sy+p.y*p.y, sxy+p.x*p.y
	}
	turn := -math.Atan2(2*sxy, sx-sy) / 2
	if axes = math.Hypot(c, s) > 0.45*edges; axes {
		turn = -math.Atan2(s, c) / 4
	}
	rotate := func(turn float64) {
		sin, cos := math.Sincos(turn)
		for i, p := range at {
			at[i] = point{p.x*cos - p.y*sin, p.x*sin + p.y*cos}
		}
	}
	rotate(turn)
	low, high := at[0], at[0]
	for _, p := range at {
		low, high = point{min(low.x, p.x), min(low.y, p.y)}, high.max(p)
	}
	if high.y-low.y > 1.02*(high.x-low.x) {
		rotate(math.Pi / 2)
	}
	return axes
}

// mirrorToTopLeft mirrors places so that places[index] is in the upper left quarter.
func mirrorToTopLeft(places []point, index int) {
	p := places[index].sub(mean(places))
	for i := range places {
		if p.x > 1e-6 {
			places[i].x = -places[i].x
		}
		if p.y > 1e-6 {
			places[i].y = -places[i].y
		}
	}
}

// straighten aligns blocks that stand nearly in a row or a column. It undoes an alignment
// that increases the result of countFaults.
func (a *arrangement) straighten(list []int, at []point, near [][]int) {
	n := len(at)
	if n > 400 {
		return
	}
	for _, vertical := range []bool{false, true} {
		axis := func(p *point) *float64 {
			if vertical {
				return &p.x
			}
			return &p.y
		}
		class := make([]int, n)
		for i := range class {
			class[i] = i
		}
		find := func(i int) int {
			for class[i] != i {
				class[i] = class[class[i]]
				i = class[i]
			}
			return i
		}
		for i := range at {
			for _, j := range near[i] {
				d := at[j].sub(at[i])
				along, off := math.Abs(d.x), math.Abs(d.y)
				if vertical {
					along, off = off, along
				}
				if off < 0.3*along {
					class[find(i)] = find(j)
				}
			}
		}
		var rows grouping[int, int]
		for i := range class {
			rows.add(find(i), i)
		}
		order := slices.DeleteFunc(rows.keys, func(r int) bool { return len(rows.of[r]) < 2 })
		before := slices.Clone(at)
		cost := a.countFaults(list, at, near)
		level := func(r int) {
			sum := 0.0
			for _, i := range rows.of[r] {
				sum += *axis(&at[i]) / float64(len(rows.of[r]))
			}
			for _, i := range rows.of[r] {
				*axis(&at[i]) = sum
			}
		}
		for _, r := range order {
			level(r)
		}
		if a.countFaults(list, at, near) <= cost {
			continue
		}
		copy(at, before)
		if n > 120 {
			continue
		}
		for _, r := range order {
			before := slices.Clone(at)
			level(r)
			if c := a.countFaults(list, at, near); c > cost {
				copy(at, before)
			} else {
				cost = c
			}
		}
	}
}

// relaxedGap is the share of the usual distances that aligned rows must keep.
const relaxedGap = 0.7

// countFaults counts overlapping boxes, with weight 3, and lines that pass
// through boxes.
func (a *arrangement) countFaults(list []int, at []point, near [][]int) int {
	boxes := make([]rect, len(at))
	for k, i := range list {
		b := a.blocks[i]
		boxes[k] = rect{at[k], b.hw, b.hh}.grown(clearance / 2 * relaxedGap)
	}
	n := 0
	for i := range boxes {
		for j := range i {
			if boxes[i].overlaps(boxes[j]) {
				n += 3
			}
		}
		for _, j := range near[i] {
			if j < i {
				continue
			}
			for k := range boxes {
				if k != i && k != j && boxes[k].cuts(at[i], at[j]) {
					n++
				}
			}
		}
	}
	return n
}

// maxRounds is the maximal number of rounds of separate. In these rounds the drawing grows
// about twentyfold.
const maxRounds = 40 * 60

// separate moves boxes apart that are too near. It moves each pair along the axis on which
// the shorter move suffices. Every 60 rounds it also enlarges the whole drawing, so that
// finally all boxes have room. slack, at most 1, is the share of the required distances that
// boxes must keep.
func (a *arrangement) separate(list []int, at []point, slack float64) {
	widest := point{clearance, clearance} // the largest distance that any pair needs
	for _, need := range a.need {
		widest = widest.max(need)
	}
	widest = widest.times(slack)
	for round := range maxRounds {
		if round > 0 && round%60 == 0 {
			for k := range at {
				at[k] = at[k].times(1.08)
			}
		}
		clear := true
		for k, i := range list {
			for m, j := range list[:k] {
				p, q := a.blocks[i], a.blocks[j]
				dx, dy := at[k].x-at[m].x, at[k].y-at[m].y
				if p.hw+q.hw+widest.x <= math.Abs(dx) || p.hh+q.hh+widest.y <= math.Abs(dy) {
					continue
				}
				gap := a.between(i, j).times(slack)
				joined := gap.x > clearance
				ox := p.hw + q.hw + gap.x - math.Abs(dx)
				oy := p.hh + q.hh + gap.y - math.Abs(dy)
				if ox <= 1e-6 || oy <= 1e-6 {
					continue
				}
				clear = false
				// Boxes that a line joins need more than clearance; they move along the line.
				if joined && math.Abs(dx)*oy > math.Abs(dy)*ox || !joined && ox < oy {
					s := math.Copysign(ox/2+0.01, dx)
					at[k].x, at[m].x = at[k].x+s, at[m].x-s
				} else {
					s := math.Copysign(oy/2+0.01, dy)
					at[k].y, at[m].y = at[k].y+s, at[m].y-s
				}
			}
		}
		if clear {
			return
		}
	}
}
