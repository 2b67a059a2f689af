package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/nameset"
)

const maintenanceLong = `Plan maintenance of components, given by name, as ranges such as pc1..pc4 or by URN, or of
the whole site (--all). --reason is one line for experimenters.

During maintenance the components are advertised as unavailable and get no new slivers; a
request for one of them is answered with 11 (UNAVAILABLE) and the reason. New leases end
when it begins. Slivers with longer leases are listed here and stay: contact their users,
or release them.

Without arguments, list planned maintenance with numbers; --lift NUMBER cancels or ends
it. The remaining entries are renumbered; give all numbers at once: --lift 1,2.

A TIME is written 2030-01-31T12:00:00Z, with its zone, or is a duration from now, such as
2h or 3d.`

type maintenanceOptions struct {
	site        siteFlag
	All         bool
	From, Until string
	For         string
	Reason      string
	Lift        []int

	window maintenance.Window
	lifted []*maintenance.Window // cancelled by --lift
}

func (o *maintenanceOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.All, "all", false, "the whole site")
	fs.StringVar(&o.From, "from", "", "TIME at which it begins (default: now)")
	fs.StringVar(&o.Until, "until", "", "TIME at which it ends")
	fs.StringVar(&o.For, "for", "", "how long it lasts, such as 4h, instead of --until")
	fs.StringVar(&o.Reason, "reason", "", "a reason of one line for experimenters")
	fs.IntSliceVar(&o.Lift, "lift", nil, "cancel or end the entry with this NUMBER in the list, or several, such as 1,2")
}

func (o *maintenanceOptions) Validate(args []string) (err error) {
	timed := o.From != "" || o.Until != "" || o.For != "" || o.Reason != ""
	if o.site.flags.Changed("lift") {
		if len(o.Lift) == 0 || slices.Min(o.Lift) < 1 {
			return fmt.Errorf("--lift takes numbers of the list, from 1")
		}
		if timed || o.All {
			return fmt.Errorf("--lift goes with no other flag")
		}
		return noArguments(args)
	}
	if err := onlyComponents(args); err != nil {
		return err
	}
	switch {
	case len(args) == 0 && !timed && !o.All:
		return nil
	case len(args) == 0 && !o.All:
		return fmt.Errorf("name the components, such as pc1, or pc1..pc4, or give --all for the whole site")
	case len(args) > 0 && o.All:
		return fmt.Errorf("--all is the whole site; name no components with it; the reason goes after --reason")
	case o.Reason == "" && !o.site.flags.Changed("reason"):
		return fmt.Errorf("add --reason TEXT for experimenters")
	case o.Until == "" && o.For == "":
		return fmt.Errorf("the end is missing; add --until TIME, or --for DURATION")
	case o.Until != "" && o.For != "":
		return fmt.Errorf("--until and --for both set the end; give one")
	}
	o.window = maintenance.Window{Components: args, Text: o.Reason}
	if err := maintenance.CheckText(o.window.Text); err != nil {
		return err
	}
	return o.readTimes(time.Now()) // and again when the site's time is known
}

func (o *maintenanceOptions) readTimes(now time.Time) (err error) {
	w, now := &o.window, now.UTC().Truncate(time.Second)
	if w.From, err = parseFuture("--from", o.From, now); err != nil {
		return err
	}
	if o.For != "" {
		d, err := display.ParseDuration(o.For)
		if err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		w.Until = w.From.Add(d.Truncate(time.Second))
	} else if w.Until, err = parseFuture("--until", o.Until, now); err != nil {
		return err
	}
	if !w.Until.After(w.From) {
		return fmt.Errorf("the end %s is not after the beginning %s", w.Until.Format(time.RFC3339), w.From.Format(time.RFC3339))
	}
	return nil
}

func (o *maintenanceOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	var plan *maintenance.Plan
	switch {
	case len(o.Lift) > 0:
		plan, err = o.lift(config)
	case o.window.Text != "":
		plan, err = o.add(config, config.Now(ctx))
	default:
		return o.list(ctx, c, config)
	}
	if err != nil {
		return err
	}
	o.record(ctx, c, config)
	state, served, err := awaitPlan(ctx, config, plan)
	if err != nil {
		return err
	}
	for _, w := range o.lifted {
		fmt.Fprintf(c.out, "Lifted: %s\n", windowLine(w))
	}
	if o.lifted == nil {
		o.reportAdded(c, plan, state)
	}
	if !served {
		fmt.Fprintln(c.out, "The server is not running; this takes effect at its next start.")
	}
	return nil
}

