package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const calendarLong = `Draw when the components are held, by type: a row for each component, as wide as the
terminal. A type with many components has one row, unless the argument selects
components, or with --wide. A window shows neither the slice nor the user; --user and
--slice mark the windows of theirs. Without them, those of the site's user are marked if it
has only one.

The times are in your time zone.` + listLong

type calendarOptions struct {
	listOptions
	from string
	days int
}

func (o *calendarOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "calendar")
	o.argument = &o.filter.Component
	o.addPattern(fs, &o.filter.Slice, "slice", "the slices whose windows are marked")
	o.addPattern(fs, &o.filter.User, "user", "the users whose windows are marked")
	fs.StringVar(&o.from, "from", "", "the TIME at which it begins, such as \"tomorrow 9:00\" (default: the start of today)")
	fs.IntVar(&o.days, "days", 8, "its length")
}

func (o *calendarOptions) Validate(args []string) error {
	if o.days < 1 || o.days > 366 {
		return fmt.Errorf("--days is %d; it must be a number from 1 to 366", o.days)
	}
	_, err := o.start(time.Now())
	return errors.Join(err, o.listOptions.Validate(args))
}

func (o *calendarOptions) start(now time.Time) (t time.Time, err error) {
	if o.from == "" {
		return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()), nil
	}
	if t, err = display.ParseTime(o.from, now, now); err != nil {
		err = fmt.Errorf("--from: %w", err)
	}
	return t, err
}

// manyComponents is the number of components of a type above which they have one row.
const manyComponents = 24

func (o *calendarOptions) Run(ctx context.Context, c command.Console) error {
	h, err := o.client()
	if err != nil {
		return err
	}
	now := h.Now(ctx).Local()
	from, err := o.start(now)
	if err != nil {
		return err
	}
	from = from.Local()
	o.filter.Since, o.filter.Until = from, from.AddDate(0, 0, o.days)
	if o.JSON {
		return h.List(ctx, o.list, o.filter, c.Out)
	}
	if users := o.site.UserNames(); len(users) == 1 && o.filter.User+o.filter.Slice+o.Backup == "" {
		o.filter.User = users[0] + "*" // a pattern may match nothing
	}
	types, names, width := map[string][]*operate.CalendarRow{}, []string(nil), 0
	err = site.Rows(ctx, h, o.list, o.filter, func(r *operate.CalendarRow) error {
		if types[r.Type] == nil {
			names = append(names, r.Type)
		}
		types[r.Type] = append(types[r.Type], r)
		width = max(width, len(r.Component)+2, len(r.Type)+6)
		return nil
	})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		_, err := fmt.Fprintln(c.Out, "There is no such component.")
		return err
	}
	x := newChart(from, o.filter.Until, now, min(width, 30), cmp.Or(command.TextOptions(c.Out).Width, 80))
	x.axis(o.days)
	for _, name := range names {
		rows := types[name]
		x.line(fmt.Sprintf("%s %5d", display.Line(name), len(rows)), "")
		if len(rows) > manyComponents && !o.Wide && o.filter.Component == "" {
			x.row("  free", rows...)
			continue
		}
		for _, r := range rows {
			x.row("  "+r.Component, r)
		}
	}
	_, err = io.WriteString(c.Out, x.text.String()+x.legend())
	return err
}

// chart is a calendar of text: each row has a name and a character for each column of time.
type chart struct {
	from, now       time.Time
	step            time.Duration // of a column
	columns, margin int
	text            strings.Builder
	used            map[byte]bool // the characters in the rows
	isFolded        bool          // a row has several components
}

// columnSteps are the times that a column may last.
var columnSteps = []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// newChart returns an empty chart whose columns begin at multiples of their step in the zone of from.
func newChart(from, until, now time.Time, margin, width int) *chart {
	most, step := max(width-margin-1, 10), columnSteps[0]
	for _, step = range columnSteps {
		if until.Sub(from) <= step*time.Duration(most-1) {
			break
		}
	}
	for until.Sub(from) > step*time.Duration(most-1) {
		step += 24 * time.Hour
	}
	_, seconds := from.Zone()
	offset := time.Duration(seconds) * time.Second
	from = from.Add(offset).Truncate(step).Add(-offset)
	return &chart{from: from, now: now, step: step, columns: int((until.Sub(from) + step - 1) / step), margin: margin, used: map[byte]bool{}}
}

