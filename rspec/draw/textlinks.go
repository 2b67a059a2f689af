package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec/view"
)

// writeLinks writes links with two ends as lines, and all other links as trees of their ends.
// If nodes share boxes, it writes tables of the links between boxes instead.
func (t *textWriter) writeLinks() {
	grouped := groupOf(t.groups)
	bundled := slices.ContainsFunc(t.groups, func(g group) bool { return g.level > 0 })
	var lines, trees []*view.Link
	for i := range t.d.Links {
		l := &t.d.Links[i]
		if len(l.Ends) == 2 && l.Shared == "" {
			lines = append(lines, l)
		} else {
			trees = append(trees, l)
		}
	}
	switch {
	case bundled && len(t.d.Links) > 0:
		t.writeLinkCounts(grouped, lines)
	case len(lines) > 0:
		t.writeLines(lines)
	}
	if bundled && len(trees) > 0 {
		t.writeOtherLinks(grouped, trees)
		return
	}
	for i, l := range trees {
		if i == maxLinkLines {
			t.writeLine("")
			t.writeLine("and %s more", display.Count(len(trees)-i, "link"))
			return
		}
		t.writeTree(l)
	}
}

// writeLines writes lines such as "a:if0 10.0.1.1 ──── 10.0.1.2 b:if0".
func (t *textWriter) writeLines(links []*view.Link) {
	t.writeLine("")
	common := commonProperties(t.d)
	title := display.Count(len(links), "link") + " of two ends"
	if common != "" {
		title += ", every link " + common
	}
	t.writeTitle(title)
	tab := t.table("", "", "", "", "", "link", "properties", "more")
	tab.gap = []int{1, 1, 1, 1, 2, 2, 2}
	tab.noHead = true
	tab.wrapFrom = 6
	for _, l := range first(links, maxLinkLines) {
		text := propertyText(t.d, l)
		if text == common {
			text = ""
		}
		more := joined(" ", specialType(l), prefixed("VLAN ", l.VLAN))
		a, z := l.Ends[0], l.Ends[1]
		tab.add(t.endName(a), t.addresses(a), "────", t.addresses(z), t.endName(z), cleaned(l.Name), cleaned(text), cleaned(more))
	}
	tab.write()
	t.writeMore(len(links), "link")
}

// writeTree writes a link as a tree of its ends, or as columns if there are many.
func (t *textWriter) writeTree(l *view.Link) {
	name := cmp.Or(cleaned(l.Name), "(link)")
	t.writeLine("")
	t.writeTitle(name + "  " + joined(", ", display.Count(len(l.Ends), "end"), cleaned(propertyText(t.d, l)), cleaned(specialType(l)), prefixed("shared VLAN ", cleaned(l.Shared)), prefixed("VLAN ", cleaned(l.VLAN))))
	ends := first(l.Ends, maxMembers)
	rest := len(l.Ends) - len(ends)
	if len(ends) > maxBranches {
		words := make([]string, len(ends))
		wide := int(largestOf(ends, func(e view.End) float64 { return columnWidth(t.displayable(t.endName(e))) }))
		for i, e := range ends {
			words[i] = strings.TrimRight(pad(t.displayable(t.endName(e)), wide)+" "+t.displayable(t.addresses(e)), " ")
		}
		t.writeColumns("  ", words)
	} else {
		tab := t.table("", "", "")
		tab.noHead = true
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
		t.writeLine("  and %d more", rest)
	}
}

// maxBranches is the number of ends above which a tree becomes columns.
const maxBranches = 8

// writeLinkCounts writes a table of the links with two ends, one row for each pair of boxes.
func (t *textWriter) writeLinkCounts(grouped map[int]int, links []*view.Link) {
	type pair struct{ a, z string }
	var between grouping[pair, *view.Link]
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
	t.writeLine("")
	t.writeTitle(display.Count(len(links), "link") + " of two ends")
	tab := t.table("", "", "", "link", "each")
	tab.noHead = true
	tab.gap = []int{1, 1, 2, 2}
	tab.wrapFrom = 3
	for _, p := range first(between.keys, maxLinkLines) {
		here := between.of[p]
		var facts grouping[string, *view.Link]
		for _, l := range here {
			facts.add(joined(", ", cleaned(propertyText(t.d, l)), cleaned(specialType(l))), l)
		}
		name, each := "", facts.keys[0]
		if len(here) == 1 {
			name = cleaned(here[0].Name)
		}
		if n := len(facts.keys); n > 1 {
			each = fmt.Sprintf("of %d kinds", n)
		}
		tab.add(p.a, "── "+display.Count(len(here), "link")+" ──", p.z, name, each)
	}
	tab.write()
	if more := len(between.keys) - maxLinkLines; more > 0 {
		t.writeLine("  and links between %d more pairs", more)
	}
}

// boxName returns the name of the box at which a link ends; grouped has the group of each
// node.
func (t *textWriter) boxName(grouped map[int]int, e view.End) string {
	if e.Node < 0 {
		return cleaned(cmp.Or(e.Authority, e.Name)) + " (outside)"
	}
	g := t.groups[grouped[e.Node]]
	if len(g.nodes) > 1 {
		return g.nameRange(t.d, cleaned)
	}
	return cleaned(t.d.Nodes[e.Node].Name)
}

// writeOtherLinks writes a table of the links that do not have two ends.
func (t *textWriter) writeOtherLinks(grouped map[int]int, links []*view.Link) {
	t.writeLine("")
	t.writeTitle(display.Count(len(links), "link") + " of one end, or of more than two")
	tab := t.table("link", "type", "ends", "capacity", "VLAN", "joins")
	tab.wrapFrom = 5
	for _, l := range first(links, maxLinkLines) {
		kind := specialType(l)
		if kind == "" && len(l.Types) > 0 {
			kind = l.Types[0]
		}
		var boxes grouping[string, view.End]
		for _, e := range first(l.Ends, maxMembers) {
			boxes.add(t.boxName(grouped, e), e)
		}
		tab.add(cmp.Or(cleaned(l.Name), "(link)"), cleaned(kind), fmt.Sprint(len(l.Ends)), cleaned(propertyText(t.d, l)), cleaned(joined(" ", l.Shared, l.VLAN)), several(boxes.keys))
	}
	tab.write()
	t.writeMore(len(links), "link")
}

func (t *textWriter) endName(e view.End) string {
	name := cmp.Or(cleaned(e.Name), "(no name)")
	if e.Node < 0 {
		return name + " (nowhere)"
	}
	node := nameOf(&t.d.Nodes[e.Node])
	if strings.HasPrefix(name, node) {
		return name
	}
	return node + ":" + name
}

func (t *textWriter) addresses(e view.End) string {
	if e.Node < 0 {
		return ""
	}
	return clean(strings.Join(t.d.Nodes[e.Node].Interfaces[e.Interface].Addresses, " "), 80)
}
