package draw

import (
	"cmp"

	"patchbay/rspec/view"
)

// addLinkAsHub draws link i as a box with a spoke to each of the ends. The parameter vertices
// has the vertices of these ends, in the same order. A link with many ends at several managers
// has several parts; trunks join the parts.
func (b *builder) addLinkAsHub(i int, vertices []int, ends []view.End) {
	l := &b.scene.document.Links[i]
	if b.hubs >= maxBoxes || len(b.scene.edges)+len(vertices) > maxEdges {
		b.dropped++
		return
	}
	b.hubs++
	frame := b.frameOfLink(l)
	if frame >= 0 || !b.scene.framed || len(vertices) <= minSplitEnds {
		b.addSpokes(i, b.addHub(l, frame, true), vertices, ends)
		return
	}
	// A frame with at least three ends has its own part; the other ends share a
	// part between the frames.
	var frames grouping[int, int]
	for _, v := range vertices {
		frames.add(b.scene.vertices[v].frame, v)
	}
	parts := map[int]int{} // the hub in each frame that has its own part
	var own []int          // these hubs, in order
	rest := false          // some ends are in no such frame
	for _, f := range frames.keys {
		if f >= 0 && len(frames.of[f]) >= 3 {
			parts[f] = b.addHub(l, f, len(own) == 0)
			own = append(own, parts[f])
		} else {
			rest = true
		}
	}
	middle := -1 // the hub between the frames
	if rest || len(own) != 2 {
		middle = b.addHub(l, -1, true)
	}
	for k, v := range vertices {
		part, has := parts[b.scene.vertices[v].frame]
		if !has {
			part = middle
		}
		b.addSpokes(i, part, vertices[k:k+1], ends[k:k+1])
	}
	if middle < 0 {
		own, middle = own[:1], own[1]
	}
	for _, part := range own {
		b.scene.edges = append(b.scene.edges, edge{from: part, to: middle, trunk: true, title: linkTitle(l)})
	}
}

// minSplitEnds is the number of ends above which a link between managers has several parts.
const minSplitEnds = 6

// addHub adds a box for a link, and returns its vertex. The box has only the link's name if facts is false.
func (b *builder) addHub(l *view.Link, frame int, facts bool) int {
	v := vertex{shape: hubShape, frame: frame, title: linkTitle(l)}
	v.add(cmp.Or(cleaned(l.Name), "(link)"), hubFont, false)
	if facts {
		v.add(prefixed("shared VLAN ", cleaned(l.Shared)), labelFont, true)
		for _, f := range b.linkFacts(l) {
			v.add(f, labelFont, true)
		}
		if len(l.Ends) == 0 {
			v.add("no interfaces", labelFont, true)
		}
	}
	v.fit(150)
	return b.scene.add(v)
}

// addSpokes joins the given ends of link i to a hub; vertices are the vertices of these ends.
// Ends in the same group box share a spoke. If another box has more than maxSingleLines of the
// ends, they share a spoke too.
func (b *builder) addSpokes(i, hub int, vertices []int, ends []view.End) {
	counts := map[int]int{}
	for _, v := range vertices {
		counts[v]++
	}
	done := map[int]bool{}
	for k, v := range vertices {
		e := edge{from: v, to: hub, title: linkTitle(&b.scene.document.Links[i])}
		if b.isGroup(v) || counts[v] > maxSingleLines {
			if done[v] {
				continue
			}
			done[v] = true
			if counts[v] > 1 {
				e.bundle, e.middle = true, []string{"× " + digits(float64(counts[v]))}
			}
		} else {
			e.near[0] = b.endLabel(ends[k])
		}
		b.scene.edges = append(b.scene.edges, e)
	}
}
