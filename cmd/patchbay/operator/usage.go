package operator

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const usageLong = `List node-hours by user, project and type of node, from the journal. A project is the
authority of slices, as in policy.yaml.

A node counts from Provision (CreateSliver in API version 2) until it is deleted,
released by an operator, or its lease is over. A node that is still held counts until
--until, or now. A reservation that was never provisioned does not count. The user is the
one that reserved the node. Failed nodes and nodes of slices that were shut down count,
since no other user can have them. AHEAD are the node-hours of reservations that begin
later than now; they are not in NODE-HOURS.

journal_keep in patchbay.yaml limits how far back the journal goes. If that cuts the
period, a note says so.` + listLong

type usageOptions struct {
	listOptions
	from, to string
	CSV      bool
}

func (o *usageOptions) AddFlags(fs *pflag.FlagSet) {
	o.addFlags(fs, "usage")
	o.addPattern(fs, &o.filter.Slice, "slice", "the slice of the nodes")
	o.addPattern(fs, &o.filter.User, "user", "the user that reserved the nodes")
	fs.StringVar(&o.from, "from", "", "TIME at which the period begins, or a duration ago such as 30d (default: the start of this month, in UTC)")
	fs.StringVar(&o.to, "until", "", "TIME at which the period ends, or a duration ago (default: now)")
	fs.BoolVar(&o.CSV, "csv", false, "print comma-separated values")
}

func (o *usageOptions) Validate(args []string) error {
	if o.CSV && o.JSON {
		return errors.New("--csv and --json are two forms; give one")
	}
	if err := o.listOptions.Validate(args); err != nil {
		return err
	}
	return o.readPeriod(time.Now()) // and again when the site's time is known
}

// readPeriod sets the period of the filter.
func (o *usageOptions) readPeriod(now time.Time) (err error) {
	o.filter.Since, o.filter.Until, err = operate.ParsePeriod(o.from, o.to, now)
	return err
}

func (o *usageOptions) Run(ctx context.Context, c command.Console) error {
	h, err := o.client()
	if err != nil {
		return err
	}
	now := h.Now(ctx)
	if err := o.readPeriod(now); err != nil {
		return err
	}
	incomplete, notes := 0, c.Err
	switch {
	case o.CSV:
		incomplete, err = o.printCSV(ctx, h, c.Out)
	case o.JSON:
		err = h.List(ctx, o.list, o.filter, c.Out)
	default:
		incomplete, err = o.printTable(ctx, h, c)
		notes = c.Out
	}
	if err != nil {
		return err
	}
	if note := operate.MissingUsage(o.filter.Since, now, h.Config.JournalKeep, incomplete); note != "" {
		fmt.Fprintln(notes, note)
	}
	return nil
}

func (o *usageOptions) printTable(ctx context.Context, h site.AdminClient, c command.Console) (incomplete int, err error) {
	fmt.Fprintf(c.Out, "From %s until %s:\n\n", display.Time(o.filter.Since), display.Time(o.filter.Until))
	var total operate.Usage
	err = show(ctx, &o.listOptions, c, "No nodes were held.", []string{"PROJECT", "USER", "TYPE", "NODES", "NODE-HOURS", "AHEAD"}, func(t *listTable, u *operate.Usage) {
		total.Nodes += u.Nodes
		total.NodeHours += u.NodeHours
		total.AheadHours += u.AheadHours
		total.Incomplete += u.Incomplete
		t.Row(u.Project, t.name(u.User), cmp.Or(u.Type, "unknown"), fmt.Sprint(u.Nodes), u.Hours(), u.Ahead())
	})
	if err == nil && total.Nodes > 0 {
		fmt.Fprintf(c.Out, "\n%s node-hours of %s.\n", total.Hours(), display.Count(total.Nodes, "node"))
	}
	if err == nil && total.AheadHours > 0 {
		fmt.Fprintf(c.Out, "\n%s node-hours are reserved ahead.\n", total.Ahead())
	}
	return total.Incomplete, err
}

func (o *usageOptions) printCSV(ctx context.Context, h site.AdminClient, out io.Writer) (incomplete int, err error) {
	w := csv.NewWriter(out)
	if err := w.Write(operate.UsageColumns); err != nil {
		return 0, err
	}
	err = site.Rows(ctx, h, o.list, o.filter, func(u *operate.Usage) error {
		incomplete += u.Incomplete
		return w.Write(u.Record())
	})
	w.Flush()
	return incomplete, errors.Join(err, w.Error())
}
