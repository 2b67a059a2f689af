package main

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

type table struct {
	out     io.Writer
	heading []string
	rows    [][]string

	indent string
	dash   bool // print a dash for an empty cell, except in the last column
	narrow bool // leave out columns without any text
	wide   bool // do not shorten texts
}

func (t *table) head(names ...string) { t.heading = names }

// row accepts any text. It removes line ends and control characters.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		if cells[i] = display.Line(c); c == "" && t.dash && i < len(cells)-1 {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// flush prints emptyText if the table has no rows.
func (t *table) flush(emptyText string) error {
	if len(t.rows) == 0 {
		_, err := fmt.Fprintln(t.out, emptyText)
		return err
	}
	rows := t.rows
	if len(t.heading) > 0 {
		rows = append([][]string{t.heading}, rows...)
	}
	var text strings.Builder
	tabs := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for i, c := range row {
			if !t.narrow || t.isUsed(i) {
				cells = append(cells, c)
			}
		}
		fmt.Fprintln(tabs, t.indent+strings.Join(cells, "\t"))
	}
	tabs.Flush()
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) isUsed(column int) bool {
	return slices.ContainsFunc(t.rows, func(row []string) bool { return column < len(row) && row[column] != "" })
}

// cut shortens a text to a number of characters, unless the table is wide.
func (t *table) cut(s string, limit int) string {
	if t.wide || utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:limit-1]), " ") + "…"
}

// formatStates returns a text such as "3 ready, 1 failed".
func formatStates(states map[string]int) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[s], s))
	}
	return strings.Join(parts, ", ")
}
