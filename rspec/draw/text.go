package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// TextOptions say for whose eyes a text is.
type TextOptions struct {
	// Width is that of the terminal, in columns; 0 is 80.
	Width int
	// ASCII leaves out all other characters.
	ASCII bool
	// Color marks states and headings. Nothing depends on it.
	Color bool
}

// Most lines of one kind that a text holds.
const (
	mostLinkLines = 600
	mostMembers   = 600
)

// Text writes p for a terminal: what it is, a table of the nodes of each
// manager, the links of two ends as lines, all others as trees. The error is w's.
func Text(w io.Writer, p *Picture, o TextOptions) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	o.Width = max(o.Width, 40)
	t := textWriter{w: bufio.NewWriter(w), o: o, p: p, groups: groupNodes(p)}
	t.document()
	if t.keyed {
		t.line("")
		t.line("%s", t.style(t.fit("KEY: your private SSH key, such as users/alice/id_ed25519", 0), dim))
	}
	return t.w.Flush()
}

type textWriter struct {
	w      *bufio.Writer
	o      TextOptions
	p      *Picture
	groups []group
	keyed  bool // a command with KEY is shown
}

// plain are our own signs in ASCII.
var plain = strings.NewReplacer("─", "-", "├", "|", "└", "`", "│", "|", "…", "~", "–", "-", "·", "-", "×", "x", "µ", "u", "→", ">", "←", "<", "═", "=", "●", "*", "◐", "*", "○", "*", "✕", "*")

