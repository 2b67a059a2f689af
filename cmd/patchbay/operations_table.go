package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/operate"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/inventory/suggest"
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

// listOptions are what all lists have in common.
type listOptions struct {
	site   siteFlag
	what   string
	JSON   bool
	Wide   bool
	URNs   bool
	Backup string

	filter                   operate.Filter
	since, until, endsBefore string
	argument                 *string  // what the argument is a pattern of
	word                     string   // the flag of filter.State
	states                   []string // the words of filter.State; nil for any
}

func (o *listOptions) addFlags(fs *pflag.FlagSet, what string) {
	o.what = what
	o.site.AddFlags(fs)
	fs.BoolVar(&o.JSON, "json", false, "print one JSON object a line")
	fs.BoolVar(&o.Wide, "wide", false, "print more columns, and cut nothing")
	fs.BoolVar(&o.URNs, "urns", false, "print URNs instead of names")
	fs.StringVar(&o.Backup, "backup", "", "look into this copy of the store, instead of the site")
	fs.IntVar(&o.filter.Limit, "limit", 0, "how many rows at most; 0 for all")
}

func (o *listOptions) addPattern(fs *pflag.FlagSet, field *string, name, of string) {
	fs.StringVar(field, name, "", "PATTERN of "+of)
}

// addStates adds the flag that wants one of these words.
func (o *listOptions) addStates(fs *pflag.FlagSet, name string, words []string) {
	o.word, o.states = name, words
	fs.StringVar(&o.filter.State, name, "", "only "+strings.Join(words, ", "))
}

func (o *listOptions) Validate(args []string) (err error) {
	switch {
	case len(args) > 0 && o.argument == nil:
		return errors.New("it takes no argument; what is asked for stands in flags")
	case len(args) > 0 && *o.argument != "":
		return fmt.Errorf("%q and the flag say the same; give one", args[0])
	case len(args) > 0:
		*o.argument = strings.Join(args, ",")
	}
	for s := range strings.SplitSeq(o.filter.State, ",") {
		if s == "" || o.states == nil || slices.Contains(o.states, s) {
			continue
		}
		hint := "there are " + strings.Join(o.states, ", ")
		if near := suggest.Word(s, o.states); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return fmt.Errorf("there is no %s %q; %s", o.word, s, hint)
	}
	if o.filter.Limit < 0 {
		return fmt.Errorf("--limit is %d; it is a number of rows, or 0 for all", o.filter.Limit)
	}
	return o.readTimes(time.Now()) // and again when the site's time is known
}

func (o *listOptions) addSpan(fs *pflag.FlagSet) {
	fs.StringVar(&o.since, "since", "", "TIME from which on, or a while ago such as 2h")
	fs.StringVar(&o.until, "until", "", "TIME before which, or a while ago")
}

// stateFlag is the flag that takes words, and these words.
func (o *listOptions) stateFlag() (name string, words []string) { return o.word, o.states }

const listLong = `

The site may be served or not. How PATTERN and TIME are written: patchbay help
patterns. --json prints one JSON object a line; the names of its fields stay as they
are.`

// readTimes reads times that may be some while from now.
func (o *listOptions) readTimes(now time.Time) (err error) {
	if o.since != "" {
		if o.filter.Since, err = ago("--since", o.since, now); err != nil {
			return err
		}
	}
	if o.until != "" {
		if o.filter.Until, err = ago("--until", o.until, now); err != nil {
			return err
		}
	}
	if o.endsBefore != "" {
		o.filter.EndsBefore, err = parseMoment("--ends-before", o.endsBefore, now)
	}
	return err
}

func (o *listOptions) addEndsBefore(fs *pflag.FlagSet) {
	fs.StringVar(&o.endsBefore, "ends-before", "", "TIME before which the lease ends, or a while from now such as 2h")
}

// ago reads a time, or a while before now; nothing is zero.
func ago(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := display.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	t, err := pastMoment(s)
	if err != nil {
		return t, fmt.Errorf("%s %w, or a while ago such as 2h or 3d", flag, err)
	}
	return t, nil
}

func (o *listOptions) client() (site.AdminClient, error) {
	config, err := o.site.read()
	return site.AdminClient{Config: config, Backup: o.Backup}, err
}

// show prints a list, as JSON or as a table of which row adds what it is given.
func show[T any](ctx context.Context, o *listOptions, c console, nothing string, head []string, row func(*table, *T)) error {
	h, err := o.client()
	if err != nil {
		return err
	}
	now := h.Now(ctx)
	if err := o.readTimes(now); err != nil {
		return err
	}
	if o.JSON {
		return h.List(ctx, o.what, o.filter, c.out)
	}
	t := newTable(c.out, o, now)
	t.head(head...)
	if err := site.Rows(ctx, h, o.what, o.filter, func(r *T) error { row(t, r); return nil }); err != nil {
		return err
	}
	return t.flush(nothing)
}

// parseMoment reads a time, or a while from now; nothing is now.
func parseMoment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC().Truncate(time.Second), nil
	}
	d, err := display.ParseDuration(s)
	if err != nil {
		return now, noMoment(flag, s)
	}
	return now.Add(d).Truncate(time.Second), nil
}

// noMoment says that a text is neither a time nor a while from now.
func noMoment(flag, s string) error {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return fmt.Errorf("%s %q has no time of day; write it with time and zone, like %s", flag, s, day.Format(time.RFC3339))
	}
	return fmt.Errorf("%s %q is neither a time like 2030-01-31T12:00:00Z, with its zone, nor a while from now like 2h or 3d", flag, s)
}
