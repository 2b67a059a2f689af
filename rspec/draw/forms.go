package draw

import (
	"math"
	"slices"
)

// form is how the blocks of a part are joined.
type form struct {
	isTree, isStar, isRing, isDense bool
	leaves                          int // blocks with one neighbour
	widest                          int // the block with the most
}

func (a *arrangement) formOf(list []int) form {
	p := form{widest: list[0], isRing: true}
	ends := 0
	for _, i := range list {
		n := len(a.near[i])
		if ends += n; n == 1 {
			p.leaves++
		}
		if n > len(a.near[p.widest]) {
			p.widest = i
		}
		p.isRing = p.isRing && n == 2
	}
	joins, n := ends/2, len(list)
	p.isTree = joins == n-1
	p.isStar = p.isTree && p.leaves == n-1
	p.isRing = p.isRing && joins == n
	p.isDense = n >= 5 && n <= 16 && joins*5 >= n*(n-1)/2*3
	return p
}

// placePart gives connected blocks their places, by the form of their graph.
func (a *arrangement) placePart(list []int) {
	p := a.formOf(list)
	switch {
	case p.isStar && a.frames && p.leaves > 2 && len(a.blocks[p.widest].members) == 1:
		a.court(list, p.widest)
	case p.isDense && !a.frames:
		a.circle(list)
	case p.isTree && p.leaves == 2:
		a.chain(list)
	case p.isStar && !a.frames:
		a.star(list, p.widest)
	case p.isRing:
		a.ring(list)
	case p.isTree && p.leaves <= 9 && !a.frames:
		a.tree(list)
	case len(list) > mostStress:
		a.tile(list)
	default:
		a.spread(list)
	}
	a.turn(list)
}

// cell is how much room a block of middle size takes with the gap to the next.
func (a *arrangement) cell(list []int) point {
	var ws, hs []float64
	for _, i := range list {
		ws, hs = append(ws, a.blocks[i].hw*2), append(hs, a.blocks[i].hh*2)
	}
	slices.Sort(ws)
	slices.Sort(hs)
	return point{ws[len(ws)/2] + a.gap.x, hs[len(hs)/2] + a.gap.y}
}

// chain sets blocks in a row, or in rows that turn like an ox at the plough.
func (a *arrangement) chain(list []int) {
	inner := func(i int) bool { return len(a.near[i]) != 1 }
	walk := a.reach(slices.Min(slices.DeleteFunc(slices.Clone(list), inner))) // from the first end in the document
	width, total := a.largest(walk).x, 0.0
	for _, i := range walk {
		total += a.blocks[i].hw*2 + a.gap.x
	}
	most := 1500.0
	if a.frames {
		most = 1900
	}
	perRow := len(walk)
	if total > most {
		rows := math.Ceil(total / most)
		perRow = max(2, int(math.Ceil(float64(len(walk))/rows)))
		if mean := total / float64(len(walk)); mean > most/2 {
			// Large blocks: as many to a row as make a fair page.
			high := 0.0
			for _, i := range walk {
				high += (a.blocks[i].hh*2 + a.gap.y) / float64(len(walk))
			}
			perRow = max(1, int(math.Round(math.Sqrt(float64(len(walk))*proportion*high/mean))))
		}
	}
	y, high := 0.0, 0.0
	for k := 0; k < len(walk); k += perRow {
		row := walk[k:min(k+perRow, len(walk))]
		rowHigh := a.largest(row).y
		if k > 0 {
			y += high/2 + a.gap.y + rowHigh/2
		}
		high = rowHigh
		x := 0.0
		for n, i := range row {
			if perRow == len(walk) { // one row: each block its own width
				x += a.blocks[i].hw
				a.put(i, point{x, y})
				x += a.blocks[i].hw + a.gap.x
				continue
			}
			column := n
			if k/perRow%2 == 1 {
				column = perRow - 1 - n
			}
			a.put(i, point{float64(column) * (width + a.gap.x), y})
		}
	}
}

// ring sets blocks around an ellipse.
func (a *arrangement) ring(list []int) {
	first := slices.Min(list)
	walk := []int{first}
	for at, from := a.near[first][0], first; at != first; {
		walk = append(walk, at)
		next := a.near[at][0]
		if next == from {
			next = a.near[at][1]
		}
		at, from = next, at
	}
	a.grow(walk, ellipse(len(walk)), float64(len(walk))/(2*math.Pi))
}

