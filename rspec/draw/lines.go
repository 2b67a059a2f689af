package draw

import (
	"fmt"
	"strings"
)

// links makes a line of each link of two ends, and a hub of every other.
func (b *builder) links() {
	p := b.scene.picture
	b.common = commonPromise(p)
	var pairs grouping[[2]int, int] // the links of two ends, by the vertices they join
	for i := range p.Links {
		l := &p.Links[i]
		var ends []int // vertices
		var kept []End // that have one
		for _, e := range l.Ends {
			if v := b.vertexOf(i, e); v >= 0 {
				ends, kept = append(ends, v), append(kept, e)
			}
		}
		if len(l.Ends) == 0 && p.Kind == Advertisement {
			b.loose++
			continue
		}
		if len(l.Ends) != 2 || l.Shared != "" || len(ends) < 2 || ends[0] == ends[1] && !b.isGroup(ends[0]) {
			b.hub(i, ends, kept)
			continue
		}
		if ends[0] == ends[1] {
			continue // inside a group
		}
		pairs.add(ordered(ends[0], ends[1]), i)
	}
	for _, pair := range pairs.keys {
		if len(b.scene.edges) >= maxEdges {
			b.dropped += len(pairs.of[pair])
			continue
		}
		b.lines(pair, pairs.of[pair])
	}
	if b.loose > 0 {
		b.scene.notes = append(b.scene.notes, count(b.loose, "link")+" without interfaces not drawn")
	}
	if b.dropped > 0 {
		b.scene.notes = append(b.scene.notes, count(b.dropped, "link")+" not drawn: too many for one picture; see the text form")
	}
}

// vertexOf is the box at which an end of link i is drawn, made if need be; -1
// if there is no room for one more.
func (b *builder) vertexOf(i int, e End) int {
	if e.Node >= 0 {
		return b.grouped[e.Node]
	}
	p := b.scene.picture
	key, name, kind := fmt.Sprintf("%d %s", i, e.Name), full(e.Name), "no such interface"
	if p.Kind == Advertisement {
		key, name, kind = e.Authority, full(e.Authority), "outside"
		if key == "" {
			name = full(e.Name)
		}
	}
	if v, known := b.outside[key]; known {
		return v
	}
	if len(b.outside) >= maxBoxes {
		return -1
	}
	v := vertex{shape: ghostShape, frame: -1, title: kind + "\n" + name}
	if name == "" {
		name = "(no name)"
	}
	v.add(name, hubFont, false)
	v.add(kind, labelFont, true)
	v.fit(boxRoom(len(b.groups)))
	if p.Kind != Advertisement {
		v.frame = b.frameOfLink(&p.Links[i])
	}
	b.outside[key] = b.scene.add(v)
	return b.outside[key]
}

// frameOfLink is the manager of all the nodes of a link, or -1.
func (b *builder) frameOfLink(l *Link) int {
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
	if !found && !b.scene.framed && len(b.scene.picture.Managers) > 0 {
		return 0
	}
	return frame
}

// mostAlike is how many lines between two boxes are drawn one by one.
const mostAlike = 4

// lines draws the links between two boxes: alone while they can be told apart.
func (b *builder) lines(pair [2]int, links []int) {
	p := b.scene.picture
	most := mostAlike
	if p.Kind == Advertisement || b.isGroup(pair[0]) || b.isGroup(pair[1]) {
		most = 1
	}
	if len(links) > most {
		e := edge{from: pair[0], to: pair[1], bundle: true, middle: []string{count(len(links), "link")}}
		var names []string
		for _, i := range first(links, 12) {
			names = append(names, full(p.Links[i].Name))
		}
		e.title = e.middle[0] + "\n" + strings.Join(names, "\n")
		b.scene.edges = append(b.scene.edges, e)
		return
	}
	for _, i := range links {
		l := &p.Links[i]
		e := edge{title: linkTitle(l), middle: b.linkLabel(l)}
		a, z := l.Ends[0], l.Ends[1]
		e.from, e.to = b.vertexOf(i, a), b.vertexOf(i, z)
		e.near = [2]string{b.address(a), b.address(z)}
		b.scene.edges = append(b.scene.edges, e)
	}
}

func (b *builder) isGroup(v int) bool { return v < len(b.groups) && len(b.groups[v].nodes) > 1 }

// address is what stands at the end of a line.
func (b *builder) address(e End) string {
	if e.Node < 0 || b.isGroup(b.grouped[e.Node]) {
		return ""
	}
	in := &b.scene.picture.Nodes[e.Node].Interfaces[e.Interface]
	if len(in.Addresses) == 0 {
		return ""
	}
	return clean(in.Addresses[0], 40) + andMore(len(in.Addresses)-1)
}

// andMore is " +2", or nothing.
func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" +%d", n)
}

// linkLabel is what stands at a line: its name while the picture is small, what
// it promises, its type where it is special, its VLAN.
func (b *builder) linkLabel(l *Link) []string {
	var words []string
	if len(b.scene.picture.Links) <= 40 && l.Name != "" {
		words = append(words, squeeze(full(l.Name), 130, labelFont.width))
	}
	return append(words, b.facts(l)...)
}

func (b *builder) facts(l *Link) []string {
	var words []string
	p := b.scene.picture
	if b.common == "" || p.promise(l) != b.common {
		for _, promise := range p.promises(l, func(s string) string { return squeeze(s, 54, labelFont.width) }) {
			words = append(words, squeeze(full(promise), 260, labelFont.width))
		}
	}
	for _, word := range nonEmpty(full(specialType(l)), prefixed("VLAN ", full(l.VLAN))) {
		words = append(words, squeeze(word, 130, labelFont.width))
	}
	return words
}

// specialType is a type that says more than the drawing does.
func specialType(l *Link) string {
	for _, t := range l.Types {
		switch strings.ToLower(t) {
		case "lan", "ethernet", "vlan", "p2p", "":
		default:
			return t
		}
	}
	return ""
}

func linkTitle(l *Link) string {
	t := tooltip{full(l.Name)}
	t.add("type", strings.Join(first(l.Types, 4), ", "))
	t.add("speed", strings.Join(first(l.Speeds, 4), ", "))
	t.add("VLAN", l.VLAN)
	t.add("shared VLAN", l.Shared)
	if l.Monitored {
		t.add("monitoring", "yes")
	}
	for _, p := range first(l.Properties, 8) {
		t.add(strings.Trim(full(p.Source)+" → "+full(p.Dest), " →"), p.String())
	}
	for _, e := range first(l.Ends, 16) {
		t.add("end", e.Name)
	}
	return strings.Join(t, "\n")
}

// commonPromise is what all links promise, if they are enough for it to be said
// once instead of at every line.
func commonPromise(p *Picture) string {
	common := ""
	for i := range p.Links {
		promise := p.promise(&p.Links[i])
		if promise == "" || common != "" && promise != common {
			return ""
		}
		common = promise
	}
	if len(p.Links) < 5 {
		return ""
	}
	return common
}
