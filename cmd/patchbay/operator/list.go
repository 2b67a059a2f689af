package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
	"patchbay/inventory/nameset"
)

// listOptions are shared by all lists.
type listOptions struct {
	site   command.SiteFlag
	list   string // the list's name at the server
	JSON   bool
	Wide   bool
	URNs   bool
	Backup string

	filter                   operate.Filter
	since, until, endsBefore string
	argument                 *string  // the pattern for the command's argument; nil if it takes none
	stateFlagName            string   // the flag of filter.State
	states                   []string // the values of filter.State; nil for any
}

func (o *listOptions) addFlags(fs *pflag.FlagSet, list string) {
	o.list = list
	o.site.AddFlags(fs)
	fs.BoolVar(&o.JSON, "json", false, "print one JSON object a line")
	fs.BoolVar(&o.Wide, "wide", false, "print more columns, and whole texts")
	fs.BoolVar(&o.URNs, "urns", false, "print URNs instead of names")
	fs.StringVar(&o.Backup, "backup", "", "read this backup instead of the site")
	fs.IntVar(&o.filter.Limit, "limit", 0, "the maximum number of rows; 0 for all")
}

func (o *listOptions) addPattern(fs *pflag.FlagSet, field *string, name, object string) {
	fs.StringVar(field, name, "", "PATTERN of "+object)
}

func (o *listOptions) addStates(fs *pflag.FlagSet, name string, words []string) {
	o.stateFlagName, o.states = name, words
	fs.StringVar(&o.filter.State, name, "", "one of: "+strings.Join(words, ", "))
}

func (o *listOptions) Validate(args []string) (err error) {
	switch {
	case len(args) > 0 && o.argument == nil:
		return errors.New("it takes no argument; use flags to select rows")
	case len(args) > 0 && *o.argument != "":
		return fmt.Errorf("%q and a flag give the same pattern; give one", args[0])
	case len(args) > 0:
		*o.argument = strings.Join(args, ",")
	}
	for s := range strings.SplitSeq(o.filter.State, ",") {
		if s == "" || o.states == nil || slices.Contains(o.states, s) {
			continue
		}
		hint := "there are " + strings.Join(o.states, ", ")
		if near := display.Suggest(s, o.states); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return fmt.Errorf("there is no %s %q; %s", o.stateFlagName, s, hint)
	}
	for name := range strings.SplitSeq(o.filter.Component, ",") {
		if err := checkRange(name); err != nil {
			return err
		}
	}
	if o.filter.Limit < 0 {
		return fmt.Errorf("--limit is %d; it must be a number of rows, or 0 for all", o.filter.Limit)
	}
	return o.readTimes(time.Now()) // and again when the site's time is known
}

// checkRange fails for a range that runs backwards, such as pc4..pc1.
func checkRange(name string) error {
	from, to, isRange := strings.Cut(name, "..")
	if r, _ := nameset.Parse(name); !isRange || r.Len() > 0 {
		return nil
	}
	stem := strings.TrimRight(from, "0123456789")
	if r, _ := nameset.Parse(stem + strings.TrimPrefix(to, stem) + ".." + from); r.Len() > 0 {
		return fmt.Errorf("the range %s runs backwards; write %s%s..%s", name, stem, strings.TrimPrefix(to, stem), from)
	}
	return nil
}

// addSpan adds --since and --until. The parameter events describes the selected events,
// such as "slivers created".
func (o *listOptions) addSpan(fs *pflag.FlagSet, events string) {
	fs.StringVar(&o.since, "since", "", "only "+events+" after this TIME, or a duration ago such as 2h")
	fs.StringVar(&o.until, "until", "", "only "+events+" before this TIME, or a duration ago")
}

func (o *listOptions) FlagWords() map[string]command.Completer {
	return map[string]command.Completer{o.stateFlagName: command.SomeOf(o.states...)}
}

const listLong = `

It works with and without a running server. For PATTERN and TIME see: patchbay help
patterns. --json prints one JSON object a line; the names of its fields do not change.`

// readTimes sets the times of the filter. Durations are relative to now.
func (o *listOptions) readTimes(now time.Time) (err error) {
	if o.since != "" {
		if o.filter.Since, err = operate.ParsePast("--since", o.since, now); err != nil {
			return err
		}
	}
	if o.until != "" {
		if o.filter.Until, err = operate.ParsePast("--until", o.until, now); err != nil {
			return err
		}
	}
	if o.endsBefore != "" {
		o.filter.EndsBefore, err = operate.ParseFuture("--ends-before", o.endsBefore, now)
	}
	return err
}

func (o *listOptions) addEndsBefore(fs *pflag.FlagSet) {
	fs.StringVar(&o.endsBefore, "ends-before", "", "only leases that end before this TIME, or a duration from now such as 2h")
}

// client returns a client of the site, or of the backup of --backup.
func (o *listOptions) client() (site.AdminClient, error) {
	config, err := o.site.Read()
	return site.ConnectBackup(config, o.Backup), err
}

// show prints a list as JSON or as a table. The function row adds an entry to the table. If
// the list is empty, show prints emptyText.
func show[T any](ctx context.Context, o *listOptions, c command.Console, emptyText string, head []string, row func(*listTable, *T)) error {
	h, err := o.client()
	if err != nil {
		return err
	}
	now := h.Now(ctx)
	if err := o.readTimes(now); err != nil {
		return err
	}
	if o.JSON {
		return h.List(ctx, o.list, o.filter, c.Out)
	}
	t := newTable(c.Out, o, now)
	t.Head(head...)
	if err := site.Rows(ctx, h, o.list, o.filter, func(r *T) error { row(t, r); return nil }); err != nil {
		return err
	}
	if o.filter == (operate.Filter{Limit: o.filter.Limit}) && strings.HasPrefix(emptyText, "There is no such") {
		emptyText = fmt.Sprintf("There are no %s.", o.list)
	}
	return t.Flush(emptyText)
}
