package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec/view"
)

type builder struct {
	scene   *scene
	groups  []group
	grouped map[int]int // the group of each node
	// outside holds the vertices of interfaces and aggregates that the document
	// names but does not contain.
	outside map[string]int
	// hubs counts the links that are drawn as hubs. dropped counts the links that are not
	// drawn because there are too many. unconnected counts the links without ends.
	hubs, dropped, unconnected int
	common                     string // properties of all links, shown in the heading
}

// addBoxes adds a box for each group, in their order: a group and its vertex have the same number. All boxes get the
// same width.
func (b *builder) addBoxes() {
	d := b.scene.document
	room := boxRoom(len(b.groups))
	for _, g := range b.groups {
		v := vertex{shape: nodeShape, frame: d.Nodes[g.nodes[0]].Manager}
		if g.level == 4 {
			v.frame = -1
		}
		if len(g.nodes) == 1 {
			b.nodeLines(&v, &d.Nodes[g.nodes[0]])
		} else {
			v.shape = stackShape
			b.groupLines(&v, g)
		}
		v.fit(room)
		b.scene.add(v)
	}
	widest := largestOf(b.scene.vertices, func(v vertex) float64 { return v.hw })
	for i := range b.scene.vertices {
		b.scene.vertices[i].hw = widest
	}
}

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

// fit shortens the lines of a box to room, and sets its size.
func (v *vertex) fit(room float64) {
	w, h := 0.0, 0.0
	for i := range v.lines {
		l := &v.lines[i]
		mark := 0.0
		if i == 0 && v.state != view.Unknown {
			mark = markRoom
		}
		l.text = elide(l.text, room-mark, l.font.width)
		w, h = max(w, l.font.width(l.text)+mark), h+l.font.height()
	}
	v.hw, v.hh = max(w+24, 92)/2, (h+14)/2
	if v.shape == hubShape {
		v.hw, v.hh = max(w+24, 64)/2, (h+8)/2
	}
}

// markRoom is the width of a state's mark, with its distance to the text.
const markRoom = 17

// nodeLines writes a node into its box: name, type, state, error, addresses and login, as far as there is room.
func (b *builder) nodeLines(v *vertex, n *view.Node) {
	fewBoxes := len(b.groups) <= 12
	v.state, v.stateWord = view.ConditionOf(n.State), n.State
	v.add(nameOf(n), nameFont, false)
	v.add(b.kindOfNode(n), detailFont, true)
	if b.scene.document.Kind == view.Advertisement {
		v.add(availability(n), detailFont, false)
	} else {
		v.add(joined(", ", stateWord(n.State), prefixed("on ", cleaned(n.Component))), detailFont, false)
	}
	if n.Error != "" {
		v.add(clean(n.Error, maxText), labelFont, true)
	}
	var login string
	if fewBoxes && len(n.Logins) > 0 {
		login = commands(n, "")[0]
	}
	for _, address := range publicAddresses(n) {
		shown := strings.HasSuffix(login, "@"+address)
		if len(v.lines) < 5 && !shown {
			v.add(cleaned(address), labelFont, true)
		}
	}
	if login != "" {
		v.add(login, labelFont, true)
	}
	v.title = nodeTitle(n)
}

