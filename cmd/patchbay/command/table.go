package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"patchbay/am/display"
)

// A Table is printed by Flush, with columns as wide as their longest texts.
type Table struct {
	Out     io.Writer
	heading []string
	Rows    [][]string

	Indent string
	Dash   bool // print a dash for an empty cell, except in the last column
	Narrow bool // leave out columns without any text
	Wide   bool // do not shorten texts
}

// Head sets the heading.
func (t *Table) Head(names ...string) { t.heading = names }

// Row adds a row of any texts. It removes line ends and control characters.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		if cells[i] = display.Line(c); c == "" && t.Dash && i < len(cells)-1 {
			cells[i] = "-"
		}
	}
	t.Rows = append(t.Rows, cells)
}

// Flush prints the table, or emptyText if it has no rows.
func (t *Table) Flush(emptyText string) error {
	if len(t.Rows) == 0 {
		_, err := fmt.Fprintln(t.Out, emptyText)
		return err
	}
	rows := t.Rows
	if len(t.heading) > 0 {
		rows = append([][]string{t.heading}, rows...)
	}
	var text strings.Builder
	tabs := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for i, c := range row {
			if !t.Narrow || t.isUsed(i) {
				cells = append(cells, c)
			}
		}
		fmt.Fprintln(tabs, t.Indent+strings.Join(cells, "\t"))
	}
	tabs.Flush()
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(t.Out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) isUsed(column int) bool {
	return slices.ContainsFunc(t.Rows, func(row []string) bool { return column < len(row) && row[column] != "" })
}

// Cut shortens a text to a number of characters, unless the table is wide.
func (t *Table) Cut(s string, limit int) string {
	if t.Wide || utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:limit-1]), " ") + "…"
}

// FormatStates returns a text such as "3 ready, 1 failed".
func FormatStates(states map[string]int) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[s], s))
	}
	return strings.Join(parts, ", ")
}
