package draw

import (
	"math"
	"slices"
)

// align rotates places so that most edges run along the axes, and returns true. If no rotation
// achieves this, align turns the longest direction of the drawing to the x axis and returns
// false.
func align(places []point, near [][]int) (axes bool) {
	var c, s, sx, sy, sxy, edges float64
	middle := mean(places)
	for i := range places {
		for _, j := range near[i] {
			e := places[j].sub(places[i])
			turn := 4 * math.Atan2(e.y, e.x)
			c, s, edges = c+math.Cos(turn), s+math.Sin(turn), edges+1
		}
		p := places[i].sub(middle)
		sx, sy, sxy = sx+p.x*p.x, sy+p.y*p.y, sxy+p.x*p.y
	}
	turn := -math.Atan2(2*sxy, sx-sy) / 2
	if axes = math.Hypot(c, s) > 0.45*edges; axes {
		turn = -math.Atan2(s, c) / 4
	}
	rotate := func(turn float64) {
		sin, cos := math.Sincos(turn)
		for i, p := range places {
			places[i] = point{p.x*cos - p.y*sin, p.x*sin + p.y*cos}
		}
	}
	rotate(turn)
	low, high := places[0], places[0]
	for _, p := range places {
		low, high = point{min(low.x, p.x), min(low.y, p.y)}, high.max(p)
	}
	if high.y-low.y > 1.02*(high.x-low.x) {
		rotate(math.Pi / 2)
	}
	return axes
}

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

// straighten aligns blocks that stand nearly in a row or a column. If that increases countFaults for all rows
// together, it keeps only the rows that do not increase it.
func (a *arrangement) straighten(list []int, places []point, near [][]int) {
	n := len(places)
	if n > 400 {
		return
	}
	for _, vertical := range []bool{false, true} {
		rows := rowsOf(places, near, vertical)
		before := slices.Clone(places)
		cost := a.countFaults(list, places, near)
		for _, row := range rows {
			level(places, row, vertical)
		}
		if a.countFaults(list, places, near) <= cost {
			continue
		}
		copy(places, before)
		if n > 120 {
			continue
		}
		for _, row := range rows {
			before := slices.Clone(places)
			level(places, row, vertical)
			if c := a.countFaults(list, places, near); c > cost {
				copy(places, before)
			} else {
				cost = c
			}
		}
	}
}

// rowsOf returns the rows, or with vertical the columns, of at least two places: edges that deviate little from the axis
// join the places of a row.
func rowsOf(places []point, near [][]int, vertical bool) (rows [][]int) {
	class := make([]int, len(places)) // a disjoint-set forest: the parent of each place
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
	for i := range places {
		for _, j := range near[i] {
			d := places[j].sub(places[i])
			along, off := math.Abs(d.x), math.Abs(d.y)
			if vertical {
				along, off = off, along
			}
			if off < 0.3*along {
				class[find(i)] = find(j)
			}
		}
	}
	var members grouping[int, int]
	for i := range class {
		members.add(find(i), i)
	}
	for _, r := range members.keys {
		if len(members.of[r]) > 1 {
			rows = append(rows, members.of[r])
		}
	}
	return rows
}

// level moves the places of a row to their mean height, or with vertical those of a column to their mean x.
func level(places []point, row []int, vertical bool) {
	axis := func(p *point) *float64 {
		if vertical {
			return &p.x
		}
		return &p.y
	}
	sum := 0.0
	for _, i := range row {
		sum += *axis(&places[i]) / float64(len(row))
	}
	for _, i := range row {
		*axis(&places[i]) = sum
	}
}

// relaxedGap is a share of the usual distances, which aligned rows must keep.
const relaxedGap = 0.7

// countFaults counts overlapping boxes, with weight 3, and lines through boxes.
func (a *arrangement) countFaults(list []int, places []point, near [][]int) int {
	boxes := make([]rect, len(places))
	for k, i := range list {
		b := a.blocks[i]
		boxes[k] = rect{places[k], b.hw, b.hh}.grown(clearance / 2 * relaxedGap)
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
				if k != i && k != j && boxes[k].cuts(places[i], places[j]) {
					n++
				}
			}
		}
	}
	return n
}

// maxRounds limits separate, which enlarges the drawing about twentyfold in these rounds.
const maxRounds = 40 * 60

// separate moves boxes apart that are too near. It moves each pair along the axis with the
// shorter move. Every 60 rounds it also enlarges the whole drawing, so that finally all boxes
// have room. The parameter slack, at most 1, is the share of the required distances that boxes
// must keep.
func (a *arrangement) separate(list []int, places []point, slack float64) {
	widest := point{clearance, clearance} // the largest distance that any pair needs
	for _, need := range a.need {
		widest = widest.max(need)
	}
	widest = widest.times(slack)
	for round := range maxRounds {
		if round > 0 && round%60 == 0 {
			for k := range places {
				places[k] = places[k].times(1.08)
			}
		}
		clear := true
		for k, i := range list {
			for m, j := range list[:k] {
				p, q := a.blocks[i], a.blocks[j]
				dx, dy := places[k].x-places[m].x, places[k].y-places[m].y
				if p.hw+q.hw+widest.x <= math.Abs(dx) || p.hh+q.hh+widest.y <= math.Abs(dy) {
					continue
				}
				gap := a.gapBetween(i, j).times(slack)
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
					places[k].x, places[m].x = places[k].x+s, places[m].x-s
				} else {
					s := math.Copysign(oy/2+0.01, dy)
					places[k].y, places[m].y = places[k].y+s, places[m].y-s
				}
			}
		}
		if clear {
			return
		}
	}
}
