package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/am/site"
)

const lockdownLong = `Take no new work: Allocate, Provision and CreateSliver answer 11 (UNAVAILABLE) with
the reason, and everything is advertised as unavailable. What runs goes on, with its
logins; it can be renewed, restarted, given users, and deleted. Say in --reason what
goes on, and until when.

When the command returns, nothing new is begun any more: a call that came before
has been answered, or will be refused. That holds over restarts, until --lift.

Without --reason it says whether the site is locked down.`

type lockdownOptions struct {
	site siteFlag
	Lift bool
	Text string
}

func (o *lockdownOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.Lift, "lift", false, "take new work again")
	fs.StringVar(&o.Text, "reason", "", "why, in a line for experimenters")
}

func (o *lockdownOptions) Validate(args []string) (err error) {
	given := o.site.flags.Changed("reason")
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

func (o *lockdownOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	switch {
	case o.Lift:
		return o.lift(ctx, c, config)
	case o.Text == "":
		return o.show(ctx, c, config)
	}
	now := config.Now(ctx)
	plan, err := maintenance.Change(config.Maintenance, func(d *maintenance.Draft) error {
		l := maintenance.Lockdown{Text: o.Text, Since: now}
		if before := d.Plan.Lockdown; before != nil && !before.Since.IsZero() {
			l.Since = before.Since
		}
		d.SetLockdown(l)
		return nil
	})
	if err != nil {
		return err
	}
	noteAct(ctx, c, config, "lockdown", o.Text)
	state, served, err := inForce(ctx, config, plan)
	if err != nil {
		return err
	}
	if served {
		fmt.Fprintln(c.out, "No new work is taken from now on.")
	} else {
		fmt.Fprintln(c.out, "The site is not served. From its next start on, no new work is taken.")
	}
	fmt.Fprintf(c.out, "Experimenters are told (code 11): %s\n", o.Text)
	fmt.Fprintf(c.out, "What runs goes on: %s of %s.\n", display.Count(state.Slivers, "sliver"), display.Count(state.Slices, "slice"))
	if state.Reserved > 0 {
		fmt.Fprintf(c.out, "What is only reserved cannot be provisioned meanwhile, and lapses unless it is renewed: %s.\n", display.Count(state.Reserved, "sliver"))
	}
	fmt.Fprintf(c.out, "To take new work again: %s\n", o.site.hint("lockdown", "--lift"))
	return nil
}

// inForce gives the state of a site whose file was written just now, and makes
// sure that it counts if the site is served.
func inForce(ctx context.Context, config *site.Config, plan *maintenance.Plan) (state site.UpkeepState, served bool, err error) {
	state, served, err = site.UpkeepOf(ctx, config, plan)
	if err == nil && served {
		err = state.Counts(plan, config)
	}
	if err != nil {
		err = fmt.Errorf("it is written into %s, but: %w", config.Maintenance, err)
	}
	return state, served, err
}

func (o *lockdownOptions) lift(ctx context.Context, c console, config *site.Config) error {
	locked := false
	plan, err := maintenance.Change(config.Maintenance, func(d *maintenance.Draft) error {
		locked = d.Plan.Lockdown != nil
		d.LiftLockdown()
		return nil
	})
	if err != nil {
		return err
	}
	if locked {
		noteAct(ctx, c, config, "lockdown lifted", "")
	}
	_, served, err := inForce(ctx, config, plan)
	switch {
	case err != nil:
		return err
	case !locked:
		fmt.Fprintln(c.out, "The site was not locked down.")
	case served:
		fmt.Fprintln(c.out, "New work is taken again.")
	default:
		fmt.Fprintln(c.out, "The site is not served. From its next start on, new work is taken again.")
	}
	return nil
}

func (o *lockdownOptions) show(ctx context.Context, c console, config *site.Config) error {
	plan, err := maintenance.Read(config.Maintenance)
	if err != nil {
		return err
	}
	if l := plan.Lockdown; l != nil {
		since := ""
		if !l.Since.IsZero() {
			since = " since " + l.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(c.out, "No new work is taken%s. Experimenters are told (code 11): %s\n", since, l.Text)
	} else {
		fmt.Fprintln(c.out, "The site is not locked down.")
	}
	state, served, err := site.UpkeepOf(ctx, config, plan)
	if err != nil {
		return err
	}
	if served {
		return state.Counts(plan, config)
	}
	fmt.Fprintln(c.out, "The site is not served.")
	return nil
}
