package draw

import (
	"slices"
	"strings"
)

// table is rows of cells that a terminal shows in columns.
type table struct {
	t    *textWriter
	head []string
	rows [][]string
	gap  []int // between columns; nil is 2 everywhere
	bare bool  // without a head
	// tail is the first of the columns that go to a line of their own where
	// all do not fit; 0 for none.
	tail  int
	style func(column int, cell string) string
}

func (t *textWriter) table(head ...string) *table { return &table{t: t, head: head} }

func (b *table) add(cells ...string) {
	for i := range cells {
		cells[i] = b.t.see(cells[i])
	}
	b.rows = append(b.rows, cells)
}

const indent = 2

// common takes out of some columns what stands in every row, where there are
// three rows or more, and gives it.
func (b *table) common(which ...int) []string {
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

// write leaves out columns in which nothing stands, moves the tail to lines of
// its own if need be, and shortens the widest columns until all fit.
func (b *table) write() {
	width := make([]int, len(b.head))
	for _, r := range b.rows {
		for i, c := range r {
			width[i] = max(width[i], columns(c))
		}
	}
	gap := func(i int) int {
		if b.gap == nil || i >= len(b.gap) {
			return 2
		}
		return b.gap[i]
	}
	total := indent
	for i := range width {
		if width[i] == 0 {
			continue
		}
		if !b.bare {
			width[i] = max(width[i], columns(b.head[i]))
		}
		total += width[i] + gap(i)
	}
	wrapped := b.tail > 0 && total-2 > b.t.o.Width
	if wrapped {
		for i := b.tail; i < len(width); i++ {
			if width[i] > 0 {
				total -= width[i] + gap(i)
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
	if !b.bare {
		b.row(b.head, width, gap, func(int, string) string { return dim })
	}
	style := b.style
	if style == nil {
		style = func(int, string) string { return "" }
	}
	for _, r := range b.rows {
		b.row(r, width, gap, style)
		if wrapped {
			if rest := joined(", ", slices.Clone(r[b.tail:])...); rest != "" {
				margin := strings.Repeat(" ", 3*indent)
				b.t.wrap(margin, margin, rest)
			}
		}
	}
}

func (b *table) row(cells []string, width []int, gap func(int) int, style func(int, string) string) {
	var s strings.Builder
	s.WriteString(strings.Repeat(" ", indent))
	for i, c := range cells {
		if width[i] == 0 {
			continue
		}
		c = squeeze(c, float64(width[i]), inColumns)
		if b.t.o.ASCII {
			c = b.t.see(c)
		}
		s.WriteString(b.t.style(c, style(i, c)))
		s.WriteString(strings.Repeat(" ", width[i]-columns(c)+gap(i)))
	}
	b.t.line("%s", s.String())
}

// pad fills a cell up to a width, or cuts it.
func pad(s string, width int) string {
	s = squeeze(s, float64(width), inColumns)
	return s + strings.Repeat(" ", max(0, width-columns(s)))
}
