package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// builder fills in a scene's boxes and lines.
type builder struct {
	scene   *scene
	groups  []group
	grouped map[int]int // node → group
	// outside are the boxes of what the document names and does not hold.
	outside map[string]int
	// hubs and dropped count links.
	hubs, dropped, loose int
	common               string // what most lines promise, said in the heading
}

// boxes makes a vertex of each group; a group's number is its vertex's.
func (b *builder) boxes() {
	p := b.scene.picture
	room := boxRoom(len(b.groups))
	for _, g := range b.groups {
		v := vertex{shape: nodeShape, frame: p.Nodes[g.nodes[0]].Manager}
		if g.level == 4 {
			v.frame = -1
		}
		if len(g.nodes) == 1 {
			b.nodeLines(&v, &p.Nodes[g.nodes[0]])
		} else {
			v.shape = stackShape
			b.groupLines(&v, g)
		}
		v.fit(room)
		b.scene.add(v)
	}
	// Equal widths make a tidy picture.
	widest := most(b.scene.vertices, func(v vertex) float64 { return v.hw })
	for i := range b.scene.vertices {
		b.scene.vertices[i].hw = widest
	}
}

// boxRoom is how wide the text of a box may be: the more there are the narrower.
func boxRoom(n int) float64 {
	switch {
	case n <= 6:
		return 230
	case n <= 12:
		return 180
	case n <= 30:
		return 160
	}
	return 124
}

func (v *vertex) add(text string, f font, dim bool) {
	if text != "" {
		v.lines = append(v.lines, line{text, f, dim})
	}
}

// fit cuts the lines to the room and gives the box its size.
func (v *vertex) fit(room float64) {
	w, h := 0.0, 0.0
	for i := range v.lines {
		l := &v.lines[i]
		mark := 0.0
		if i == 0 && v.state != unknown {
			mark = markRoom
		}
		l.text = squeeze(l.text, room-mark, l.font.width)
		w, h = max(w, l.font.width(l.text)+mark), h+l.font.height()
	}
	v.hw, v.hh = max(w+24, 92)/2, (h+14)/2
	if v.shape == hubShape {
		v.hw, v.hh = max(w+24, 64)/2, (h+8)/2
	}
}

// markRoom is how wide the mark of a state is, with its distance.
const markRoom = 17

func (b *builder) nodeLines(v *vertex, n *Node) {
	roomy := len(b.groups) <= 12
	v.state = conditionOf(n.State)
	v.add(n.name(), nameFont, false)
	v.add(b.kindOfNode(n), detailFont, true)
	if b.scene.picture.Kind == Advertisement {
		v.add(freeWord(n), detailFont, false)
	} else {
		v.add(joined(", ", stateWord(n.State), prefixed("on ", full(n.Component))), detailFont, false)
	}
	if n.Error != "" {
		v.add(clean(n.Error, longest), labelFont, true)
	}
	for _, address := range n.publicAddresses() {
		told := len(n.Logins) > 0 && n.Logins[0].Host == address
		if len(v.lines) < 5 && !(roomy && told) {
			v.add(full(address), labelFont, true)
		}
	}
	if roomy && len(n.Logins) > 0 {
		v.add(full(n.Logins[0].String()), labelFont, true)
	}
	v.title = nodeTitle(n)
}

