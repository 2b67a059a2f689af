package operator

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const usageLong = `List node-hours by user and project, from the journal. A project is the authority of
slices, as in policy.yaml.

A node counts from Provision (CreateSliver in API version 2) until it is deleted,
released by an operator, or its lease is over. A node that is still held counts until
--until, or now. A reservation that was never provisioned does not count. The user is the
one that reserved the node. Failed nodes and nodes of slices that were shut down count,
since no other user can have them.

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

// readPeriod sets the period of the filter: by default this month until now.
func (o *usageOptions) readPeriod(now time.Time) (err error) {
	if o.filter.Since, err = parsePast("--from", o.from, now); err != nil {
		return err
	}
	if o.from == "" {
		year, month, _ := now.UTC().Date()
		o.filter.Since = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.filter.Until, err = parsePast("--until", o.to, now); err != nil {
		return err
	}
	if o.to == "" {
		o.filter.Until = now
	}
	if !o.filter.Until.After(o.filter.Since) {
		return fmt.Errorf("--from is %s, which is not before --until, %s", display.Time(o.filter.Since), display.Time(o.filter.Until))
	}
	return nil
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
	if note := o.missing(now, h.Config.JournalKeep, incomplete); note != "" {
		fmt.Fprintln(notes, note)
	}
	return nil
}

func (o *usageOptions) printTable(ctx context.Context, h site.AdminClient, c command.Console) (incomplete int, err error) {
	fmt.Fprintf(c.Out, "From %s until %s:\n\n", display.Time(o.filter.Since), display.Time(o.filter.Until))
	var total operate.Usage
	err = show(ctx, &o.listOptions, c, "No nodes were held.", []string{"PROJECT", "USER", "NODES", "NODE-HOURS"}, func(t *listTable, u *operate.Usage) {
		total.Nodes += u.Nodes
		total.NodeHours += u.NodeHours
		total.Incomplete += u.Incomplete
		t.Row(u.Project, t.name(u.User), fmt.Sprint(u.Nodes), hours(u.NodeHours))
	})
	if err == nil && total.Nodes > 0 {
		fmt.Fprintf(c.Out, "\n%s node-hours of %s.\n", hours(total.NodeHours), display.Count(total.Nodes, "node"))
	}
	return total.Incomplete, err
}

func (o *usageOptions) printCSV(ctx context.Context, h site.AdminClient, out io.Writer) (incomplete int, err error) {
	w := csv.NewWriter(out)
	if err := w.Write([]string{"project", "user", "nodes", "node_hours"}); err != nil {
		return 0, err
	}
	err = site.Rows(ctx, h, o.list, o.filter, func(u *operate.Usage) error {
		incomplete += u.Incomplete
		return w.Write([]string{display.Line(u.Project), display.Line(u.User.String()), fmt.Sprint(u.Nodes), hours(u.NodeHours)})
	})
	w.Flush()
	return incomplete, errors.Join(err, w.Error())
}

func hours(h float64) string { return fmt.Sprintf("%.2f", h) }

// missing describes usage that the journal no longer has, or returns "".
func (o *usageOptions) missing(now time.Time, keep time.Duration, incomplete int) string {
	var parts []string
	if begin := now.Add(-keep); keep > 0 && o.filter.Since.Before(begin) {
		parts = append(parts, "nodes released before "+display.Time(begin)+" are not counted")
	}
	if incomplete > 0 {
		parts = append(parts, "the user and the beginning of "+display.Count(incomplete, "node")+" are unknown, so the time counts from the journal's first entry")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("Note: the journal does not have the whole period (journal_keep is %s): %s.", display.Duration(keep), strings.Join(parts, "; "))
}
