package draw

import (
	"math"
	"slices"
)

// maxStressBlocks limits placeByStress, because its cost grows with the square of the number
// of blocks.
const maxStressBlocks = 900

// placeByStress places blocks so that distances on the drawing are like those in the graph
// (stress majorization). Then it straightens rows and columns and separates overlapping
// blocks.
func (a *arrangement) placeByStress(list []int) {
	number := map[int]int{}
	for k, i := range list {
		number[i] = k
	}
	g := &stressGraph{near: make([][]int, len(list)), size: make([]float64, len(list))}
	c := a.cell(list)
	for k, i := range list {
		for _, j := range a.near[i] {
			g.near[k] = append(g.near[k], number[j])
		}
		g.size[k] = max(1, (a.blocks[i].hw*2/c.x+a.blocks[i].hh*2/c.y)/2)
	}
	at := g.solve()
	axes := align(at, g.near)
	mirrorToTopLeft(at, slices.Index(list, slices.Min(list)))
	for k := range at {
		at[k] = at[k].scaled(c)
	}
	if !axes || a.frames {
		a.fitProportion(list, at)
	}
	scale := a.scale(list, at)
	for k := range at {
		at[k] = at[k].times(scale)
	}
	a.separate(list, at, 1)
	a.straighten(list, at, g.near)
	a.separate(list, at, relaxedGap)
	if a.frames {
		a.compact(list, at)
	}
	for k, i := range list {
		a.moveBlock(i, at[k])
	}
}

// fitProportion compresses a drawing that is too wide for a page.
func (a *arrangement) fitProportion(list []int, places []point) {
	all := rect{}
	for k, i := range list {
		all = all.union(rect{places[k], a.blocks[i].hw, a.blocks[i].hh})
	}
	press := math.Sqrt(min(1, proportion*1.1*all.hh/all.hw))
	for k := range places {
		places[k] = point{places[k].x * press, places[k].y / press}
	}
}

// compact shrinks each axis as long as all blocks have room.
func (a *arrangement) compact(list []int, places []point) {
	for _, shrink := range []point{{1, 0.94}, {0.94, 1}} {
		for range 30 {
			closer := make([]point, len(places))
			for k, p := range places {
				closer[k] = p.scaled(shrink)
			}
			if !a.hasRoom(list, closer) {
				break
			}
			copy(places, closer)
		}
	}
}

// scale returns the factor, from 0.8 to 2, that gives most linked blocks room between them.
func (a *arrangement) scale(list []int, places []point) float64 {
	var need []float64
	for k, i := range list {
		for m, j := range list[:k] {
			if !slices.Contains(a.near[i], j) {
				continue
			}
			dx, dy := math.Abs(places[k].x-places[m].x), math.Abs(places[k].y-places[m].y)
			p, q, gap := a.blocks[i], a.blocks[j], a.gapBetween(i, j)
			need = append(need, min((p.hw+q.hw+gap.x)/max(dx, 1e-9), (p.hh+q.hh+gap.y)/max(dy, 1e-9)))
		}
	}
	slices.Sort(need)
	return min(max(need[len(need)*7/10], 0.8), 2)
}
