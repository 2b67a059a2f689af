package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/operate"
)

const journalLong = `List what was done, by whom, to which slice: the calls that changed something, what
the aggregate did itself (lease over, gave up, lost), and what operators did. The
latest 100 entries are listed, the latest one last; --limit asks for more. The
argument means slices.

The journal is a part of the store; the audit beside it is for those who have to
answer for an address, see who.` + listLong

// journalEvents says what events are called, to those who find none.
const journalEvents = `Events are called as the calls: Allocate, Provision, Renew, Delete, Shutdown, geni_start;
or lease over, done, gave up, lost, drift; or as the commands: thaw, drain, undrain,
lockdown, maintenance, restore. What release gives back is called Delete.`

type journalOptions struct{ listOptions }

func (o *journalOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "journal")
	fs.Lookup("limit").DefValue, o.filter.Limit = "100", 100
	o.argument = &o.filter.Slice
	o.addPattern(fs, &o.filter.Slice, "slice", "the slice, as the argument")
	o.addPattern(fs, &o.filter.Sliver, "sliver", "the URN of a sliver")
	o.addPattern(fs, &o.filter.User, "user", "who did it, or of an operator")
	o.addPattern(fs, &o.filter.State, "event", "what was done, such as Allocate or thaw")
	o.addSpan(fs)
}

func (o *journalOptions) Run(ctx context.Context, c console) error {
	head := []string{"TIME", "EVENT", "BY", "SLICE", "SLIVERS"}
	if o.Wide {
		head = append(head, "SPEAKER", "FROM", "REQUEST", "ID")
	}
	head = append(head, "TEXT")
	nothing := "The journal has no such entry."
	if o.filter.State != "" {
		nothing += "\n" + journalEvents
	}
	return show(ctx, &o.listOptions, c, nothing, head, func(t *table, e *operate.Entry) {
		by := t.name(e.Caller)
		if e.Operator != "" {
			by = "operator " + e.Operator
		}
		cells := []string{display.Time(e.At), e.Event, cmp.Or(by, "the site"), t.name(e.Slice), fmt.Sprint(len(e.Slivers))}
		if o.Wide {
			cells = append(cells, t.name(e.Speaker), e.Remote, e.Request, e.ID)
		}
		text := t.cut(e.Text, 60)
		if e.Times > 1 {
			text += fmt.Sprintf(", %d times since %s", e.Times, display.Time(e.Since))
		}
		t.row(append(cells, text)...)
	})
}
