package draw

import "cmp"

// hub draws link i as a box of its own with a spoke to each of the ends kept, whose
// vertices are given. One that spans
// managers and has many ends has a part in each frame, joined by trunks.
func (b *builder) hub(i int, ends []int, kept []End) {
	l := &b.scene.picture.Links[i]
	if b.hubs >= maxBoxes || len(b.scene.edges)+len(ends) > maxEdges {
		b.dropped++
		return
	}
	b.hubs++
	frame := b.frameOfLink(l)
	if frame >= 0 || !b.scene.framed || len(ends) <= manyEnds {
		b.spokes(i, b.addHub(l, frame, true), ends, kept)
		return
	}
	// Parts for the frames with several ends, in order; the rest shares the
	// part between the frames.
	var frames grouping[int, int]
	for _, v := range ends {
		frames.add(b.scene.vertices[v].frame, v)
	}
	parts := map[int]int{}
	var own []int
	rest := false
	for _, f := range frames.keys {
		if f >= 0 && len(frames.of[f]) >= 3 {
			parts[f] = b.addHub(l, f, len(own) == 0)
			own = append(own, parts[f])
		} else {
			rest = true
		}
	}
	middle := -1
	if rest || len(own) != 2 {
		middle = b.addHub(l, -1, true)
	}
	for k, v := range ends {
		part, has := parts[b.scene.vertices[v].frame]
		if !has {
			part = middle
		}
		b.spokes(i, part, ends[k:k+1], kept[k:k+1])
	}
	if middle < 0 {
		own, middle = own[:1], own[1]
	}
	for _, part := range own {
		b.scene.edges = append(b.scene.edges, edge{from: part, to: middle, trunk: true, title: linkTitle(l)})
	}
}

// manyEnds is from when on a link between managers has parts.
const manyEnds = 6

// addHub adds the box of a link; facts tells whether it says more than the name.
func (b *builder) addHub(l *Link, frame int, facts bool) int {
	v := vertex{shape: hubShape, frame: frame, title: linkTitle(l)}
	v.add(cmp.Or(full(l.Name), "(link)"), hubFont, false)
	if facts {
		v.add(prefixed("shared VLAN ", full(l.Shared)), labelFont, true)
		for _, f := range b.facts(l) {
			v.add(f, labelFont, true)
		}
		if len(l.Ends) == 0 {
			v.add("no interfaces", labelFont, true)
		}
	}
	v.fit(150)
	return b.scene.add(v)
}

// spokes joins ends to a hub; ends that share a box while it stands for many
// nodes share a spoke.
func (b *builder) spokes(i, hub int, ends []int, which []End) {
	counts := map[int]int{}
	for _, v := range ends {
		counts[v]++
	}
	done := map[int]bool{}
	for k, v := range ends {
		e := edge{from: v, to: hub, title: linkTitle(&b.scene.picture.Links[i])}
		if b.isGroup(v) || counts[v] > mostAlike {
			if done[v] {
				continue
			}
			done[v] = true
			if counts[v] > 1 {
				e.bundle, e.middle = true, []string{"× " + digits(float64(counts[v]))}
			}
		} else {
			e.near[0] = b.address(which[k])
		}
		b.scene.edges = append(b.scene.edges, e)
	}
}
