package draw

import (
	"slices"
	"strings"
)

type table struct {
	t      *textWriter
	head   []string
	rows   [][]string
	gap    []int // width of the space after each column; a missing one is 2
	noHead bool
	// wrapFrom is the first column that moves to a separate line if the table is too wide. 0
	// means that no columns move.
	wrapFrom int
	style    func(column int, cell string) string
}

func (t *textWriter) table(head ...string) *table { return &table{t: t, head: head} }

func (b *table) add(cells ...string) {
	for i := range cells {
		cells[i] = b.t.displayable(cells[i])
	}
	b.rows = append(b.rows, cells)
}

const indent = 2

// takeCommon returns the texts of those given columns that have the same text in every row,
// and clears these columns. It does nothing in tables of fewer than three rows.
func (b *table) takeCommon(which ...int) []string {
	var list []string
	if len(b.rows) < 3 {
		return nil
	}
	for _, i := range which {
		word := b.rows[0][i]
		if word == "" || slices.ContainsFunc(b.rows, func(r []string) bool { return r[i] != word }) {
			continue
		}
		for _, r := range b.rows {
			r[i] = ""
		}
		if b.head[i] == "component" {
			word = "on " + word
		}
		list = append(list, word)
	}
	return list
}

// gapAfter returns the width of the space after column i.
func (b *table) gapAfter(i int) int {
	if i >= len(b.gap) {
		return 2
	}
	return b.gap[i]
}

// columnWidths returns the width of each column; 0 for one that is not written. If the table is too wide, it moves
// the columns from wrapFrom on to separate lines, which isWrapped reports, and then shortens the widest columns.
func (b *table) columnWidths() (width []int, isWrapped bool) {
	width = make([]int, len(b.head))
	for _, r := range b.rows {
		for i, c := range r {
			width[i] = max(width[i], columns(c))
		}
	}
	total := indent
	for i := range width {
		if width[i] == 0 {
			continue
		}
		if !b.noHead {
			width[i] = max(width[i], columns(b.head[i]))
		}
		total += width[i] + b.gapAfter(i)
	}
	isWrapped = b.wrapFrom > 0 && total-2 > b.t.o.Width
	if isWrapped {
		for i := b.wrapFrom; i < len(width); i++ {
			if width[i] > 0 {
				total -= width[i] + b.gapAfter(i)
				width[i] = 0
			}
		}
	}
	for excess := total - 2 - b.t.o.Width; excess > 0; {
		widest := 0
		for i := range width {
			if width[i] > width[widest] {
				widest = i
			}
		}
		if width[widest] <= 6 {
			break
		}
		cut := max(1, min(excess, width[widest]/6))
		width[widest] -= cut
		excess -= cut
	}
	return width, isWrapped
}

// write writes the head and the rows, without empty columns.
func (b *table) write() {
	width, isWrapped := b.columnWidths()
	if !b.noHead {
		head := slices.Clone(b.head)
		for i := range head {
			head[i] = strings.ToUpper(head[i])
		}
		b.row(head, width, func(int, string) string { return dim })
	}
	style := b.style
	if style == nil {
		style = func(int, string) string { return "" }
	}
	for _, r := range b.rows {
		b.row(r, width, style)
		if isWrapped {
			if rest := joined(", ", slices.Clone(r[b.wrapFrom:])...); rest != "" {
				margin := strings.Repeat(" ", 3*indent)
				b.t.writeWrapped(margin, margin, rest)
			}
		}
	}
}

func (b *table) row(cells []string, width []int, style func(int, string) string) {
	var s strings.Builder
	s.WriteString(strings.Repeat(" ", indent))
	for i, c := range cells {
		if width[i] == 0 {
			continue
		}
		c = elide(c, float64(width[i]), columnWidth)
		if b.t.o.ASCII {
			c = b.t.displayable(c)
		}
		s.WriteString(b.t.style(c, style(i, c)))
		s.WriteString(strings.Repeat(" ", width[i]-columns(c)+b.gapAfter(i)))
	}
	b.t.writeLine("%s", s.String())
}

func pad(s string, width int) string {
	s = elide(s, float64(width), columnWidth)
	return s + strings.Repeat(" ", max(0, width-columns(s)))
}
