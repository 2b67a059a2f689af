package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/site"
)

const reloadLong = `Let a served site take over its changed inventory, and read its policy with it. What
was added can be had from now on; what was removed or drained takes nothing new. No
sliver is lost by it: each stays what it was promised, looked after by the provider
that has made it, until it is deleted or its lease is over.

The answer tells what has changed, and what that means for slivers that are there,
with their slices and the ends of their leases. With a mistake in the inventory, its
providers or the policy nothing changes at all. patchbay check tells the same before.

SIGHUP does the same, and tells it in the log.`

type reloadOptions struct{ site siteFlag }

func (o *reloadOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *reloadOptions) Validate(args []string) error { return noArguments(args) }

func (o *reloadOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	var r site.ReloadReport
	err = site.Order(ctx, config, "/reload", site.ServerCommand{Operator: audit.Operator()}, &r)
	if errors.Is(err, site.ErrNotServed) {
		return fmt.Errorf("the site is not served, so there is nothing to reload; it reads the inventory when it starts. What that means for slivers: %s", o.site.hint("check"))
	}
	if err != nil {
		return err
	}
	if len(r.Wrong) > 0 {
		return fmt.Errorf("nothing has changed, for there are mistakes:\n%s", strings.Join(r.Wrong, "\n"))
	}
	printReload(c.out, &r)
	return nil
}

func printReload(out io.Writer, r *site.ReloadReport) {
	if len(r.Changes) == 0 {
		fmt.Fprintln(out, "The inventory is as it was.")
	} else {
		fmt.Fprintln(out, "The inventory is in force. What has changed:")
	}
	for _, c := range r.Changes {
		fmt.Fprintf(out, "  %s\n", display.Printable(c.String()))
	}
	if r.MoreChanges > 0 {
		fmt.Fprintf(out, "  and %d more.\n", r.MoreChanges)
	}
	for _, o := range r.Unmanaged {
		fmt.Fprintf(out, "%-8s %s\n", "warning", display.Printable(o.String()))
	}
	switch {
	case len(r.Consequences) == 0 && r.OldConsequences > 0:
		fmt.Fprintf(out, "It means nothing new for slivers; patchbay check tells %s as before.\n", display.Count(r.OldConsequences, "consequence"))
		return
	case len(r.Consequences) == 0:
		fmt.Fprintln(out, "No sliver is on anything that is otherwise than it was promised.")
		return
	}
	fmt.Fprintln(out, "What it means for slivers that are there, and that all stay as they are:")
	for _, c := range r.Consequences {
		severity := "note"
		if c.Warning {
			severity = "warning"
		}
		fmt.Fprintf(out, "  %-8s %s: %s\n", severity, r.Where(c), display.Printable(c.String()))
	}
	if r.MoreConsequences > 0 {
		fmt.Fprintf(out, "  and %d more.\n", r.MoreConsequences)
	}
	if r.OldConsequences > 0 {
		fmt.Fprintf(out, "  as before: %s, which patchbay check tells\n", display.Count(r.OldConsequences, "consequence"))
	}
}
