package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/service/maintenance"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
)

const maintenanceLong = `Plan maintenance of components, given by name, as ranges such as pc1..pc4 or by URN, or of
the whole site (--all). --reason is one line for experimenters.

During maintenance the components are advertised as unavailable and get no new slivers; a
request for one of them is answered with 11 (UNAVAILABLE) and the reason. New leases end
when it begins. Slivers with longer leases are listed here and stay: contact their users,
or release them. Over reservations that begin later it is refused with their list; with
--over they begin at its end, after it has asked. Without a terminal, this needs --yes.

Without arguments, list planned maintenance with numbers; --lift NUMBER cancels or ends
it. The remaining entries are renumbered; give all numbers at once: --lift 1,2.

A TIME is written 2030-01-31T12:00:00Z, or "tomorrow 9:00" in your time zone, or is a
duration from now, such as 2h or 3d.`

type maintenanceOptions struct {
	site        command.SiteFlag
	All         bool
	From, Until string
	For         string
	Reason      string
	Lift        []int
	Over, Yes   bool

	order operate.MaintenanceOrder
}

func (o *maintenanceOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.BoolVar(&o.All, "all", false, "the whole site")
	fs.StringVar(&o.From, "from", "", "TIME at which it begins (default: now)")
	fs.StringVar(&o.Until, "until", "", "TIME at which it ends")
	fs.StringVar(&o.For, "for", "", "how long it lasts, such as 4h, instead of --until")
	fs.StringVar(&o.Reason, "reason", "", "a reason of one line for experimenters")
	fs.BoolVar(&o.Over, "over", false, "also over reservations that begin later")
	fs.BoolVar(&o.Yes, "yes", false, "with --over, do not ask")
	fs.IntSliceVar(&o.Lift, "lift", nil, "cancel or end the entry with this NUMBER in the list, or several, such as 1,2")
}

func (o *maintenanceOptions) Validate(args []string) (err error) {
	timed := o.From != "" || o.Until != "" || o.For != "" || o.Reason != ""
	if o.site.Flags.Changed("lift") {
		if len(o.Lift) == 0 || slices.Min(o.Lift) < 1 {
			return fmt.Errorf("--lift takes numbers of the list, from 1")
		}
		if timed || o.All {
			return fmt.Errorf("--lift goes with no other flag")
		}
		o.order = operate.MaintenanceOrder{Event: operate.CancelMaintenance, Numbers: o.Lift}
		return command.NoArguments(args)
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
	case o.Reason == "" && !o.site.Flags.Changed("reason"):
		return fmt.Errorf("add --reason TEXT for experimenters")
	case o.Until == "" && o.For == "":
		return fmt.Errorf("the end is missing; add --until TIME, or --for DURATION")
	case o.Until != "" && o.For != "":
		return fmt.Errorf("--until and --for both set the end; give one")
	}
	o.order = operate.MaintenanceOrder{Event: operate.PlanMaintenance, Components: args, Text: o.Reason, Over: o.Over && o.Yes}
	if err := maintenance.CheckText(o.Reason); err != nil {
		return err
	}
	return o.readTimes(time.Now()) // and again when the site's time is known
}

// readTimes sets the beginning and end of the planned maintenance.
func (o *maintenanceOptions) readTimes(now time.Time) (err error) {
	w, now := &o.order, now.UTC().Truncate(time.Second)
	if w.From, err = operate.ParseFuture("--from", withZone(o.From, now), now); err != nil {
		return err
	}
	if o.For != "" {
		d, err := display.ParseDuration(o.For)
		if err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		w.Until = w.From.Add(d.Truncate(time.Second))
	} else if w.Until, err = operate.ParseFuture("--until", withZone(o.Until, now), now); err != nil {
		return err
	}
	if !w.Until.After(w.From) {
		return fmt.Errorf("the end %s is not after the beginning %s", w.Until.Format(time.RFC3339), w.From.Format(time.RFC3339))
	}
	return nil
}

func (o *maintenanceOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	switch o.order.Event {
	case "":
		return o.list(ctx, c, config)
	case operate.PlanMaintenance:
		if err := o.readTimes(config.Now(ctx)); err != nil {
			return err
		}
	}
	r, served, err := changeMaintenance(ctx, c, config, o.order)
	if err != nil && o.Over && !o.Yes && strings.Contains(err.Error(), "with --over") {
		fmt.Fprintln(c.Out, display.Printable(err.Error()))
		if err = askOver(c, "Plan it?"); err == nil {
			o.order.Over = true
			r, served, err = changeMaintenance(ctx, c, config, o.order)
		}
	}
	if err != nil {
		return err
	}
	if r.Window != nil {
		reportAdded(c, &r)
	} else {
		for _, line := range r.Changed {
			fmt.Fprintf(c.Out, "Lifted: %s\n", line)
		}
	}
	if !served {
		fmt.Fprintln(c.Out, "The server is not running; this takes effect at its next start.")
	}
	return nil
}

// reportAdded prints the planned maintenance, and the slices whose leases end after it begins.
func reportAdded(c command.Console, r *operate.MaintenanceResult) {
	w := r.Window
	fmt.Fprintf(c.Out, "Maintenance %d is planned, of %s, from %s until %s.\n", r.Number, w.Where(), w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339))
	fmt.Fprintf(c.Out, "Experimenters get the reason: %s\n", w.Text)
	affected := slices.DeleteFunc(r.State.Affected, func(s operate.AffectedSlice) bool { return s.Planned != r.Number-1 })
	if len(affected) == 0 {
		fmt.Fprintln(c.Out, "No lease reaches into it.")
		return
	}
	fmt.Fprintln(c.Out, "Leases of these slices end later; their slivers stay:")
	for _, s := range affected {
		fmt.Fprintln(c.Out, "  "+s.String())
	}
}

// list prints the planned windows, numbered from 1.
func (o *maintenanceOptions) list(ctx context.Context, c command.Console, config *site.Config) error {
	s, _, err := site.ReadMaintenanceState(ctx, config)
	if err != nil {
		return err
	}
	if len(s.Planned) == 0 {
		fmt.Fprintln(c.Out, "No maintenance is planned.")
		return nil
	}
	now := config.Now(ctx)
	t := &command.Table{Out: c.Out}
	for i, w := range s.Planned {
		when := command.Distance(w.From.Sub(now))
		switch {
		case !w.Until.After(now):
			when = "over"
		case w.IsInForce(now):
			when = "now"
		}
		t.Row(fmt.Sprint(i+1), when, display.Time(w.From)+" to "+display.Time(w.Until), w.Where(), w.Text)
		for _, r := range s.Affected {
			if r.Planned == i {
				t.Row("", "reaches into it: "+r.String())
			}
		}
	}
	return t.Flush("")
}
