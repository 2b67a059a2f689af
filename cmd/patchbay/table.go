package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"patchbay/am/display"
	"patchbay/am/urn"
)

type table struct {
	out     io.Writer
	heading []string
	rows    [][]string

	indent string
	dash   bool // print a dash for an empty cell, except in the last column
	narrow bool // leave out columns without any text

	now  time.Time // the site's time
	urns bool      // print whole URNs
	wide bool      // do not shorten texts
}

// newTable takes as now the site's time.
func newTable(w io.Writer, o *listOptions, now time.Time) *table {
	return &table{out: w, dash: true, now: now, urns: o.URNs, wide: o.Wide}
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

// name returns the name in a URN, or the whole URN with --urns.
func (t *table) name(u urn.URN) string {
	if t.urns {
		return u.String()
	}
	return t.cut(u.Name, 40)
}

// list returns at most three names, unless the table is wide.
func (t *table) list(all []urn.URN) string {
	const most = 3
	var names []string
	for i, u := range all {
		if i == most && !t.wide {
			names = append(names, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		names = append(names, t.name(u))
	}
	return strings.Join(names, ", ")
}

// sliver returns a name that commands accept: SLICE/CLIENT_ID or the URN.
func (t *table) sliver(sliver, slice urn.URN, clientID string) string {
	if t.urns || clientID == "" {
		return sliver.String()
	}
	return t.cut(slice.Name, 30) + "/" + t.cut(clientID, 30)
}

// when returns "" for the zero time.
func (t *table) when(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return timeAndDistance(at, t.now)
}

// end marks the lease of a frozen sliver. Such a lease cannot end before the slice is
// thawed.
func (t *table) end(at time.Time, frozen bool) string {
	if frozen && !at.IsZero() {
		return "kept; " + t.when(at)
	}
	return t.when(at)
}

// component returns the name, or the URN with --urns.
func (t *table) component(u urn.URN, name string) string {
	if t.urns && !u.IsZero() {
		return u.String()
	}
	return t.cut(name, 40)
}
