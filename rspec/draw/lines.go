package draw

import (
	"fmt"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec/view"
)

// addLinks adds a line for each link with two ends and a hub for every other link. Links
// between nodes that share a box are not drawn.
func (b *builder) addLinks() {
	d := b.scene.document
	b.common = commonProperties(d)
	var pairs grouping[[2]int, int] // by the vertices at their ends
	for i := range d.Links {
		l := &d.Links[i]
		var vertices []int  // the vertices of ends
		var ends []view.End // the ends that have a vertex
		for _, e := range l.Ends {
			if v := b.vertexOf(i, e); v >= 0 {
				vertices, ends = append(vertices, v), append(ends, e)
			}
		}
		if len(l.Ends) == 0 && d.Kind == view.Advertisement {
			b.unconnected++
			continue
		}
		if len(l.Ends) != 2 || l.Shared != "" || len(vertices) < 2 || vertices[0] == vertices[1] && !b.isGroup(vertices[0]) {
			b.addLinkAsHub(i, vertices, ends)
			continue
		}
		if vertices[0] == vertices[1] {
			continue // inside a group
		}
		pairs.add(ordered(vertices[0], vertices[1]), i)
	}
	for _, pair := range pairs.keys {
		if len(b.scene.edges) >= maxEdges {
			b.dropped += len(pairs.of[pair])
			continue
		}
		b.addLines(pair, pairs.of[pair])
	}
	if b.unconnected > 0 {
		b.scene.notes = append(b.scene.notes, display.Count(b.unconnected, "link")+" without interfaces not drawn")
	}
	if b.dropped > 0 {
		b.scene.notes = append(b.scene.notes, display.Count(b.dropped, "link")+" not drawn: too many for one picture; see the text form")
	}
}

// vertexOf returns the vertex of an end of link i. It adds one for an end that the document does not contain; it returns
// -1 if there are too many such vertices.
func (b *builder) vertexOf(i int, e view.End) int {
	if e.Node >= 0 {
		return b.grouped[e.Node]
	}
	d := b.scene.document
	key, name, kind := fmt.Sprintf("%d %s", i, e.Name), cleaned(e.Name), "no such interface"
	if d.Kind == view.Advertisement {
		key, name, kind = e.Authority, cleaned(e.Authority), "outside"
		if key == "" {
			name = cleaned(e.Name)
		}
	}
	if v, known := b.outside[key]; known {
		return v
	}
	if len(b.outside) >= maxBoxes {
		return -1
	}
	v := vertex{shape: missingShape, frame: -1, title: kind + "\n" + name}
	if name == "" {
		name = "(no name)"
	}
	v.add(name, hubFont, false)
	v.add(kind, labelFont, true)
	v.fit(boxRoom(len(b.groups)))
	if d.Kind != view.Advertisement {
		v.frame = b.frameOfLink(&d.Links[i])
	}
	b.outside[key] = b.scene.add(v)
	return b.outside[key]
}

// frameOfLink returns the manager of all nodes of the link, or -1 if they have no common
// manager.
func (b *builder) frameOfLink(l *view.Link) int {
	frame, found := -1, false
	for _, e := range l.Ends {
		if e.Node < 0 {
			continue
		}
		m := b.scene.vertices[b.grouped[e.Node]].frame
		if found && m != frame {
			return -1
		}
		frame, found = m, true
	}
	if !found && !b.scene.framed && len(b.scene.document.Managers) > 0 {
		return 0
	}
	return frame
}

// maxSingleLines is the maximal number of separate lines between two boxes.
const maxSingleLines = 4

// addLines adds the links between two boxes: as separate lines, or as one thick line if there
// are too many.
func (b *builder) addLines(pair [2]int, links []int) {
	d := b.scene.document
	most := maxSingleLines
	if d.Kind == view.Advertisement || b.isGroup(pair[0]) || b.isGroup(pair[1]) {
		most = 1
	}
	if len(links) > most {
		e := edge{from: pair[0], to: pair[1], bundle: true, middle: []string{display.Count(len(links), "link")}}
		var names []string
		for _, i := range first(links, 12) {
			names = append(names, cleaned(d.Links[i].Name))
		}
		e.title = e.middle[0] + "\n" + strings.Join(names, "\n")
		b.scene.edges = append(b.scene.edges, e)
		return
	}
	for _, i := range links {
		l := &d.Links[i]
		e := edge{title: linkTitle(l), middle: b.linkLabel(l)}
		a, z := l.Ends[0], l.Ends[1]
		e.from, e.to = b.vertexOf(i, a), b.vertexOf(i, z)
		e.near = [2]string{b.endLabel(a), b.endLabel(z)}
		b.scene.edges = append(b.scene.edges, e)
	}
}

func (b *builder) isGroup(v int) bool { return v < len(b.groups) && len(b.groups[v].nodes) > 1 }

// endLabel returns the interface's first address and the number of the others.
func (b *builder) endLabel(e view.End) string {
	if e.Node < 0 || b.isGroup(b.grouped[e.Node]) {
		return ""
	}
	in := &b.scene.document.Nodes[e.Node].Interfaces[e.Interface]
	if len(in.Addresses) == 0 {
		return ""
	}
	return clean(in.Addresses[0], 40) + andMore(len(in.Addresses)-1)
}

// andMore returns a text such as " +2", or "" if n is 0.
func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" +%d", n)
}

// linkLabel returns the lines of a link's label. They include its name only if the picture has few links.
func (b *builder) linkLabel(l *view.Link) []string {
	var words []string
	if len(b.scene.document.Links) <= 40 && l.Name != "" {
		words = append(words, elide(cleaned(l.Name), 130, labelFont.width))
	}
	return append(words, b.linkFacts(l)...)
}

func (b *builder) linkFacts(l *view.Link) []string {
	var words []string
	d := b.scene.document
	if b.common == "" || propertyText(d, l) != b.common {
		for _, text := range propertyTexts(d, l, func(s string) string { return elide(s, 54, labelFont.width) }) {
			words = append(words, elide(cleaned(text), 260, labelFont.width))
		}
	}
	for _, word := range nonEmpty(cleaned(specialType(l)), prefixed("VLAN ", cleaned(l.VLAN))) {
		words = append(words, elide(word, 130, labelFont.width))
	}
	return words
}

// specialType returns the first type that is not an ordinary LAN or VLAN, or "".
func specialType(l *view.Link) string {
	for _, t := range l.Types {
		switch strings.ToLower(t) {
		case "lan", "ethernet", "vlan", "p2p", "":
		default:
			return t
		}
	}
	return ""
}

func linkTitle(l *view.Link) string {
	t := tooltip{cleaned(l.Name)}
	t.add("type", strings.Join(first(l.Types, 4), ", "))
	t.add("speed", speedWords(l, ", "))
	t.add("VLAN", l.VLAN)
	t.add("shared VLAN", l.Shared)
	if l.Monitored {
		t.add("monitoring", "yes")
	}
	for _, p := range first(l.Properties, 8) {
		t.add(strings.Trim(cleaned(p.Source)+" → "+cleaned(p.Dest), " →"), propertyWords(&p))
	}
	for _, e := range first(l.Ends, 16) {
		t.add("end", e.Name)
	}
	return strings.Join(t, "\n")
}

// commonProperties returns the properties that all links share, for the heading. It returns ""
// if there are fewer than five links.
func commonProperties(d *view.Document) string {
	common := ""
	for i := range d.Links {
		text := propertyText(d, &d.Links[i])
		if text == "" || common != "" && text != common {
			return ""
		}
		common = text
	}
	if len(d.Links) < 5 {
		return ""
	}
	return common
}
