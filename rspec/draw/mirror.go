package draw

// mirrorBlocks mirrors each block in itself, along x, y or both, if that makes the lines to other blocks shorter.
func (a *arrangement) mirrorBlocks(list []int) {
	crossing := map[int][]*edge{}
	for k := range a.s.edges {
		e := &a.s.edges[k]
		if x, y, crosses := a.joins(e); crosses {
			crossing[x] = append(crossing[x], e)
			crossing[y] = append(crossing[y], e)
		}
	}
	header := 0.0
	if a.frames {
		header = frameTitle
	}
	cost := func(i int) float64 {
		sum := 0.0
		for _, e := range crossing[i] {
			sum += a.s.vertices[e.from].point.to(a.s.vertices[e.to].point)
		}
		return sum
	}
	for range 2 {
		for _, i := range list {
			b := a.blocks[i]
			if len(b.members) == 1 || len(crossing[i]) == 0 {
				continue
			}
			best, x, y := cost(i), false, false
			for k := 1; k < 4; k++ {
				a.s.mirror(b, k&1 > 0, k&2 > 0, header)
				if c := cost(i); c < best-max(20, best/20) {
					best, x, y = c, k&1 > 0, k&2 > 0
				}
				a.s.mirror(b, k&1 > 0, k&2 > 0, header)
			}
			a.s.mirror(b, x, y, header)
		}
	}
}

// alignFrames shifts frames slightly to make nearly vertical or horizontal lines between two
// frames exact.
func (a *arrangement) alignFrames() {
	const little = 40
	fixed := map[[2]int]bool{} // block and axis: moving it would spoil a line that was made exact
	for k := range a.s.edges {
		e := &a.s.edges[k]
		from, to, crosses := a.joins(e)
		if !crosses {
			continue
		}
		d := a.s.vertices[e.to].point.sub(a.s.vertices[e.from].point)
		for axis, off := range []point{{d.x, 0}, {0, d.y}} {
			if l := off.length(); l == 0 || l > little || l > d.length()/3 {
				continue // at most one axis is that near
			}
			still, moved := from, to
			if len(a.blocks[still].members) < len(a.blocks[moved].members) {
				still, moved, off = moved, still, off.times(-1)
			}
			if fixed[[2]int{still, axis}] && fixed[[2]int{moved, axis}] {
				continue
			}
			if fixed[[2]int{moved, axis}] {
				still, moved, off = moved, still, off.times(-1)
			}
			place := rect{a.blocks[moved].point.sub(off), a.blocks[moved].hw, a.blocks[moved].hh}.grown(clearance)
			free := true
			for i, b := range a.blocks {
				free = free && (i == moved || !b.overlaps(place))
			}
			if free {
				fixed[[2]int{still, axis}], fixed[[2]int{moved, axis}] = true, true
				a.moveBlock(moved, place.point)
			}
		}
	}
}