// circle sets blocks that are nearly all joined around an ellipse, in the order
// of the document: no line between two of them meets a third.
func (a *arrangement) circle(list []int) {
	walk := slices.Sorted(slices.Values(list))
	a.grow(walk, ellipse(len(walk)), float64(len(walk))/4)
}

// ellipse is n places around the middle; with a flat top where n is even.
func ellipse(n int) []point {
	at := make([]point, n)
	for k := range at {
		turn := -math.Pi/2 + 2*math.Pi*float64(k)/float64(n)
		if n%2 == 0 {
			turn -= math.Pi / float64(n)
		}
		at[k] = point{math.Cos(turn), math.Sin(turn)}
	}
	return at
}

// court sets frames around the one box that joins them: in a row above it, or
// in two rows with the box between.
func (a *arrangement) court(list []int, middle int) {
	frames := slices.Sorted(slices.Values(a.near[middle]))
	total := 0.0
	for _, i := range frames {
		total += a.blocks[i].hw*2 + frameGap
	}
	rows := [][]int{frames}
	if len(frames) > 3 || total > 2000 {
		rows = [][]int{frames[:(len(frames)+1)/2], frames[(len(frames)+1)/2:]}
	}
	y := 0.0
	for k, row := range rows {
		width, high := -frameGap*0.6, a.largest(row).y
		for _, i := range row {
			width += a.blocks[i].hw*2 + frameGap*0.6
		}
		x := -width / 2
		for _, i := range row {
			// Frames stand on the side of the box.
			level := y + high - a.blocks[i].hh
			if k == 1 {
				level = y + a.blocks[i].hh
			}
			a.put(i, point{x + a.blocks[i].hw, level})
			x += a.blocks[i].hw*2 + frameGap*0.6
		}
		y += high
		if k == 0 {
			y += frameGap * 0.7
			a.put(middle, point{0, y + a.blocks[middle].hh})
			y += a.blocks[middle].hh*2 + frameGap*0.7
		}
	}
}

// star sets the leaves around the middle, on one ellipse or more.
func (a *arrangement) star(list []int, middle int) {
	leaves := slices.Sorted(slices.Values(a.near[middle]))
	walk := []int{middle}
	unit := []point{{}}
	rings := 1
	for ; len(leaves) > 14*rings*(rings+1)/2; rings++ {
	}
	// Ring k has a share of k.
	left, shares := len(leaves), rings*(rings+1)/2
	at := 0
	for k := 1; k <= rings; k++ {
		here := int(math.Round(float64(left) * float64(k) / float64(shares)))
		if k == rings {
			here = left
		}
		here = min(here, left)
		for j := range here {
			turn := -math.Pi/2 + 2*math.Pi*(float64(j)+0.5*float64(k-1))/float64(here)
			if here%2 == 0 && rings == 1 {
				turn -= math.Pi / float64(here)
			}
			radius := 1 + 0.75*float64(k-1)
			unit = append(unit, point{math.Cos(turn) * radius, math.Sin(turn) * radius})
			walk = append(walk, leaves[at])
			at++
		}
		left -= here
		shares -= k
	}
	a.grow(walk, unit, 0.8)
}

// grow sets blocks at places that are scaled up until all have room.
func (a *arrangement) grow(walk []int, unit []point, scale float64) {
	c := a.cell(walk)
	at := make([]point, len(walk))
	for ; ; scale *= 1.06 {
		for k := range walk {
			at[k] = unit[k].times(scale).scaled(c)
		}
		if a.roomy(walk, at) {
			break
		}
	}
	for k, i := range walk {
		a.put(i, at[k])
	}
}

// roomy tells whether no two blocks are too near to each other, and joined ones
// leave room for what stands between them.
func (a *arrangement) roomy(walk []int, at []point) bool {
	for k, i := range walk {
		for m, j := range walk[:k] {
			if a.crowded(i, j, at[k], at[m]) {
				return false
			}
		}
	}
	return true
}

// between is how far apart two blocks must be, one way or the other.
func (a *arrangement) between(i, j int) point {
	if need, joined := a.need[ordered(i, j)]; joined {
		return need
	}
	return point{clearance, clearance}
}

func (a *arrangement) crowded(i, j int, p, q point) bool {
	dx := math.Abs(p.x-q.x) - a.blocks[i].hw - a.blocks[j].hw
	dy := math.Abs(p.y-q.y) - a.blocks[i].hh - a.blocks[j].hh
	gap := a.between(i, j)
	return dx < gap.x && dy < gap.y
}
