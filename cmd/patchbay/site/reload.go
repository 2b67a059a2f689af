package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/cmd/patchbay/command"
)

const reloadLong = `Make a running server read its inventory and policy again. New components can be
reserved; removed or drained ones accept no new slivers. Existing slivers stay, with the
provider that created them, until they are deleted or their leases end.

It lists the changes, and the existing slivers that differ from the new inventory, with
their slices and the ends of their leases. A mistake in the inventory, a provider or
the policy changes nothing. "patchbay check" shows all this in advance.

After a jump of the host's clock, it also makes the server trust that clock: leases that
are over by it end at once. SIGHUP does not, since other programs send it.

A local testbed that the server has started is restarted if its settings have changed. For
other files, it says which changes need a restart of the server or of the testbed.

SIGHUP makes the server read the same files, and also the certificates and the trust
folder, and log the result.`

type reloadOptions struct{ site command.SiteFlag }

func (o *reloadOptions) AddFlags(fs *pflag.FlagSet) { o.site.AddFlags(fs) }

func (o *reloadOptions) Validate(args []string) error { return command.NoArguments(args) }

func (o *reloadOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	var r site.ReloadReport
	_, err = site.Connect(config).Order(ctx, "/reload", site.ServerCommand{Operator: audit.Operator()}, &r)
	if errors.Is(err, site.ErrNotServed) {
		return fmt.Errorf("the site is not served; it reads its inventory when it starts. See what changes for slivers with: %s", o.site.Hint("check"))
	}
	if err != nil {
		return err
	}
	if len(r.Wrong) > 0 {
		return fmt.Errorf("nothing has changed, because of these mistakes:\n%s", strings.Join(r.Wrong, "\n"))
	}
	printReload(c.Out, &r)
	return nil
}

// printReload prints what has changed, and the new consequences for slivers.
func printReload(out io.Writer, r *site.ReloadReport) {
	if r.Clock != "" {
		fmt.Fprintf(out, "Leases follow the host's clock again: it is %s.\n", r.Clock)
	}
	if len(r.Changes) == 0 {
		fmt.Fprintln(out, "The inventory has not changed.")
	} else {
		fmt.Fprintln(out, "The server uses the new inventory. Changes:")
	}
	for _, c := range r.Changes {
		fmt.Fprintf(out, "  %s\n", display.Printable(c.String()))
	}
	if r.MoreChanges > 0 {
		fmt.Fprintf(out, "  and %d more.\n", r.MoreChanges)
	}
	for _, l := range r.Later {
		fmt.Fprintf(out, "%-8s %s: %s\n", "note", display.Printable(l.Where), display.Printable(l.Text))
	}
	for _, o := range r.Unmanaged {
		fmt.Fprintf(out, "%-8s %s\n", "warning", display.Printable(o.String()))
	}
	switch {
	case len(r.Consequences) == 0 && r.OldConsequences > 0:
		fmt.Fprintf(out, "There are no new consequences for slivers; patchbay check lists %s as before.\n", display.Count(r.OldConsequences, "consequence"))
		return
	case len(r.Consequences) == 0:
		fmt.Fprintln(out, "No existing sliver differs from the inventory.")
		return
	}
	fmt.Fprintln(out, "Existing slivers that differ from the inventory; all stay as they are:")
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
		fmt.Fprintf(out, "  as before: %s, which patchbay check lists\n", display.Count(r.OldConsequences, "consequence"))
	}
}
