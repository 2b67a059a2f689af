package draw

import "slices"

// placeTree places a tree of blocks in rows by their distance from the centre, each block above its children.
func (a *arrangement) placeTree(list []int) {
	root := a.treeCentre(list)
	// set places block i and all blocks below it. The parameter left is the left edge of these
	// blocks; set returns their right edge. The parameter from is the parent of block i.
	var set func(i, from int, y, left float64) float64
	place := map[int]point{}
	set = func(i, from int, y, left float64) float64 {
		b := a.blocks[i]
		children := slices.DeleteFunc(slices.Clone(a.near[i]), func(j int) bool { return j == from })
		slices.Sort(children)
		at := left
		for n, j := range children {
			if n > 0 {
				at += clearance + 14
			}
			at = set(j, i, y+1, at)
		}
		x := left + b.hw
		if len(children) > 0 {
			x = (place[children[0]].x + place[children[len(children)-1]].x) / 2
			x = max(x, left+b.hw)
		}
		place[i] = point{x, y}
		return max(at, x+b.hw)
	}
	set(root, -1, 0, 0)
	var rows []float64
	for _, i := range list {
		d := int(place[i].y)
		for len(rows) <= d {
			rows = append(rows, 0)
		}
		rows[d] = max(rows[d], a.blocks[i].hh*2)
	}
	for _, i := range list {
		y := 0.0
		for d := range int(place[i].y) {
			y += rows[d]/2 + a.gap.y + rows[d+1]/2
		}
		a.moveBlock(i, point{place[i].x, y})
	}
}

// treeCentre returns the block in the middle of the tree's longest path. If two blocks are in
// the middle, it returns the one with more neighbours.
func (a *arrangement) treeCentre(list []int) int {
	far := a.connected(list[0])
	walk := a.connected(far[len(far)-1])
	// Walk back from the farthest block to the other end.
	parent := map[int]int{walk[0]: -1}
	for _, i := range walk {
		for _, j := range a.near[i] {
			if _, seen := parent[j]; !seen {
				parent[j] = i
			}
		}
	}
	var way []int
	for i := walk[len(walk)-1]; i >= 0; i = parent[i] {
		way = append(way, i)
	}
	m := way[len(way)/2]
	if len(way)%2 == 0 && len(a.near[way[len(way)/2-1]]) > len(a.near[m]) {
		m = way[len(way)/2-1]
	}
	return m
}
