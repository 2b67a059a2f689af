package draw

import "slices"

// block is a group of vertices that the layout moves together: a box, a bus with
// its nodes, or a frame.
type block struct {
	rect
	members []int // vertices
}

const (
	clearance  = 26.0 // between boxes that are not linked
	partGap    = 44.0 // between unconnected parts
	framePad   = 26.0 // inside a frame, around its content
	frameTitle = 26.0 // above the content of a frame
	frameGap   = 90.0 // between frames
	margin     = 24.0 // around the drawing
	proportion = 1.5  // preferred ratio of width to height
)

// placeBoxes places all vertices: first those of each frame by themselves, then the frames and the vertices between
// them. It sets the frames and their titles.
func (s *scene) placeBoxes() {
	var regions grouping[int, int]
	for i := range s.vertices {
		f := s.vertices[i].frame
		if !s.framed {
			f = 0
		}
		regions.add(f, i)
	}
	slices.Sort(regions.keys)
	var tops []*block
	s.frames = make([]rect, len(s.document.Managers))
	framed := map[int]*block{}
	for _, f := range regions.keys {
		here := regions.of[f]
		blocks := s.blocks(here)
		if f < 0 {
			tops = append(tops, blocks...)
			continue
		}
		a := s.arrangement(blocks)
		a.gap = s.gaps(setOf(here)).max(leastGap)
		all := a.placeAll()
		if s.framed {
			width := frameFont.width(s.frameName(f)) + 40
			all = box(all.left()-framePad, all.top()-framePad-frameTitle, max(all.right()+framePad, all.left()-framePad+width), all.bottom()+framePad)
		}
		b := &block{rect: all, members: here}
		framed[f] = b
		tops = append(tops, b)
	}
	if len(tops) > 1 {
		a := s.arrangement(tops)
		a.gap = point{frameGap, frameGap * 0.7}
		for _, need := range a.need {
			a.gap.x = max(a.gap.x, need.x-20)
		}
		a.frames = true
		a.placeAll()
		a.alignFrames()
	}
	for f, b := range framed {
		if s.framed && f < len(s.frames) {
			s.frames[f] = b.rect
		}
	}
	s.placeTitles()
}

func (s *scene) move(b *block, centre point) {
	d := centre.sub(b.point)
	b.point = centre
	for _, m := range b.members {
		s.vertices[m].transform(d.add)
	}
}

// mirror reflects the members of a block along x, y or both. The parameter header is the
// height of a frame's title, which remains at the top.
func (s *scene) mirror(b *block, x, y bool, header float64) {
	flip := func(p point) point {
		if x {
			p.x = 2*b.x - p.x
		}
		if y {
			p.y = 2*b.y + header - p.y
		}
		return p
	}
	for _, m := range b.members {
		s.vertices[m].transform(flip)
	}
}

// gaps returns the distance that the labels between linked boxes need. It is zero if no two of
// the vertices are linked.
func (s *scene) gaps(in map[int]bool) point {
	g := point{}
	for i := range s.edges {
		if e := &s.edges[i]; in[e.from] && in[e.to] && e.stub == 0 {
			g = g.max(e.gap())
		}
	}
	return g
}

func setOf(list []int) map[int]bool {
	set := map[int]bool{}
	for _, v := range list {
		set[v] = true
	}
	return set
}

// leastGap is the distance for lines without labels.
var leastGap = point{54, 46}

func (e *edge) gap() point {
	ends, rows := 0.0, 0.0
	for _, t := range e.near {
		if t != "" {
			ends += labelFont.width(t) + 14
			rows++
		}
	}
	middle := largestOf(e.middle, labelFont.width) + 20
	return point{
		max(leastGap.x, min(max(ends, middle), 230)),
		max(leastGap.y, min((rows+float64(len(e.middle)))*labelFont.height()+26, 100)),
	}
}

// blocks makes a block of each ladder, each bus and each other vertex. If several buses have
// the same node as their only neighbour, they form one block with this node.
func (s *scene) blocks(vertices []int) []*block {
	degree := map[int]int{}
	for i := range s.edges {
		degree[s.edges[i].from]++
		degree[s.edges[i].to]++
	}
	in, taken := setOf(vertices), map[int]bool{}
	var list []*block
	for _, l := range s.ladders(vertices, in, degree) {
		for _, m := range l.members {
			taken[m] = true
		}
		list = append(list, l)
	}
	hanging := s.busEdges(in, taken, degree)
	fans := map[int][]*block{} // for each node, the buses that have no other neighbour
	for _, v := range vertices {
		if len(hanging[v]) < minBusNodes {
			continue
		}
		b := s.bus(v, hanging[v])
		for _, m := range b.members {
			taken[m] = true
		}
		if others := s.neighboursOutside(v, b.members); len(others) == 1 && in[others[0]] && s.vertices[others[0]].shape != hubShape {
			fans[others[0]] = append(fans[others[0]], b)
			continue
		}
		list = append(list, b)
	}
	for _, v := range vertices {
		if buses := fans[v]; len(buses) > 0 {
			taken[v] = true
			list = append(list, s.fan(v, buses))
		}
	}
	for _, v := range vertices {
		if !taken[v] {
			list = append(list, &block{rect: s.vertices[v].rect, members: []int{v}})
		}
	}
	// Sort by the order of the document, which pack keeps.
	slices.SortStableFunc(list, func(a, b *block) int { return slices.Min(a.members) - slices.Min(b.members) })
	return list
}

// busEdges returns, for each hub, the edges of the nodes that stand on its bus: nodes with no other link, and those of a
// crowded hub. A node stands on one bus only.
func (s *scene) busEdges(in, taken map[int]bool, degree map[int]int) map[int][]int {
	spokes := map[int]int{} // the number of lines that end at each hub
	for i := range s.edges {
		if in[s.edges[i].from] {
			spokes[s.edges[i].to]++
		}
	}
	hanging := map[int][]int{}
	on := map[int]int{} // for each node, the hub on whose bus it stands
	for i := range s.edges {
		e := &s.edges[i]
		if !in[e.from] || !in[e.to] || taken[e.to] || taken[e.from] || s.vertices[e.to].shape != hubShape || s.vertices[e.from].shape == hubShape {
			continue
		}
		hub, claimed := on[e.from]
		if claimed && hub != e.to || degree[e.from] > 1 && spokes[e.to] < crowdedHub {
			continue
		}
		on[e.from] = e.to
		hanging[e.to] = append(hanging[e.to], i)
	}
	return hanging
}
