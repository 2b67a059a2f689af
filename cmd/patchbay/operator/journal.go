package operator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const journalLong = `List changes with time, user and slice: calls that changed something, changes by the
aggregate, and commands of operators. It lists the latest 100 entries, the latest last;
--limit sets another number. The argument selects slices.

The changes by the aggregate are: done (the work of a call succeeded), gave up (it failed
for good), lost (a resource vanished), drift (a provider's resource differs from the
reservation), lease over, setup step failed, and setup stage ended (on all nodes of a
request).

The journal is in the database. To find the user of an IP address, see patchbay who.` + listLong

const eventsHelp = `Events are named after calls (Allocate, Provision, Renew, Delete, Shutdown, geni_start),
lease over, done, gave up, lost, drift, setup step failed or setup stage ended, and after
commands (thaw, drain, undrain, lockdown, maintenance, restore).
The event of release is Delete.`

type journalOptions struct{ listOptions }

func (o *journalOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "journal")
	fs.Lookup("limit").DefValue, o.filter.Limit = "100", 100
	o.argument = &o.filter.Slice
	o.addPattern(fs, &o.filter.Slice, "slice", "the slice, like the argument")
	o.addPattern(fs, &o.filter.Sliver, "sliver", "the URN of a sliver")
	o.addPattern(fs, &o.filter.User, "user", "the user or operator that did it")
	o.addPattern(fs, &o.filter.State, "event", "the event, such as Allocate or thaw")
	o.addSpan(fs, "entries")
}

func (o *journalOptions) Run(ctx context.Context, c command.Console) error {
	head := []string{"TIME", "EVENT", "BY", "SLICE", "SLIVERS"}
	if o.Wide {
		head = append(head, "SPEAKER", "FROM", "REQUEST", "ID")
	}
	head = append(head, "TEXT")
	nothing := "The journal has no such entry."
	if o.filter.State != "" {
		nothing += "\n" + eventsHelp
	}
	return show(ctx, &o.listOptions, c, nothing, head, func(t *listTable, e *operate.Entry) {
		by := t.name(e.Caller)
		if e.Operator != "" {
			by = "operator " + e.Operator
		}
		cells := []string{display.Time(e.At), e.Event, cmp.Or(by, "the site"), t.name(e.Slice), fmt.Sprint(len(e.Slivers))}
		if o.Wide {
			cells = append(cells, t.name(e.Speaker), e.Remote, e.Request, e.ID)
		}
		text := t.Cut(e.Text, 60)
		if e.Times > 1 {
			text += fmt.Sprintf(", %d times since %s", e.Times, display.Time(e.Since))
		}
		t.Row(append(cells, text)...)
	})
}