// publicAddresses are those at which a node is reached beside its links: its
// hosts' and those of interfaces without a link, each once.
func (n *Node) publicAddresses() []string {
	var list []string
	add := func(address string) {
		if address != "" && len(list) < mostAddresses && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	for _, h := range n.Hosts {
		add(h.IPv4)
	}
	for _, in := range n.Interfaces {
		for _, a := range in.Addresses {
			if !in.linked {
				add(a)
			}
		}
	}
	return list
}

// mostAddresses are drawn of a node.
const mostAddresses = 4

// name is what a node is called in a drawing.
func (n *Node) name() string {
	return cmp.Or(full(n.Name), "(no client_id)")
}

// kindOfNode says what a node is: "emulab-xen · UBUNTU18-64-STD". An image that
// does not fit is left to the tooltip, unless the picture is small.
func (b *builder) kindOfNode(n *Node) string {
	s := full(typesOf(n))
	both := joined(" · ", s, full(n.Image))
	if s == "" || len(b.groups) <= 6 || detailFont.width(both) <= boxRoom(len(b.groups)) {
		s = both
	}
	return cmp.Or(s, n.use())
}

// use says whether a node is for one slice alone; empty where that is left open.
func (n *Node) use() string {
	switch {
	case n.Exclusive == nil:
		return ""
	case *n.Exclusive:
		return "exclusive"
	}
	return "shared"
}

// joined puts a separator between those words that are not empty.
func joined(separator string, words ...string) string {
	return strings.Join(nonEmpty(words...), separator)
}

func nonEmpty(words ...string) []string {
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}

// prefixed puts a word in front of what is not empty.
func prefixed(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

// first are the first of a list, n at most.
func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// typesOf names the sliver types, or else the hardware.
func typesOf(n *Node) string {
	switch len(n.SliverTypes) {
	case 0:
		return n.HardwareType
	case 1, 2:
		return strings.Join(n.SliverTypes, ", ")
	}
	return fmt.Sprintf("%s +%d types", n.SliverTypes[0], len(n.SliverTypes)-1)
}

func freeWord(n *Node) string {
	word, slots := "", ""
	if n.Available != nil {
		if word = "taken"; *n.Available {
			word = "free"
		}
	}
	if n.Slots > 1 {
		slots = count(n.Slots, "slot")
	}
	return joined(", ", word, slots)
}

// nodeTitle is all that is known, for the tooltip.
func nodeTitle(n *Node) string {
	t := tooltip{n.name()}
	t.add("sliver type", strings.Join(first(n.SliverTypes, 8), ", "))
	t.add("hardware", n.HardwareType)
	t.add("image", n.Image)
	t.add("use", n.use())
	t.add("component", n.Component)
	t.add("state", n.State)
	if n.Error != "" {
		t = append(t, "error: "+clean(n.Error, longestReason))
	}
	if n.Monitored {
		t.add("monitoring", "yes")
	}
	for _, h := range first(n.Hosts, 4) {
		t.add("host", joined(" ", h.Name, h.IPv4))
	}
	for _, l := range first(n.Logins, 4) {
		t.add("login", l.String())
	}
	t.add("accounts", strings.Join(first(n.Accounts, 8), ", "))
	for _, in := range first(n.Interfaces, 16) {
		t.add(full(in.Name), joined(" ", strings.Join(in.Addresses, ", "), in.MAC))
	}
	return strings.Join(t, "\n")
}

// tooltip are the lines of a title.
type tooltip []string

func (t *tooltip) add(word, value string) {
	if value != "" {
		*t = append(*t, word+": "+full(value))
	}
}

func (b *builder) groupLines(v *vertex, g group) {
	p := b.scene.picture
	room := boxRoom(len(b.groups))
	v.add(g.span(p, func(s string) string { return squeeze(s, room/2-10, nameFont.width) }), nameFont, false)
	var kinds, states grouping[string, int]
	for _, i := range g.nodes {
		kinds.add(full(typesOf(&p.Nodes[i])), i)
		states.add(stateWord(p.Nodes[i].State), i)
	}
	kind := cmp.Or(kinds.keys[0], "node")
	if len(kinds.keys) > 1 {
		kind = fmt.Sprintf("of %d kinds", len(kinds.keys))
	}
	kind = fmt.Sprintf("%d × %s", len(g.nodes), kind)
	v.add(kind, detailFont, true)
	last, slots := p.free(g.nodes)
	if slots > len(g.nodes) {
		last = joined(", ", last, count(slots, "slot"))
	}
	for _, w := range states.keys {
		if w != "" && len(last) < 40 {
			last = joined(", ", last, fmt.Sprintf("%d %s", len(states.of[w]), w))
		}
	}
	v.add(last, detailFont, false)
	v.title = strings.Join([]string{g.span(p, full), kind, last}, "\n")
}

// free says how many nodes are free, empty where nothing is known of any, and
// counts their slots.
func (p *Picture) free(nodes []int) (text string, slots int) {
	free, said := 0, false
	for _, i := range nodes {
		if only := p.Nodes[i].Exclusive; only == nil || !*only { // an exclusive node has one, and is one
			slots += p.Nodes[i].Slots
		}
		if a := p.Nodes[i].Available; a != nil {
			said = true
			if *a {
				free++
			}
		}
	}
	if said {
		text = fmt.Sprintf("%d free", free)
	}
	return text, slots
}

// count is "1 node" or "3 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
