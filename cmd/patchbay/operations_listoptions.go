package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/operate"
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

const listLong = `

The site may be served or not. A PATTERN is a name or a URN, in which * stands for
any text and ? for one character; a name without them that is not there is an
error. Several stand with spaces or commas between; components may be ranges such
as pc1..pc4, and slivers are named SLICE/CLIENT_ID. Times are in UTC; a TIME is written 2030-01-31T12:00:00Z, with its zone, or
is a while from now such as 2h, or of --since and --until a while ago.

--json prints one JSON object a line; the names of its fields stay as they are.`

// readTimes reads times that may be some while from now.
func (o *listOptions) readTimes(now time.Time) (err error) {
	if o.filter.Since, err = ago("--since", o.since, now); err != nil {
		return err
	}
	if o.filter.Until, err = ago("--until", o.until, now); err != nil {
		return err
	}
	if o.endsBefore != "" {
		o.filter.EndsBefore, err = parseMoment("--ends-before", o.endsBefore, now)
	}
	return err
}
