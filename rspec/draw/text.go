package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec/view"
)

// TextOptions describe the terminal.
type TextOptions struct {
	// Width is the number of columns; 0 means 80.
	Width int
	// ASCII replaces characters beyond ASCII.
	ASCII bool
	// Color colours states and headings. No information depends on it.
	Color bool
}

const (
	maxLinkLines = 600
	maxMembers   = 600
)

// Text writes d for a terminal: a summary, a table of each manager's nodes, the
// links with two ends as lines, and all other links as trees. It returns the error of w.
func Text(w io.Writer, d *view.Document, o TextOptions) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	o.Width = max(o.Width, 40)
	t := textWriter{w: bufio.NewWriter(w), o: o, d: d, groups: groupNodes(d)}
	t.writeDocument()
	if t.showsKey {
		t.writeLine("")
		t.writeLine("%s", t.style(t.truncate("KEY: your private SSH key, such as users/alice/id_ed25519", 0), dim))
	}
	return t.w.Flush()
}

type textWriter struct {
	w        *bufio.Writer
	o        TextOptions
	d        *view.Document
	groups   []group
	showsKey bool // a command with KEY is shown
}

// plain replaces the symbols of this package with ASCII characters.
var plain = strings.NewReplacer("─", "-", "├", "|", "└", "`", "│", "|", "…", "~", "–", "-", "·", "-", "×", "x", "µ", "u", "→", ">", "←", "<", "═", "=", "●", "*", "◐", "*", "○", "*", "✕", "*")

func (t *textWriter) displayable(s string) string {
	if !t.o.ASCII {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r > '~' {
			return '?'
		}
		return r
	}, plain.Replace(s))
}

func (t *textWriter) writeLine(format string, args ...any) {
	fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// truncate shortens a text to the width of a line, less reserve columns.
func (t *textWriter) truncate(s string, reserve int) string {
	return t.displayable(elide(t.displayable(s), float64(t.o.Width-reserve), columnWidth))
}

func columnWidth(s string) float64 { return float64(columns(s)) }

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
)

func (t *textWriter) style(s, sequence string) string {
	if !t.o.Color || sequence == "" || s == "" {
		return s
	}
	return sequence + s + reset
}

func (t *textWriter) writeTitle(s string) { t.writeLine("%s", t.style(t.truncate(s, 0), bold)) }

func (t *textWriter) writeMore(all int, noun string) {
	if n := all - maxLinkLines; n > 0 {
		t.writeLine("  and %s more", display.Count(n, noun))
	}
}

func (t *textWriter) writeDocument() {
	t.writeTitle(summary(t.d))
	if o := origin(t.d); o != "" {
		t.writeLine("%s", t.truncate(o, 0))
	}
	for m := range t.d.Managers {
		var here []group
		for _, g := range t.groups {
			if t.d.Nodes[g.nodes[0]].Manager == m {
				here = append(here, g)
			}
		}
		if len(here) > 0 {
			t.writeLine("")
			t.writeManager(m, here)
		}
	}
	t.writeLinks()
	t.writeOffers()
}

// writeManager writes a table, or lists of names if many nodes differ only in their names.
func (t *textWriter) writeManager(m int, groups []group) {
	name := cmp.Or(cleaned(t.d.Managers[m].Name), "no manager named")
	total := 0
	alike := len(groups) > minKindList
	for _, g := range groups {
		total += len(g.nodes)
		n := &t.d.Nodes[g.nodes[0]]
		alike = alike && g.level == 0 && n.Component == "" && n.State == "" && len(n.Logins) == 0 && len(n.Hosts) == 0 && n.Available == nil
	}
	title := fmt.Sprintf("%s  %s", name, display.Count(total, "node"))
	if len(t.d.Managers) == 1 && t.d.Managers[0].Name == "" {
		title = display.Count(total, "node")
	}
	t.writeTitle(title)
	switch {
	case alike:
		t.writeNames(groups)
	case t.d.Kind == view.Advertisement:
		t.writeComponents(groups)
	default:
		t.writeNodes(groups)
	}
}

// minKindList is a number of groups. If a manager has more groups, and all its nodes are
// plain, writeManager lists the nodes by kind. A plain node has no component, state, login or
// host.
const minKindList = 20

func (t *textWriter) writeNames(groups []group) {
	var kinds grouping[string, string]
	for _, g := range groups {
		n := &t.d.Nodes[g.nodes[0]]
		kind := cmp.Or(joined(", ", joined(" · ", cleaned(typesOf(n)), cleaned(n.Image)), useOf(n)), "no type named")
		kinds.add(kind, t.displayable(nameOf(n)))
	}
	for _, kind := range kinds.keys {
		t.writeLine("  %s", t.truncate(fmt.Sprintf("%d × %s", len(kinds.of[kind]), kind), indent))
		t.writeColumns("    ", kinds.of[kind])
	}
}