func (x *chart) at(column int) time.Time { return x.from.Add(time.Duration(column) * x.step) }

func (x *chart) line(name, text string) {
	x.text.WriteString(strings.TrimRight(fmt.Sprintf("%-*.*s %s", x.margin, x.margin, name, text), " ") + "\n")
}

// axis writes the title, the days or hours, and the mark of the present.
func (x *chart) axis(days int) {
	fmt.Fprintf(&x.text, "From %s for %s; a column is %s.\n\n", display.LocalAndUTC(x.from), display.Count(days, "day"), display.Duration(x.step))
	labels, layout := "", "Mon 02"
	if days <= 2 {
		layout = "15:04"
	}
	for i := range x.columns {
		t, before := x.at(i), x.at(i-1)
		isMark := i == 0 || t.YearDay() != before.YearDay() || days <= 2 && t.Hour() != before.Hour()
		if isMark && (i == 0 || len(labels) < i) {
			labels += strings.Repeat(" ", i-len(labels)) + t.Format(layout)
		}
	}
	x.line("", labels)
	if i := int(x.now.Sub(x.from) / x.step); !x.now.Before(x.from) && i < x.columns {
		x.line("", strings.Repeat(" ", i)+"| now")
	}
}

// row writes a row: what one component is, or what part of several components is free.
func (x *chart) row(name string, rows ...*operate.CalendarRow) {
	cells := make([]byte, x.columns)
	for i := range cells {
		free, mine := 0, false
		for _, r := range rows {
			cells[i] = cellOf(r, x.at(i), x.at(i+1))
			mine = mine || cells[i] == 'M'
			if cells[i] == '.' || cells[i] > '0' && cells[i] <= '9' {
				free++
			}
		}
		switch {
		case len(rows) == 1:
		case mine:
			cells[i] = 'M'
		case free == len(rows):
			cells[i] = '.'
		default:
			cells[i] = '0' + byte(free*10/len(rows))
		}
		x.used[cells[i]] = true
	}
	x.isFolded = x.isFolded || len(rows) > 1
	x.line(display.Line(name), string(cells))
}

// stateLetters are the characters of states, the most important one first.
var stateLetters = []struct {
	letter byte
	states []string
	text   string
}{
	{'x', []string{"drained", "maintenance"}, "out of service"},
	{'#', []string{"held"}, "in use"},
	{'+', []string{"ahead"}, "reserved"},
	{'~', []string{"cleaning"}, "being cleaned"},
}

// cellOf returns the character for a component in a time: M, that of the most important state without room, the number
// of slivers that still fit, or a dot.
func cellOf(r *operate.CalendarRow, from, until time.Time) byte {
	rank, free := len(stateLetters), -1
	for _, w := range r.Windows {
		if !w.From.Before(until) || !w.Until.IsZero() && !w.Until.After(from) {
			continue
		}
		if !w.Mine.IsZero() {
			return 'M'
		}
		if w.Free > 0 && (free < 0 || w.Free < free) {
			free = w.Free
		}
		for i, s := range stateLetters {
			if w.Free == 0 && slices.Contains(s.states, w.State) {
				rank = min(rank, i)
			}
		}
	}
	switch {
	case rank < len(stateLetters):
		return stateLetters[rank].letter
	case free >= 0:
		return '0' + byte(min(free, 9))
	}
	return '.'
}

// legend explains the characters that the chart has.
func (x *chart) legend() string {
	texts := []string{". free"}
	for _, s := range stateLetters {
		if x.used[s.letter] {
			texts = append(texts, string(s.letter)+" "+s.text)
		}
	}
	if x.used['M'] {
		texts = append(texts, "M marked")
	}
	text := "\n" + strings.Join(texts, ", ") + "\n"
	if slices.ContainsFunc([]byte("0123456789"), func(c byte) bool { return x.used[c] }) {
		text += "digit: how many slivers still fit, up to 9"
		if x.isFolded {
			text += "; in a row \"free\": the free components, in tenths"
		}
		text += "\n"
	}
	return text
}