func (o *maintenanceOptions) record(ctx context.Context, c console, config *site.Config) {
	for _, w := range o.lifted {
		recordAct(ctx, c, config, "maintenance lifted", windowLine(w))
	}
	if o.lifted == nil {
		recordAct(ctx, c, config, "maintenance", windowLine(&o.window))
	}
}

func windowLine(w *maintenance.Window) string {
	return fmt.Sprintf("%s, %s to %s: %s", site.WindowText(w), w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339), w.Text)
}

// add also removes past windows.
func (o *maintenanceOptions) add(config *site.Config, now time.Time) (*maintenance.Plan, error) {
	inv, err := config.LoadInventory()
	if err != nil {
		return nil, err
	}
	if err := o.resolveComponents(inv); err != nil {
		return nil, err
	}
	if err := o.readTimes(now); err != nil {
		return nil, err
	}
	if !o.window.Until.After(now) {
		return nil, fmt.Errorf("the end %s is in the past", o.window.Until.Format(time.RFC3339))
	}
	return maintenance.Change(config.Maintenance, func(d *maintenance.Draft) error {
		d.Remove(func(w *maintenance.Window) bool { return !w.Until.After(now) })
		d.Add(o.window)
		return nil
	})
}

// resolveComponents replaces ranges and URNs by names. It fails for an unknown component.
func (o *maintenanceOptions) resolveComponents(inv *inventory.Inventory) error {
	var all []string
	for _, written := range o.window.Components {
		names, err := componentsOf(inv, written, len(inv.Components)+1, true)
		if err != nil {
			return err
		}
		all = append(all, names...)
	}
	o.window.Components = nameset.Fold(all)
	return nil
}

func (o *maintenanceOptions) lift(config *site.Config) (*maintenance.Plan, error) {
	return maintenance.Change(config.Maintenance, func(d *maintenance.Draft) error {
		n := len(d.Plan.Planned)
		if n == 0 {
			return errors.New("no maintenance is planned")
		}
		if most := slices.Max(o.Lift); most > n {
			return fmt.Errorf("there is no number %d; the list has %d", most, n)
		}
		for i, w := range d.Plan.Planned {
			if slices.Contains(o.Lift, i+1) {
				o.lifted = append(o.lifted, w)
			}
		}
		d.Remove(func(w *maintenance.Window) bool { return slices.Contains(o.lifted, w) })
		return nil
	})
}

// reportAdded also prints the slices whose leases end after the window begins.
func (o *maintenanceOptions) reportAdded(c console, p *maintenance.Plan, s site.MaintenanceState) {
	last := len(p.Planned) - 1
	w := p.Planned[last]
	fmt.Fprintf(c.out, "Maintenance %d is planned, of %s, from %s until %s.\n", last+1, site.WindowText(w), w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339))
	fmt.Fprintf(c.out, "Experimenters get the reason: %s\n", w.Text)
	affected := slices.DeleteFunc(slices.Clone(s.Affected), func(r site.AffectedSlice) bool { return r.Planned != last })
	if len(affected) == 0 {
		fmt.Fprintln(c.out, "No lease reaches into it.")
		return
	}
	fmt.Fprintln(c.out, "Leases of these slices end later; their slivers stay:")
	for _, r := range affected {
		fmt.Fprintln(c.out, "  "+r.String())
	}
}

// list numbers the planned windows from 1.
func (o *maintenanceOptions) list(ctx context.Context, c console, config *site.Config) error {
	p, err := maintenance.Read(config.Maintenance)
	if err != nil {
		return err
	}
	if len(p.Planned) == 0 {
		fmt.Fprintln(c.out, "No maintenance is planned.")
		return nil
	}
	s, served, err := site.ReadMaintenanceState(ctx, config, p)
	if err != nil {
		return err
	}
	now := config.Now(ctx)
	t := &table{out: c.out}
	for i, w := range p.Planned {
		when := distance(w.From.Sub(now))
		switch {
		case !w.Until.After(now):
			when = "over"
		case w.IsInForce(now):
			when = "now"
		}
		t.row(fmt.Sprint(i+1), when, display.Time(w.From)+" to "+display.Time(w.Until), site.WindowText(w), w.Text)
		for _, r := range s.Affected {
			if r.Planned == i {
				t.row("", "reaches into it: "+r.String())
			}
		}
	}
	if err := t.flush(""); err != nil || !served {
		return err
	}
	return s.CheckApplied(p, config)
}
