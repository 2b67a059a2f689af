package draw

import (
	"cmp"
	"fmt"
	"strings"
)

// links writes the links of two ends as lines in columns, then all others as
// trees of their ends.
func (t *textWriter) links() {
	grouped := map[int]int{}
	bundled := false
	for i, g := range t.groups {
		for _, n := range g.nodes {
			grouped[n] = i
		}
		bundled = bundled || g.level > 0
	}
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
	for _, l := range links[:min(len(links), mostLinkLines)] {
		promise := t.p.promise(l)
		if promise == common {
			promise = ""
		}
		more := specialType(l)
		if l.VLAN != "" {
			more = strings.TrimSpace(more + " VLAN " + l.VLAN)
		}
		a, z := l.Ends[0], l.Ends[1]
		tab.add(t.endName(a), t.addresses(a), "────", t.addresses(z), t.endName(z), full(l.Name), full(promise), full(more))
	}
	tab.write()
	t.more(len(links), "link")
}

// tree has a branch for each end of a link.
func (t *textWriter) tree(l *Link) {
	name := cmp.Or(full(l.Name), "(link)")
	shared, vlan := "", ""
	if l.Shared != "" {
		shared = "shared VLAN " + full(l.Shared)
	}
	if l.VLAN != "" {
		vlan = "VLAN " + full(l.VLAN)
	}
	t.line("")
	t.title(name + "  " + joined(", ", count(len(l.Ends), "end"), full(t.p.promise(l)), full(specialType(l)), shared, vlan))
	ends := l.Ends[:min(len(l.Ends), mostMembers)]
	rest := len(l.Ends) - len(ends)
	if len(ends) > mostBranches {
		words := make([]string, len(ends))
		wide := 0
		for _, e := range ends {
			wide = max(wide, columns(t.see(t.endName(e))))
		}
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
	var between tally
	type pair struct{ a, z string }
	ends := map[string]pair{}
	names := map[string]string{} // of links that are alone between their boxes
	facts := map[string]*tally{}
	for _, l := range links {
		p := pair{t.boxName(grouped, l.Ends[0]), t.boxName(grouped, l.Ends[1])}
		key := fmt.Sprintf("%q %q", p.a, p.z)
		if between.count[key] == 0 {
			if back := fmt.Sprintf("%q %q", p.z, p.a); between.count[back] > 0 {
				key = back
			} else {
				ends[key] = p
			}
		}
		if between.add(key); facts[key] == nil {
			facts[key] = &tally{}
		}
		facts[key].add(joined(", ", full(t.p.promise(l)), full(specialType(l))))
		names[key] = full(l.Name)
	}
	if len(between.words) == 0 {
		return
	}
	t.line("")
	t.title(count(len(links), "link") + " of two ends")
	tab := t.table("", "", "", "link", "each")
	tab.bare = true
	tab.gap = []int{1, 1, 2, 2}
	tab.tail = 3
	for _, key := range between.words[:min(len(between.words), mostLinkLines)] {
		name, each := "", facts[key].words[0]
		if between.count[key] == 1 {
			name = names[key]
		}
		if n := len(facts[key].words); n > 1 {
			each = fmt.Sprintf("of %d kinds", n)
		}
		tab.add(ends[key].a, "── "+count(between.count[key], "link")+" ──", ends[key].z, name, each)
	}
	tab.write()
	if more := len(between.words) - mostLinkLines; more > 0 {
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
	for _, l := range links[:min(len(links), mostLinkLines)] {
		kind := specialType(l)
		if kind == "" && len(l.Types) > 0 {
			kind = l.Types[0]
		}
		vlan := l.VLAN
		if l.Shared != "" {
			vlan = strings.TrimSpace(l.Shared + " " + vlan)
		}
		var boxes tally
		for _, e := range l.Ends[:min(len(l.Ends), mostMembers)] {
			boxes.add(t.boxName(grouped, e))
		}
		tab.add(cmp.Or(full(l.Name), "(link)"), full(kind), fmt.Sprint(len(l.Ends)), full(t.p.promise(l)), full(vlan), several(boxes.words))
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
