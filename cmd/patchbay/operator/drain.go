package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/service/maintenance"
	"patchbay/am/site"
	"patchbay/am/site/operate"
	"patchbay/cmd/patchbay/command"
	"patchbay/inventory/nameset"
)

const drainLong = `Take components out of service until undrain. They are advertised as unavailable and get
no new slivers; a request for one of them is refused as if another slice held it. Existing slivers
stay, and are listed with their leases: contact their users, or release them. Components
are given by name, as ranges such as pc1..pc4, or by URN.

--move gives reservations that begin later another component of the same kind, unless they
have links or their users named the component.

--reason is a note for other operators. Without arguments, list drained components.

The maintenance file stores the drained components, so they survive restarts. The command
works with and without a running server.`

const undrainLong = `Put drained components back into service. For components that are drained in the
inventory it names the file to change.`

type drainOptions struct {
	site       command.SiteFlag
	lift       bool // undrain
	Components []string
	Text       string
	Move       bool
}

func (o *drainOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Text, "reason", "", "a note of one line for other operators and the journal")
	if !o.lift {
		fs.BoolVar(&o.Move, "move", false, "move reservations that begin later to other components")
	}
}

func (o *drainOptions) Validate(args []string) error {
	if err := onlyComponents(args); err != nil {
		return err
	}
	if o.Text != "" || o.site.Flags.Changed("reason") {
		if err := maintenance.CheckText(o.Text); err != nil {
			return err
		}
	}
	switch o.Components = args; {
	case len(args) > 0:
		return nil
	case o.lift:
		return fmt.Errorf("name the components to put back into service, such as pc1, or pc1..pc4")
	case o.Text != "":
		return fmt.Errorf("name components, such as pc1, or pc1..pc4; for the whole site: patchbay lockdown")
	}
	return nil
}

// onlyComponents fails for an argument with a space. Names of components have no spaces.
func onlyComponents(args []string) error {
	for _, a := range args {
		if strings.Contains(a, " ") {
			return fmt.Errorf("%q names no component; for a note: --reason %s", a, display.ShellWord(a))
		}
	}
	return nil
}

func (o *drainOptions) Run(ctx context.Context, c command.Console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	if len(o.Components) == 0 {
		return o.show(ctx, c, config)
	}
	order := operate.MaintenanceOrder{Event: operate.Drain, Components: o.Components, Text: o.Text}
	if o.lift {
		order.Event = operate.Undrain
	}
	r, served, err := changeMaintenance(ctx, c, config, order)
	if err != nil {
		return err
	}
	if o.lift {
		err = reportLifted(c, &r)
	} else {
		if len(r.Unchanged) > 0 {
			fmt.Fprintf(c.Out, "Already drained: %s\n", strings.Join(nameset.Fold(r.Unchanged), " "))
		}
		if len(r.Changed) > 0 {
			fmt.Fprintf(c.Out, "Drained, no new slivers there: %s\n", strings.Join(nameset.Fold(r.Changed), " "))
		}
		names := append(r.Changed, r.Unchanged...)
		if o.Move {
			err = o.move(ctx, c, config, names)
		}
		if err == nil {
			err = o.listHolders(ctx, c, config, names)
		}
	}
	if err == nil && !served && len(r.Changed) > 0 {
		fmt.Fprintln(c.Out, "The server is not running; this takes effect at its next start.")
	}
	return err
}

// move moves reservations from the named components, and lists them.
func (o *drainOptions) move(ctx context.Context, c command.Console, config *site.Config, names []string) error {
	var done operate.Result
	if _, err := site.Connect(config).Order(ctx, "/move", operate.Move{Components: names, Text: o.Text, Operator: audit.Operator()}, &done); err != nil {
		return err
	}
	for _, r := range done.Moved {
		fmt.Fprintf(c.Out, "Moved: %s\n", display.Line(r.String()))
	}
	for _, r := range done.Displaced {
		fmt.Fprintf(c.Out, "Not moved: %s: %s\n", display.Line(r.String()), r.Reason)
	}
	return nil
}

// changeMaintenance carries out an order, and prints the warning of the result. served is false if no
// server runs.
func changeMaintenance(ctx context.Context, c command.Console, config *site.Config, o operate.MaintenanceOrder) (r operate.MaintenanceResult, served bool, err error) {
	r, served, err = site.ChangeMaintenance(ctx, config, o)
	if r.Warning != "" {
		fmt.Fprintln(c.Err, "patchbay: "+display.Printable(r.Warning))
	}
	return r, served, err
}

func reportLifted(c command.Console, r *operate.MaintenanceResult) error {
	if len(r.Changed) > 0 {
		fmt.Fprintf(c.Out, "No longer drained: %s\n", strings.Join(nameset.Fold(r.Changed), " "))
	}
	if r.Failed != "" {
		return errors.New(r.Failed)
	}
	if len(r.Unchanged) > 0 {
		fmt.Fprintf(c.Out, "Not drained: %s\n", strings.Join(nameset.Fold(r.Unchanged), " "))
	}
	return nil
}

// listHolders lists the slivers that stay on the named components, which are drained.
func (o *drainOptions) listHolders(ctx context.Context, c command.Console, config *site.Config, names []string) error {
	t := newTable(c.Out, &listOptions{}, config.Now(ctx))
	t.Head("NODE", "SLICE", "SLIVERS", "LAST END", "USERS")
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	waits := false
	err := site.Rows(ctx, site.Connect(config), "nodes", operate.Filter{State: "drained"}, func(n *operate.Node) error {
		if !wanted[n.Name] {
			return nil
		}
		for _, h := range n.Holders {
			waits = waits || !h.Begins.IsZero()
			slivers := fmt.Sprint(h.Slivers)
			if !h.Begins.IsZero() {
				slivers += ", begins " + t.when(h.Begins)
			}
			t.Row(n.Name, t.name(h.Slice), slivers, t.end(h.Expires, h.Frozen), t.list(h.Users))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(t.Rows) > 0 {
		fmt.Fprintln(c.Out, "These slivers stay:")
	}
	if err := t.Flush("They have no slivers."); err != nil || !waits || o.Move {
		return err
	}
	fmt.Fprintln(c.Out, "Those that begin later get other nodes at their start, or wait while theirs are drained; to move them now: --move")
	return nil
}

// show lists all drained components.
func (o *drainOptions) show(ctx context.Context, c command.Console, config *site.Config) error {
	t := newTable(c.Out, &listOptions{}, config.Now(ctx))
	t.Head("NODE", "SLIVERS", "SINCE", "REMARK")
	err := site.Rows(ctx, site.Connect(config), "nodes", operate.Filter{State: "drained,missing"}, func(n *operate.Node) error {
		if n.Drained == "" {
			return nil
		}
		t.Row(n.Name, fmt.Sprint(n.Slivers), t.when(n.DrainedSince), n.Remark())
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush("Nothing is drained.")
}
