package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// links writes the links of two ends as lines in columns, then all others as
// trees of their ends.
func (t *textWriter) links() {
	grouped := boxOf(t.groups)
	bundled := slices.ContainsFunc(t.groups, func(g group) bool { return g.level > 0 })
	var lines, trees []*Link
	for i := range t.p.Links {
		l := &t.p.Links[i]
		if len(l.Ends) == 2 && l.Shared == "" {
			lines = append(lines, l)
		} else {
			trees = append(trees, l)
		}
	}
	switch {
	case bundled && len(t.p.Links) > 0:
		t.bundles(grouped, lines)
	case len(lines) > 0:
		t.lines(lines)
	}
	if bundled && len(trees) > 0 {
		t.many(grouped, trees)
		return
	}
	for i, l := range trees {
		if i == mostLinkLines {
			t.line("")
			t.line("and %s more", count(len(trees)-i, "link"))
			return
		}
		t.tree(l)
	}
}

// lines has a line for each link: "a:if0 10.0.1.1 ──── 10.0.1.2 b:if0".
func (t *textWriter) lines(links []*Link) {
	t.line("")
	common := commonPromise(t.p)
	title := count(len(links), "link") + " of two ends"
	if common != "" {
		title += ", every link " + common
	}
	t.title(title)
	tab := t.table("", "", "", "", "", "link", "promise", "more")
	tab.gap = []int{1, 1, 1, 1, 2, 2, 2}
	tab.bare = true
	tab.tail = 6
	for _, l := range first(links, mostLinkLines) {
		promise := t.p.promise(l)
		if promise == common {
			promise = ""
		}
		more := joined(" ", specialType(l), prefixed("VLAN ", l.VLAN))
		a, z := l.Ends[0], l.Ends[1]
		tab.add(t.endName(a), t.addresses(a), "────", t.addresses(z), t.endName(z), full(l.Name), full(promise), full(more))
	}
	tab.write()
	t.more(len(links), "link")
}

// tree has a branch for each end of a link.
func (t *textWriter) tree(l *Link) {
	name := cmp.Or(full(l.Name), "(link)")
	t.line("")
	t.title(name + "  " + joined(", ", count(len(l.Ends), "end"), full(t.p.promise(l)), full(specialType(l)), prefixed("shared VLAN ", full(l.Shared)), prefixed("VLAN ", full(l.VLAN))))
	ends := first(l.Ends, mostMembers)
	rest := len(l.Ends) - len(ends)
	if len(ends) > mostBranches {
		words := make([]string, len(ends))
		wide := int(most(ends, func(e End) float64 { return inColumns(t.see(t.endName(e))) }))
		for i, e := range ends {
			words[i] = strings.TrimRight(pad(t.see(t.endName(e)), wide)+" "+t.see(t.addresses(e)), " ")
		}
		t.columns("  ", words)
	} else {
		tab := t.table("", "", "")
		tab.bare = true
		tab.gap = []int{1, 2}
		for i, e := range ends {
			branch := "├─"
			if i == len(ends)-1 && rest == 0 {
				branch = "└─"
			}
			tab.add(branch, t.endName(e), t.addresses(e))
		}
		tab.write()
	}
	if rest > 0 {
		t.line("  and %d more", rest)
	}
}

// mostBranches is how many ends a tree has before they stand in columns.
const mostBranches = 8

// bundles counts the links between the boxes of a grouped picture.
func (t *textWriter) bundles(grouped map[int]int, links []*Link) {
	type pair struct{ a, z string }
	var between grouping[pair, *Link]
	for _, l := range links {
		p := pair{t.boxName(grouped, l.Ends[0]), t.boxName(grouped, l.Ends[1])}
		if back := (pair{p.z, p.a}); between.of[p] == nil && between.of[back] != nil {
			p = back
		}
		between.add(p, l)
	}
	if len(between.keys) == 0 {
		return
	}
	t.line("")
	t.title(count(len(links), "link") + " of two ends")
	tab := t.table("", "", "", "link", "each")
	tab.bare = true
	tab.gap = []int{1, 1, 2, 2}
	tab.tail = 3
	for _, p := range first(between.keys, mostLinkLines) {
		here := between.of[p]
		var facts grouping[string, *Link]
		for _, l := range here {
			facts.add(joined(", ", full(t.p.promise(l)), full(specialType(l))), l)
		}
		name, each := "", facts.keys[0]
		if len(here) == 1 {
			name = full(here[0].Name)
		}
		if n := len(facts.keys); n > 1 {
			each = fmt.Sprintf("of %d kinds", n)
		}
		tab.add(p.a, "── "+count(len(here), "link")+" ──", p.z, name, each)
	}
	tab.write()
	if more := len(between.keys) - mostLinkLines; more > 0 {
		t.line("  and those between %d more pairs", more)
	}
}

// boxName is the box of a grouped picture at which a link ends.
func (t *textWriter) boxName(grouped map[int]int, e End) string {
	if e.Node < 0 {
		return full(cmp.Or(e.Authority, e.Name)) + " (outside)"
	}
	g := t.groups[grouped[e.Node]]
	if len(g.nodes) > 1 {
		return g.span(t.p, full)
	}
	return full(t.p.Nodes[e.Node].Name)
}

// many is the table of those links of a grouped picture that join any number of
// interfaces but two.
func (t *textWriter) many(grouped map[int]int, links []*Link) {
	t.line("")
	t.title(count(len(links), "link") + " of one end, or of more than two")
	tab := t.table("link", "type", "ends", "capacity", "VLAN", "joins")
	tab.tail = 5
	for _, l := range first(links, mostLinkLines) {
		kind := specialType(l)
		if kind == "" && len(l.Types) > 0 {
			kind = l.Types[0]
		}
		var boxes grouping[string, End]
		for _, e := range first(l.Ends, mostMembers) {
			boxes.add(t.boxName(grouped, e), e)
		}
		tab.add(cmp.Or(full(l.Name), "(link)"), full(kind), fmt.Sprint(len(l.Ends)), full(t.p.promise(l)), full(joined(" ", l.Shared, l.VLAN)), several(boxes.keys))
	}
	tab.write()
	t.more(len(links), "link")
}

// endName is the node and the interface at which a link ends.
func (t *textWriter) endName(e End) string {
	name := cmp.Or(full(e.Name), "(no name)")
	if e.Node < 0 {
		return name + " (nowhere)"
	}
	node := t.p.Nodes[e.Node].name()
	if strings.HasPrefix(name, node) {
		return name
	}
	return node + ":" + name
}

func (t *textWriter) addresses(e End) string {
	if e.Node < 0 {
		return ""
	}
	return clean(strings.Join(t.p.Nodes[e.Node].Interfaces[e.Interface].Addresses, " "), 80)
}
