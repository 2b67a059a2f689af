package draw

import (
	"math"
	"slices"
)

// form is the form of a part's graph.
type form struct {
	isTree, isStar, isRing, isDense bool
	leaves                          int // blocks with one neighbour
	widest                          int // the block with the most neighbours
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

// placePart places linked blocks as the form of their graph suggests.
func (a *arrangement) placePart(list []int) {
	p := a.formOf(list)
	switch {
	case p.isStar && a.frames && p.leaves > 2 && len(a.blocks[p.widest].members) == 1:
		a.placeFramesAround(list, p.widest)
	case p.isDense && !a.frames:
		a.placeCircle(list)
	case p.isTree && p.leaves == 2:
		a.placeChain(list)
	case p.isStar && !a.frames:
		a.placeStar(list, p.widest)
	case p.isRing:
		a.placeRing(list)
	case p.isTree && p.leaves <= 9 && !a.frames:
		a.placeTree(list)
	case len(list) > maxStressBlocks:
		a.placeGrid(list)
	default:
		a.placeByStress(list)
	}
	a.mirrorBlocks(list)
}

// cell returns the median width and height, each plus the gap to the next block.
func (a *arrangement) cell(list []int) point {
	var ws, hs []float64
	for _, i := range list {
		ws, hs = append(ws, a.blocks[i].hw*2), append(hs, a.blocks[i].hh*2)
	}
	slices.Sort(ws)
	slices.Sort(hs)
	return point{ws[len(ws)/2] + a.gap.x, hs[len(hs)/2] + a.gap.y}
}

// placeChain makes one row, or rows that run alternately right and left.
func (a *arrangement) placeChain(list []int) {
	inner := func(i int) bool { return len(a.near[i]) != 1 }
	walk := a.connected(slices.Min(slices.DeleteFunc(slices.Clone(list), inner))) // from the end that the document names first
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
			// Large blocks: choose the number in a row by the page's proportion.
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
			if perRow == len(walk) {
				x += a.blocks[i].hw
				a.moveBlock(i, point{x, y})
				x += a.blocks[i].hw + a.gap.x
				continue
			}
			column := n
			if k/perRow%2 == 1 {
				column = perRow - 1 - n
			}
			a.moveBlock(i, point{float64(column) * (width + a.gap.x), y})
		}
	}
}

// placeRing places a ring of blocks on an ellipse, in the order of their links.
func (a *arrangement) placeRing(list []int) {
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
	a.placeScaled(walk, ellipse(len(walk)), float64(len(walk))/(2*math.Pi))
}

// placeCircle places blocks that are nearly all linked on an ellipse, in the order of the document. So no line passes
// through a third block.
func (a *arrangement) placeCircle(list []int) {
	walk := slices.Sorted(slices.Values(list))
	a.placeScaled(walk, ellipse(len(walk)), float64(len(walk))/4)
}

// ellipse returns n points around the origin. One of them is at the top if n is odd; two are
// beside the top if n is even.
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

// placeFramesAround places frames in a row above the box middle, or in two rows with the box
// between them.
func (a *arrangement) placeFramesAround(list []int, middle int) {
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
			// Place the frame at the side of its row that faces the box.
			level := y + high - a.blocks[i].hh
			if k == 1 {
				level = y + a.blocks[i].hh
			}
			a.moveBlock(i, point{x + a.blocks[i].hw, level})
			x += a.blocks[i].hw*2 + frameGap*0.6
		}
		y += high
		if k == 0 {
			y += frameGap * 0.7
			a.moveBlock(middle, point{0, y + a.blocks[middle].hh})
			y += a.blocks[middle].hh*2 + frameGap*0.7
		}
	}
}

// placeStar puts the leaves on one or more ellipses.
func (a *arrangement) placeStar(list []int, middle int) {
	leaves := slices.Sorted(slices.Values(a.near[middle]))
	walk := []int{middle}
	unit := []point{{}}
	rings := 1
	for ; len(leaves) > 14*rings*(rings+1)/2; rings++ {
	}
	left, shares := len(leaves), rings*(rings+1)/2 // ring k gets k of the shares
	at := 0                                        // the next leaf
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
	a.placeScaled(walk, unit, 0.8)
}

// placeScaled places the blocks at the points unit, scaled up from scale until all blocks have room.
func (a *arrangement) placeScaled(walk []int, unit []point, scale float64) {
	c := a.cell(walk)
	at := make([]point, len(walk))
	for ; ; scale *= 1.06 {
		for k := range walk {
			at[k] = unit[k].times(scale).scaled(c)
		}
		if a.hasRoom(walk, at) {
			break
		}
	}
	for k, i := range walk {
		a.moveBlock(i, at[k])
	}
}

// hasRoom reports whether all pairs of blocks have enough distance. Linked blocks also need
// room for their labels.
func (a *arrangement) hasRoom(walk []int, places []point) bool {
	for k, i := range walk {
		for m, j := range walk[:k] {
			if a.isTooClose(i, j, places[k], places[m]) {
				return false
			}
		}
	}
	return true
}

// gapBetween returns the distances in x and y that two blocks need. One of the two suffices.
func (a *arrangement) gapBetween(i, j int) point {
	if need, joined := a.need[ordered(i, j)]; joined {
		return need
	}
	return point{clearance, clearance}
}

func (a *arrangement) isTooClose(i, j int, p, q point) bool {
	dx := math.Abs(p.x-q.x) - a.blocks[i].hw - a.blocks[j].hw
	dy := math.Abs(p.y-q.y) - a.blocks[i].hh - a.blocks[j].hh
	gap := a.gapBetween(i, j)
	return dx < gap.x && dy < gap.y
}