// publicAddresses returns the addresses by which a node is reached without its links: those of
// its hosts and of interfaces without a link, each once.
func publicAddresses(n *view.Node) []string {
	var list []string
	add := func(address string) {
		if address != "" && len(list) < maxAddresses && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	for _, h := range n.Hosts {
		add(h.IPv4)
	}
	for _, in := range n.Interfaces {
		for _, a := range in.Addresses {
			if !in.Linked {
				add(a)
			}
		}
	}
	return list
}

// maxAddresses is the maximal number of public addresses drawn for a node.
const maxAddresses = 4

func nameOf(n *view.Node) string {
	return cmp.Or(cleaned(n.Name), "(no client_id)")
}

// kindOfNode describes a node: "emulab-xen · UBUNTU18-64-STD". In larger pictures
// an image that does not fit is shown only in the tooltip.
func (b *builder) kindOfNode(n *view.Node) string {
	s := cleaned(typesOf(n))
	both := joined(" · ", s, cleaned(n.Image))
	if s == "" || len(b.groups) <= 6 || detailFont.width(both) <= boxRoom(len(b.groups)) {
		s = both
	}
	return cmp.Or(s, useOf(n))
}

func useOf(n *view.Node) string {
	switch {
	case n.Exclusive == nil:
		return ""
	case *n.Exclusive:
		return "exclusive"
	}
	return "shared"
}

// commands returns a command line for each login of a node. If no login is safe to use, it returns
// the logins as written.
func commands(n *view.Node, key string) (list []string) {
	ways, _ := n.Ways()
	for _, w := range ways {
		list = append(list, cleaned(w.Command(key)))
	}
	if len(list) == 0 {
		for _, l := range n.Logins {
			list = append(list, cleaned(l.String()))
		}
	}
	return list
}

// stateWord returns a state without its prefix, with blanks for underscores.
func stateWord(state string) string {
	return strings.ReplaceAll(strings.TrimPrefix(clean(state, 40), "geni_"), "_", " ")
}

func joined(separator string, words ...string) string {
	return strings.Join(nonEmpty(words...), separator)
}

func nonEmpty(words ...string) []string {
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

func typesOf(n *view.Node) string {
	switch len(n.SliverTypes) {
	case 0:
		return n.HardwareType
	case 1, 2:
		return strings.Join(n.SliverTypes, ", ")
	}
	return fmt.Sprintf("%s +%d types", n.SliverTypes[0], len(n.SliverTypes)-1)
}

// availability returns a text such as "free, 4 slots".
func availability(n *view.Node) string {
	word, slots := "", ""
	if n.Available != nil {
		if word = "taken"; *n.Available {
			word = "free"
		}
	}
	if n.Slots > 1 {
		slots = display.Count(n.Slots, "slot")
	}
	return joined(", ", word, slots)
}

func nodeTitle(n *view.Node) string {
	t := tooltip{nameOf(n)}
	t.add("sliver type", strings.Join(first(n.SliverTypes, 8), ", "))
	t.add("hardware", n.HardwareType)
	t.add("image", n.Image)
	t.add("use", useOf(n))
	t.add("component", n.Component)
	t.add("state", n.State)
	if n.Error != "" {
		t = append(t, "error: "+clean(n.Error, maxReason))
	}
	if n.Monitored {
		t.add("monitoring", "yes")
	}
	for _, h := range first(n.Hosts, 4) {
		t.add("host", joined(" ", h.Name, h.IPv4))
	}
	for _, command := range first(commands(n, ""), 4) {
		t.add("login", command)
	}
	t.add("accounts", strings.Join(first(n.Accounts, 8), ", "))
	for _, in := range first(n.Interfaces, 16) {
		t.add(cleaned(in.Name), joined(" ", strings.Join(in.Addresses, ", "), in.MAC))
	}
	return strings.Join(t, "\n")
}

type tooltip []string

func (t *tooltip) add(word, value string) {
	if value != "" {
		*t = append(*t, word+": "+cleaned(value))
	}
}

// groupLines writes a group of nodes into its box: the range of names, their number and kind, and their states.
func (b *builder) groupLines(v *vertex, g group) {
	d := b.scene.document
	room := boxRoom(len(b.groups))
	v.add(g.nameRange(d, func(s string) string { return elide(s, room/2-10, nameFont.width) }), nameFont, false)
	var kinds, states grouping[string, int]
	for _, i := range g.nodes {
		kinds.add(cleaned(typesOf(&d.Nodes[i])), i)
		states.add(stateWord(d.Nodes[i].State), i)
	}
	kind := cmp.Or(kinds.keys[0], "node")
	if len(kinds.keys) > 1 {
		kind = fmt.Sprintf("of %d kinds", len(kinds.keys))
	}
	kind = fmt.Sprintf("%d × %s", len(g.nodes), kind)
	v.add(kind, detailFont, true)
	last, slots := freeNodes(d, g.nodes)
	if slots > len(g.nodes) {
		last = joined(", ", last, display.Count(slots, "slot"))
	}
	for _, w := range states.keys {
		if w != "" && len(last) < 40 {
			last = joined(", ", last, fmt.Sprintf("%d %s", len(states.of[w]), w))
		}
	}
	v.add(last, detailFont, false)
	v.title = strings.Join([]string{g.nameRange(d, cleaned), kind, last}, "\n")
}

// freeNodes returns how many of the nodes are free, as a text, and the number of their slots. It counts slots only of
// nodes that are not exclusive. The text is empty if no node states whether it is free.
func freeNodes(d *view.Document, nodes []int) (text string, slots int) {
	free, known := 0, false
	for _, i := range nodes {
		if only := d.Nodes[i].Exclusive; only == nil || !*only { // an exclusive node has one slot, which is the node itself
			slots += d.Nodes[i].Slots
		}
		if a := d.Nodes[i].Available; a != nil {
			known = true
			if *a {
				free++
			}
		}
	}
	if known {
		text = fmt.Sprintf("%d free", free)
	}
	return text, slots
}
