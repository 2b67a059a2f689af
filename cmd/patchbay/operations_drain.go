package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/inventory/nameset"
)

const drainLong = `Take components out of service until undrain. They are advertised as unavailable and get
no new slivers; a request for one of them is refused as if another slice held it. Existing slivers
stay, and are listed with their leases: contact their users, or release them. Components
are given by name, as ranges such as pc1..pc4, or by URN.

--reason is a note for other operators. Without arguments, list drained components.

The maintenance file stores the drained components, so they survive restarts. The command
works with and without a running server.`

const undrainLong = `Put drained components back into service. For components that are drained in the
inventory it names the file to change.`

type drainOptions struct {
	site       siteFlag
	lift       bool // undrain
	Components []string
	Text       string
}

func (o *drainOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Text, "reason", "", "a note of one line for other operators and the journal")
}

func (o *drainOptions) Validate(args []string) error {
	if err := onlyComponents(args); err != nil {
		return err
	}
	if o.Text != "" || o.site.flags.Changed("reason") {
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

func (o *drainOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.Read()
	if err != nil {
		return err
	}
	if len(o.Components) == 0 {
		return o.show(ctx, c, config)
	}
	inv, err := config.LoadInventory()
	if err != nil {
		return err
	}
	limit := len(inv.Components) + 1
	if o.lift { // names that are no longer in the inventory, too
		plan, err := maintenance.Read(config.Maintenance)
		if err != nil {
			return err
		}
		limit += plan.DrainedNames()
	}
	names, err := o.names(inv, limit)
	if err != nil {
		return err
	}
	now := config.Now(ctx)
	var changed, left []string // the components that change, and the others
	plan, err := maintenance.Change(config.Maintenance, func(d *maintenance.Draft) error {
		changed, left = nil, nil
		for _, name := range names {
			if (d.Plan.Drain(name) != nil) == o.lift {
				changed = append(changed, name)
			} else {
				left = append(left, name)
			}
		}
		switch {
		case len(changed) == 0:
		case o.lift:
			d.Undrain(changed)
		default:
			d.AddDrain(maintenance.Drain{Components: nameset.Fold(changed), Text: o.Text, Since: now, By: audit.Operator()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	what := strings.Join(nameset.Fold(changed), " ")
	if len(changed) > 0 {
		recordAct(ctx, c, config, o.event(), strings.TrimSuffix(what+": "+o.Text, ": "))
	}
	_, served, err := awaitPlan(ctx, config, plan)
	if err != nil {
		return err
	}
	if o.lift {
		err = o.reportLifted(c, config, inv, names, changed, left)
	} else {
		if len(left) > 0 {
			fmt.Fprintf(c.out, "Already drained: %s\n", strings.Join(nameset.Fold(left), " "))
		}
		if len(changed) > 0 {
			fmt.Fprintf(c.out, "Drained, no new slivers there: %s\n", what)
		}
		err = o.listHolders(ctx, c, config, names)
	}
	if err == nil && !served && len(changed) > 0 {
		fmt.Fprintln(c.out, "The server is not running; this takes effect at its next start.")
	}
	return err
}

func (o *drainOptions) event() string {
	if o.lift {
		return "undrain"
	}
	return "drain"
}

// names returns each name once. It fails if an argument names more than limit components.
func (o *drainOptions) names(inv *inventory.Inventory, limit int) (names []string, err error) {
	named := map[string]bool{}
	for _, written := range o.Components {
		some, err := componentsOf(inv, written, limit, !o.lift)
		if err != nil {
			return nil, err
		}
		for _, name := range some {
			if !named[name] {
				names, named[name] = append(names, name), true
			}
		}
	}
	return names, nil
}

// componentsOf accepts names and ranges separated by commas, or the URN of a component. It
// fails for more than limit names. If mustExist is true, it also fails for a name that is
// not in the inventory.
func componentsOf(inv *inventory.Inventory, written string, limit int, mustExist bool) (names []string, err error) {
	if strings.ContainsAny(written, "*?") {
		return nil, fmt.Errorf("%s is a pattern; give names, or a range such as pc1..pc4. To list components: %s", written, display.Command("nodes", written))
	}
	if !strings.HasPrefix(strings.ToLower(written), "urn:") {
		for one := range strings.SplitSeq(written, ",") {
			if mustExist {
				if err := checkInInventory(inv, one); err != nil {
					return nil, err
				}
			}
			some, err := maintenance.Spread(one, limit-len(names))
			if err != nil {
				return nil, err
			}
			names = append(names, some...)
		}
		return names, nil
	}
	u, err := urn.Parse(written)
	if err != nil {
		return nil, err
	}
	c, ok := inv.Component(u)
	if !ok {
		return nil, site.UnknownComponent(inv, written)
	}
	return []string{c.Name}, nil
}

// checkInInventory fails if the inventory lacks a component. For a range, the error names
// the last existing component. The syntax is not checked.
func checkInInventory(inv *inventory.Inventory, written string) error {
	r, isRange := nameset.Parse(written)
	if !isRange {
		if _, ok := inv.ComponentNamed(written); ok || written == "" {
			return nil
		}
		err := site.UnknownComponent(inv, written)
		if !strings.Contains(err.Error(), "did you mean") {
			err = fmt.Errorf("%w; for a note: --reason", err)
		}
		return err
	}
	last := ""
	for name := range r.Names() {
		_, ok := inv.ComponentNamed(name)
		switch {
		case ok:
			last = name
		case last != "":
			return fmt.Errorf("the inventory has no component %q; the range ends at %s", name, last)
		default:
			return site.UnknownComponent(inv, name)
		}
	}
	return nil
}

// reportLifted fails if one of the names is drained in the inventory. It also fails for a
// name that was not drained and is not in the inventory.
func (o *drainOptions) reportLifted(c console, config *site.Config, inv *inventory.Inventory, names, changed, left []string) error {
	if len(changed) > 0 {
		fmt.Fprintf(c.out, "No longer drained: %s\n", strings.Join(nameset.Fold(changed), " "))
	}
	var there, never []string
	kept := map[string]bool{}
	for _, name := range left {
		kept[name] = true
	}
	for _, name := range names {
		comp, ok := inv.ComponentNamed(name)
		switch {
		case ok && comp.Drained:
			there = append(there, name)
		case kept[name]:
			never = append(never, name)
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("drained in %s; remove drained: true there for: %s", config.Inventory, strings.Join(nameset.Fold(there), " "))
	}
	for _, name := range never {
		if _, ok := inv.ComponentNamed(name); !ok {
			return site.UnknownComponent(inv, name)
		}
	}
	if len(never) > 0 {
		fmt.Fprintf(c.out, "Not drained: %s\n", strings.Join(nameset.Fold(never), " "))
	}
	return nil
}

func (o *drainOptions) listHolders(ctx context.Context, c console, config *site.Config, names []string) error {
	t := newTable(c.out, &listOptions{}, config.Now(ctx))
	t.head("NODE", "SLICE", "SLIVERS", "LAST END", "USERS")
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	err := site.Rows(ctx, site.Connect(config), "nodes", operate.Filter{State: "drained"}, func(n *operate.Node) error {
		if !wanted[n.Name] {
			return nil
		}
		for _, h := range n.Holders {
			t.row(n.Name, t.name(h.Slice), fmt.Sprint(h.Slivers), t.end(h.Expires, h.Frozen), t.list(h.Users))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(t.rows) > 0 {
		fmt.Fprintln(c.out, "These slivers stay:")
	}
	return t.flush("They have no slivers.")
}

func (o *drainOptions) show(ctx context.Context, c console, config *site.Config) error {
	t := newTable(c.out, &listOptions{}, config.Now(ctx))
	t.head("NODE", "SLIVERS", "SINCE", "REMARK")
	err := site.Rows(ctx, site.Connect(config), "nodes", operate.Filter{State: "drained,missing"}, func(n *operate.Node) error {
		if n.Drained == "" {
			return nil
		}
		t.row(n.Name, fmt.Sprint(n.Slivers), t.when(n.DrainedSince), nodeRemark(n))
		return nil
	})
	if err != nil {
		return err
	}
	return t.flush("Nothing is drained.")
}
