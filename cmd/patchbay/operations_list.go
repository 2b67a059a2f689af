package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/operate"
	"patchbay/am/site"
	"patchbay/inventory/suggest"
)

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
		if o.filter.Since, err = parsePast("--since", o.since, now); err != nil {
			return err
		}
	}
	if o.until != "" {
		if o.filter.Until, err = parsePast("--until", o.until, now); err != nil {
			return err
		}
	}
	if o.endsBefore != "" {
		o.filter.EndsBefore, err = parseFuture("--ends-before", o.endsBefore, now)
	}
	return err
}

func (o *listOptions) addEndsBefore(fs *pflag.FlagSet) {
	fs.StringVar(&o.endsBefore, "ends-before", "", "TIME before which the lease ends, or a while from now such as 2h")
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
