package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"patchbay/am/display"
	"patchbay/am/urn"
)

// table prints rows in columns as wide as they need to be.
type table struct {
	tabs  *tabwriter.Writer
	names []string
	rows  int
	now   time.Time // the site's
	urns  bool      // print whole URNs
	wide  bool      // cut nothing
}

func newTable(w io.Writer, o *listOptions, now time.Time) *table {
	return &table{tabs: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), now: now, urns: o.URNs, wide: o.Wide}
}

// head names the columns.
func (t *table) head(names ...string) { t.names = names }

// row prints a line of cells; empty ones are shown as a dash.
func (t *table) row(cells ...string) {
	if t.rows == 0 {
		fmt.Fprintln(t.tabs, strings.Join(t.names, "\t"))
	}
	t.rows++
	for i, c := range cells {
		if cells[i] = display.Line(c); c == "" && i < len(cells)-1 {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(t.tabs, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// flush prints what has been collected, or that there is nothing.
func (t *table) flush(nothing string) error {
	if t.rows == 0 {
		_, err := fmt.Fprintln(t.tabs, nothing)
		if err != nil {
			return err
		}
	}
	return t.tabs.Flush()
}

// cut shortens a text, unless all is wanted.
func (t *table) cut(s string, most int) string {
	if t.wide || utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:most-1]), " ") + "…"
}

// name is the name of a URN, or the whole of it.
func (t *table) name(u urn.URN) string {
	if t.urns {
		return u.String()
	}
	return t.cut(u.Name, 40)
}

// list is the names of some URNs, the first few of them.
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

// sliver names a sliver as commands take it.
func (t *table) sliver(sliver, slice urn.URN, clientID string) string {
	if t.urns || clientID == "" {
		return sliver.String()
	}
	return t.cut(slice.Name, 30) + "/" + t.cut(clientID, 30)
}

// when is a time, and how far away it is.
func (t *table) when(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return display.Time(at) + " " + sayDistance(at.Sub(t.now))
}

// end is the end of a lease. One that is frozen goes on, and ends when it is thawed
// later than that.
func (t *table) end(at time.Time, frozen bool) string {
	if frozen && !at.IsZero() {
		return "kept; " + t.when(at)
	}
	return t.when(at)
}

// sayDistance says how far a time is away, to the nearest day, minute or second: in
// 3h12m, 4m ago.
func sayDistance(d time.Duration) string {
	ago := d < 0
	if d = d.Abs(); d >= 48*time.Hour {
		d = d.Round(24 * time.Hour)
	} else if d >= time.Minute {
		d = d.Round(time.Minute)
	} else {
		d = d.Round(time.Second)
	}
	text := display.Duration(d)
	if ago {
		return text + " ago"
	}
	return "in " + text
}

// on is the name of a component here, or its URN.
func (t *table) on(component urn.URN, name string) string {
	if t.urns && !component.IsZero() {
		return component.String()
	}
	return t.cut(name, 40)
}