// writeColumns writes words in columns, in order down and then right.
func (t *textWriter) writeColumns(indent string, words []string) {
	widest := min(int(largestOf(words, columnWidth)), t.o.Width-len(indent))
	n := max(1, (t.o.Width-len(indent)+2)/(widest+2))
	rows := (len(words) + n - 1) / n
	for r := range rows {
		var b strings.Builder
		for i := r; i < len(words); i += rows {
			b.WriteString(pad(words[i], widest) + "  ")
		}
		t.writeLine("%s%s", indent, b.String())
	}
}

// writeNodes writes a table of nodes, and below it their errors.
func (t *textWriter) writeNodes(groups []group) {
	tab := t.table("node", "type", "image", "use", "component", "state", "address", "reach it")
	tab.wrapFrom = 7
	var failing grouping[string, string] // names by error
	for _, g := range groups {
		n := &t.d.Nodes[g.nodes[0]]
		if len(g.nodes) > 1 {
			var kinds, states grouping[string, int]
			for _, i := range g.nodes {
				kinds.add(typesOf(&t.d.Nodes[i]), i)
				states.add(t.d.Nodes[i].State, i)
			}
			tab.add(g.nameRange(t.d, cleaned), fmt.Sprintf("%d × %s", len(g.nodes), oneOf(kinds.keys, "kind")), "", "", "", oneOf(states.keys, "state"), "", "")
			continue
		}
		use := useOf(n)
		if n.Monitored {
			use = joined(", ", use, "monitored")
		}
		state := prefixed(stateSigns[view.ConditionOf(n.State)]+" ", stateWord(n.State))
		if n.Error != "" {
			failing.add(clean(n.Error, maxReason), nameOf(n))
		}
		tab.add(nameOf(n), cleaned(typesOf(n)), cleaned(n.Image), use, cleaned(n.Component), state, cleaned(strings.Join(publicAddresses(n), " ")), t.loginCommand(n))
	}
	if common := tab.takeCommon(1, 2, 3, 4); len(common) > 0 {
		t.writeLine("  %s", t.truncate("every node: "+strings.Join(common, ", "), indent))
	}
	tab.style = func(column int, cell string) string {
		for c, sign := range stateSigns {
			if column == 5 && sign != "" && strings.HasPrefix(cell, t.displayable(sign)) && !t.o.ASCII {
				return stateColors[c]
			}
		}
		return ""
	}
	tab.write()
	for _, reason := range first(failing.keys, maxLinkLines) {
		t.writeWrapped("  ", "    ", several(failing.of[reason])+": "+reason)
	}
}

func several(names []string) string {
	s := strings.Join(first(names, maxBranches), ", ")
	if more := len(names) - maxBranches; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// maxReason limits the characters of a node's error.
const maxReason = 1000

// writeWrapped writes the words in as many lines as they need. The parameter indent is for all
// lines except the first.
func (t *textWriter) writeWrapped(firstIndent, indent, text string) {
	line, empty := firstIndent, true
	for word := range strings.FieldsSeq(t.displayable(text)) {
		if !empty && columns(line)+1+columns(word) > t.o.Width {
			t.writeLine("%s", line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+t.displayable(elide(word, float64(t.o.Width-len(indent)), columnWidth)), false
	}
	t.writeLine("%s", line)
}

var (
	stateSigns  = map[view.Condition]string{view.Unknown: " ", view.Ready: "●", view.Busy: "◐", view.Idle: "○", view.Failed: "✕"}
	stateColors = map[view.Condition]string{view.Ready: "\x1b[32m", view.Busy: "\x1b[33m", view.Failed: "\x1b[31m"}
)

// loginCommand returns a command line for the first login. For a node without logins it
// returns the host name, or "" if that is only the node's name.
func (t *textWriter) loginCommand(n *view.Node) string {
	switch {
	case len(n.Logins) > 0:
		all := commands(n, "KEY")
		s := all[0]
		t.showsKey = t.showsKey || strings.Contains(s, "-i KEY ")
		if more := len(all) - 1; more > 0 {
			s += " (and " + display.Count(more, "more login") + ")"
		}
		return s
	case len(n.Hosts) > 0 && n.Hosts[0].Name != n.Name && (n.Hosts[0].IPv4 != "" || strings.Contains(n.Hosts[0].Name, ".")):
		return cleaned(n.Hosts[0].Name)
	}
	return ""
}

func (t *textWriter) writeComponents(groups []group) {
	tab := t.table("component", "count", "type", "hardware", "use", "free", "slots")
	for _, g := range groups {
		n := &t.d.Nodes[g.nodes[0]]
		free, slots := freeNodes(t.d, g.nodes)
		name, slotText := nameOf(n), ""
		if len(g.nodes) > 1 {
			name = g.nameRange(t.d, cleaned)
		}
		if slots > 0 {
			slotText = fmt.Sprint(slots)
		}
		tab.add(name, fmt.Sprintf("%d ×", len(g.nodes)), cleaned(typesOf(n)), cleaned(n.HardwareType), useOf(n), free, slotText)
	}
	tab.write()
}