// see is text as this terminal can show it.
func (t *textWriter) see(s string) string {
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

func (t *textWriter) line(format string, args ...any) {
	fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// fit is a text in one line of the terminal, of which some columns are taken.
func (t *textWriter) fit(s string, taken int) string {
	return t.see(squeeze(t.see(s), float64(t.o.Width-taken), inColumns))
}

func inColumns(s string) float64 { return float64(columns(s)) }

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
)

// style wraps a text in a sequence of the terminal, where it has colours.
func (t *textWriter) style(s, sequence string) string {
	if !t.o.Color || sequence == "" || s == "" {
		return s
	}
	return sequence + s + reset
}

// title is a line in bold.
func (t *textWriter) title(s string) { t.line("%s", t.style(t.fit(s, 0), bold)) }

// more says how many things of a list are not told.
func (t *textWriter) more(all int, what string) {
	if n := all - mostLinkLines; n > 0 {
		t.line("  and %s more", count(n, what))
	}
}

func (t *textWriter) document() {
	t.title(t.p.summary())
	if o := t.p.origin(); o != "" {
		t.line("%s", t.fit(o, 0))
	}
	for m := range t.p.Managers {
		var here []group
		for _, g := range t.groups {
			if t.p.Nodes[g.nodes[0]].Manager == m {
				here = append(here, g)
			}
		}
		if len(here) > 0 {
			t.line("")
			t.manager(m, here)
		}
	}
	t.links()
	t.offers()
}

func (t *textWriter) manager(m int, groups []group) {
	name := cmp.Or(full(t.p.Managers[m].Name), "no manager named")
	total := 0
	alike := len(groups) > manyAlike
	for _, g := range groups {
		total += len(g.nodes)
		n := &t.p.Nodes[g.nodes[0]]
		alike = alike && g.level == 0 && n.Component == "" && n.State == "" && len(n.Logins) == 0 && len(n.Hosts) == 0 && n.Available == nil
	}
	title := fmt.Sprintf("%s  %s", name, count(total, "node"))
	if len(t.p.Managers) == 1 && t.p.Managers[0].Name == "" {
		title = count(total, "node")
	}
	t.title(title)
	switch {
	case alike:
		t.names(groups)
	case t.p.Kind == Advertisement:
		t.components(groups)
	default:
		t.nodes(groups)
	}
}

// manyAlike is from when on nodes that only their kinds tell apart are listed
// by kind.
const manyAlike = 20

// names lists nodes by kind, several to a line.
func (t *textWriter) names(groups []group) {
	var kinds grouping[string, string]
	for _, g := range groups {
		n := &t.p.Nodes[g.nodes[0]]
		kind := cmp.Or(joined(", ", joined(" · ", full(typesOf(n)), full(n.Image)), n.use()), "no type named")
		kinds.add(kind, t.see(n.name()))
	}
	for _, kind := range kinds.keys {
		t.line("  %s", t.fit(fmt.Sprintf("%d × %s", len(kinds.of[kind]), kind), indent))
		t.columns("    ", kinds.of[kind])
	}
}

// columns sets words in columns, down and then right.
func (t *textWriter) columns(indent string, words []string) {
	widest := min(int(most(words, inColumns)), t.o.Width-len(indent))
	n := max(1, (t.o.Width-len(indent)+2)/(widest+2))
	rows := (len(words) + n - 1) / n
	for r := range rows {
		var b strings.Builder
		for i := r; i < len(words); i += rows {
			b.WriteString(pad(words[i], widest) + "  ")
		}
		t.line("%s%s", indent, b.String())
	}
}

// nodes is the table of a request or a manifest.
func (t *textWriter) nodes(groups []group) {
	tab := t.table("node", "type", "image", "use", "component", "state", "address", "reach it")
	tab.tail = 7
	var failing grouping[string, string] // reason → nodes
	for _, g := range groups {
		n := &t.p.Nodes[g.nodes[0]]
		if len(g.nodes) > 1 {
			var kinds, states grouping[string, int]
			for _, i := range g.nodes {
				kinds.add(typesOf(&t.p.Nodes[i]), i)
				states.add(t.p.Nodes[i].State, i)
			}
			tab.add(g.span(t.p, full), fmt.Sprintf("%d × %s", len(g.nodes), oneOf(kinds.keys, "kind")), "", "", "", oneOf(states.keys, "state"), "", "")
			continue
		}
		use := n.use()
		if n.Monitored {
			use = joined(", ", use, "monitored")
		}
		state := prefixed(stateSigns[conditionOf(n.State)]+" ", stateWord(n.State))
		if n.Error != "" {
			failing.add(clean(n.Error, longestReason), n.name())
		}
		tab.add(n.name(), full(typesOf(n)), full(n.Image), use, full(n.Component), state, full(strings.Join(n.publicAddresses(), " ")), t.reach(n))
	}
	if common := tab.common(1, 2, 3, 4); len(common) > 0 {
		t.line("  %s", t.fit("every node: "+strings.Join(common, ", "), indent))
	}
	tab.style = func(column int, cell string) string {
		for c, sign := range stateSigns {
			if column == 5 && sign != "" && strings.HasPrefix(cell, t.see(sign)) && !t.o.ASCII {
				return stateColors[c]
			}
		}
		return ""
	}
	tab.write()
	for _, reason := range first(failing.keys, mostLinkLines) {
		t.wrap("  ", "    ", several(failing.of[reason])+": "+reason)
	}
}

// several are the first of some names, and how many more there are.
func several(names []string) string {
	s := strings.Join(first(names, mostBranches), ", ")
	if more := len(names) - mostBranches; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// longestReason is how much is told of why a node failed.
const longestReason = 1000

// wrap writes words in as many lines as they need, the first of which is
// indented otherwise.
func (t *textWriter) wrap(first, rest, text string) {
	line, empty := first, true
	for word := range strings.FieldsSeq(t.see(text)) {
		if !empty && columns(line)+1+columns(word) > t.o.Width {
			t.line("%s", line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+t.see(squeeze(word, float64(t.o.Width-len(rest)), inColumns)), false
	}
	t.line("%s", line)
}

var (
	stateSigns  = map[condition]string{unknown: " ", ready: "●", busy: "◐", resting: "○", failed: "✕"}
	stateColors = map[condition]string{ready: "\x1b[32m", busy: "\x1b[33m", failed: "\x1b[31m"}
)

// reach is how to get at a node: its first login, or the name of its host. One
// that only repeats the node's name leads nowhere.
func (t *textWriter) reach(n *Node) string {
	switch {
	case len(n.Logins) > 0:
		s := full(n.Logins[0].String())
		if command, ok := strings.CutPrefix(s, "ssh "); ok {
			s, t.keyed = "ssh -i KEY "+command, true
		}
		if more := len(n.Logins) - 1; more > 0 {
			s += " (and " + count(more, "more login") + ")"
		}
		return s
	case len(n.Hosts) > 0 && n.Hosts[0].Name != n.Name && (n.Hosts[0].IPv4 != "" || strings.Contains(n.Hosts[0].Name, ".")):
		return full(n.Hosts[0].Name)
	}
	return ""
}

// components is the table of an advertisement.
func (t *textWriter) components(groups []group) {
	tab := t.table("component", "count", "type", "hardware", "use", "free", "slots")
	for _, g := range groups {
		n := &t.p.Nodes[g.nodes[0]]
		free, slots := t.p.free(g.nodes)
		name, slotText := n.name(), ""
		if len(g.nodes) > 1 {
			name = g.span(t.p, full)
		}
		if slots > 0 {
			slotText = fmt.Sprint(slots)
		}
		tab.add(name, fmt.Sprintf("%d ×", len(g.nodes)), full(typesOf(n)), full(n.HardwareType), n.use(), free, slotText)
	}
	tab.write()
}
