package draw

// ladders returns a block for each pair of hubs with at least four nodes that are linked to
// these two hubs and to nothing else. In such a block each row of nodes has a bar of one hub
// above it and a bar of the other hub below it.
func (s *scene) ladders(vertices []int, in map[int]bool, degree map[int]int) []*block {
	spokes := map[int][]int{} // the edges of each node to hubs
	for i := range s.edges {
		e := &s.edges[i]
		if in[e.from] && in[e.to] && s.vertices[e.to].shape == hubShape && s.vertices[e.from].shape != hubShape && degree[e.from] == 2 {
			spokes[e.from] = append(spokes[e.from], i)
		}
	}
	var rungs grouping[[2]int, int]
	for _, v := range vertices {
		if len(spokes[v]) != 2 {
			continue
		}
		if x, y := s.edges[spokes[v][0]].to, s.edges[spokes[v][1]].to; x != y {
			rungs.add(ordered(x, y), v)
		}
	}
	taken := map[int]bool{}
	var list []*block
	for _, pair := range rungs.keys {
		if len(rungs.of[pair]) >= 4 && !taken[pair[0]] && !taken[pair[1]] {
			taken[pair[0]], taken[pair[1]] = true, true
			list = append(list, s.ladder(pair, rungs.of[pair], spokes))
		}
	}
	return list
}

// ladder places nodes between the bars of two hubs. The box of the first hub is at the left,
// and the box of the second at the right. The parameter spokes has the edges of each node.
func (s *scene) ladder(hubs [2]int, nodes []int, spokes map[int][]int) *block {
	pitch, high := 0.0, 0.0
	for _, n := range nodes {
		v := &s.vertices[n]
		pitch, high = max(pitch, v.hw*2+busGap), max(high, v.hh*2)
		for _, i := range spokes[n] {
			pitch = max(pitch, labelFont.width(s.edges[i].near[0])+14)
		}
	}
	step := high + 2*stubLength + busGap
	rows, columns := pageForm(len(nodes), 1, 6, pitch, step, 200)
	left, right := &s.vertices[hubs[0]], &s.vertices[hubs[1]]
	first := left.hw*2 + 30 + pitch/2
	end := first + float64(columns-1)*pitch
	trunks := [2]float64{first - pitch/2 - 6, end + pitch/2 + 6}
	b := &block{members: []int{hubs[0], hubs[1]}}
	reach := high/2 + stubLength // from the centre of a row to its bars
	for k, n := range nodes {
		row := float64(k / columns)
		v := &s.vertices[n]
		v.point = point{first + float64(k%columns)*pitch, row * step}
		v.stubEnds = make([]point, 2)
		for f, i := range spokes[n] {
			e := &s.edges[i]
			e.stub = f + 1
			y := v.y - reach
			if e.to == hubs[1] {
				y = v.y + reach
			}
			v.stubEnds[f] = point{v.x, y}
		}
		b.members = append(b.members, n)
	}
	for row := range rows {
		y := float64(row) * step
		last := first + float64(min(columns, len(nodes)-row*columns)-1)*pitch
		left.bars = append(left.bars, [2]point{{trunks[0], y - reach}, {last, y - reach}})
		right.bars = append(right.bars, [2]point{{first, y + reach}, {trunks[1], y + reach}})
	}
	for k, hub := range []*vertex{left, right} {
		low := reach * float64(2*k-1) // the first bar
		high := low + float64(rows-1)*step
		hub.point = point{hub.hw, (low + high) / 2}
		if k == 1 {
			hub.x = trunks[1] + 24 + hub.hw
		}
		hub.bars = append(hub.bars, [2]point{hub.point, {trunks[k], hub.y}}, [2]point{{trunks[k], low}, {trunks[k], high}})
	}
	s.enclose(b)
	return b
}
