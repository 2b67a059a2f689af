package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/service/maintenance"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const lockdownLong = `Refuse new reservations: Allocate, Provision and CreateSliver answer 11 (UNAVAILABLE) with
the reason, and everything is advertised as unavailable. Running nodes and their logins
continue; users can renew, restart, update and delete them. --reason should say what
happens, and until when.

When the command returns, no new work begins: earlier calls were answered, or will be
refused. This survives restarts, until --lift.

Without --reason, show whether the site is locked down.`

type lockdownOptions struct {
	site command.SiteFlag
	Lift bool
	Text string
}

func (o *lockdownOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Lift, "lift", false, "accept new reservations again")
	fs.StringVar(&o.Text, "reason", "", "a reason of one line for experimenters")
}

func (o *lockdownOptions) Validate(args []string) (err error) {
	given := o.site.Flags.Changed("reason")
	switch {
	case len(args) > 0:
		return fmt.Errorf("it takes no argument, not %q; to lock the site down: --reason %s", args[0], display.ShellWord(strings.Join(args, " ")))
	case o.Lift && given:
		return errors.New("--lift ends a lockdown, and --reason begins one; give one")
	case !given:
		return nil
	}
	return maintenance.CheckText(o.Text)
}

func (o *lockdownOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	switch {
	case o.Lift:
		return o.lift(ctx, c, config)
	case o.Text == "":
		return o.show(ctx, c, config)
	}
	r, served, err := changeMaintenance(ctx, c, config, operate.MaintenanceOrder{Event: operate.LockDown, Text: o.Text})
	if err != nil {
		return err
	}
	if served {
		fmt.Fprintln(c.Out, "New reservations are refused from now on.")
	} else {
		fmt.Fprintln(c.Out, "The server is not running. From its next start on, new reservations are refused.")
	}
	fmt.Fprintf(c.Out, "Experimenters get the answer (code 11): %s\n", o.Text)
	fmt.Fprintf(c.Out, "Existing nodes continue: %s of %s.\n", display.Count(r.State.Slivers, "sliver"), display.Count(r.State.Slices, "slice"))
	if r.State.Reserved > 0 {
		fmt.Fprintf(c.Out, "Reservations cannot be provisioned meanwhile, and end unless they are renewed: %s.\n", display.Count(r.State.Reserved, "sliver"))
	}
	if r.State.Waiting > 0 {
		fmt.Fprintf(c.Out, "Reservations ahead wait meanwhile, but not beyond their ends: %s.\n", display.Count(r.State.Waiting, "sliver"))
	}
	fmt.Fprintf(c.Out, "To accept new reservations again: %s\n", o.site.Hint("lockdown", "--lift"))
	return nil
}

func (o *lockdownOptions) lift(ctx context.Context, c command.Console, config *site.Config) error {
	r, served, err := changeMaintenance(ctx, c, config, operate.MaintenanceOrder{Event: operate.LiftLockdown})
	switch {
	case err != nil:
		return err
	case len(r.Changed) == 0:
		fmt.Fprintln(c.Out, "The site was not locked down.")
	case served:
		fmt.Fprintln(c.Out, "New reservations are accepted again.")
	default:
		fmt.Fprintln(c.Out, "The server is not running. From its next start on, new reservations are accepted again.")
	}
	return nil
}

func (o *lockdownOptions) show(ctx context.Context, c command.Console, config *site.Config) error {
	state, served, err := site.ReadMaintenanceState(ctx, config)
	if err != nil {
		return err
	}
	if l := state.Lockdown; l != nil {
		since := ""
		if !l.Since.IsZero() {
			since = " since " + l.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(c.Out, "New reservations are refused%s. Experimenters get the answer (code 11): %s\n", since, l.Text)
	} else {
		fmt.Fprintln(c.Out, "The site is not locked down.")
	}
	if !served {
		fmt.Fprintln(c.Out, "The server is not running.")
	}
	return nil
}
