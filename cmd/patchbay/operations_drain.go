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

const drainLong = `Take components out of service until undrain. They are advertised as unavailable,
requests pass by them, and a request that names one is refused as if it were held.
Existing slivers stay, and are listed with their leases: speak with their users, or
release them. Components are named one by one, as ranges such as pc1..pc4, or by
their URNs.

--reason says why, for other operators. Without arguments, list what is drained.

It is written into the maintenance file and holds over restarts. The site may be
served or not.`

const undrainLong = `Put components back into service that drain took out of it. For those that are drained
in the inventory it names the file, to be changed there.`

type drainOptions struct {
	site       siteFlag
	lift       bool // undrain
	Components []string
	Text       string
}

func (o *drainOptions) AddFlags(fs *pflag.FlagSet) {
	o.site.AddFlags(fs)
	fs.StringVar(&o.Text, "reason", "", "why, in a line for other operators and the journal")
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
		return fmt.Errorf("name the components that may be used again, such as pc1, or pc1..pc4")
	case o.Text != "":
		return fmt.Errorf("name components, such as pc1, or pc1..pc4; to keep the whole site: patchbay lockdown")
	}
	return nil
}

// onlyComponents refuses an argument that cannot name components, since it has several
// words.
func onlyComponents(args []string) error {
	for _, a := range args {
		if strings.Contains(a, " ") {
			return fmt.Errorf("%q names no component; to say why: --reason %s", a, display.ShellWord(a))
		}
	}
	return nil
}

func (o *drainOptions) Run(ctx context.Context, c console) error {
	config, err := o.site.read()
	if err != nil {
		return err
	}
	if len(o.Components) == 0 {
		return o.show(ctx, c, config)
	}
	inv, err := inventory.Load(config.Inventory, config.Authority)
	if err != nil {
		return err
	}
	room := len(inv.Components) + 1
	if o.lift { // also what is no longer in the inventory
		plan, err := maintenance.Read(config.Maintenance)
		if err != nil {
			return err
		}
		room += plan.DrainedNames()
	}
	names, err := o.names(inv, room)
	if err != nil {
		return err
	}
	now := config.Now(ctx)
	var changed, left []string // the names that were changed, and those that were not
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
		noteAct(ctx, c, config, o.word(), strings.TrimSuffix(what+": "+o.Text, ": "))
	}
	_, served, err := inForce(ctx, config, plan)
	if err != nil {
		return err
	}
	if o.lift {
		err = o.tellLifted(c, config, inv, names, changed, left)
	} else {
		if len(left) > 0 {
			fmt.Fprintf(c.out, "Drained before: %s\n", strings.Join(nameset.Fold(left), " "))
		}
		if len(changed) > 0 {
			fmt.Fprintf(c.out, "Drained, so nothing new goes there: %s\n", what)
		}
		err = o.tellHeld(ctx, c, config, names)
	}
	if err == nil && !served && len(changed) > 0 {
		fmt.Fprintln(c.out, "The site is not served; this counts from its next start on.")
	}
	return err
}

// word is what the audit calls it.
func (o *drainOptions) word() string {
	if o.lift {
		return "undrain"
	}
	return "drain"
}

// names are the components that are meant, each once; one word means at most room.
func (o *drainOptions) names(inv *inventory.Inventory, room int) (names []string, err error) {
	named := map[string]bool{}
	for _, written := range o.Components {
		some, err := componentsOf(inv, written, room, !o.lift)
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

// componentsOf are the names that an operator means by one word: names and ranges, with
// commas between, or the URN of a component. They are at most room. With known, all must
// be in the inventory.
func componentsOf(inv *inventory.Inventory, written string, room int, known bool) (names []string, err error) {
	if strings.ContainsAny(written, "*?") {
		return nil, fmt.Errorf("%s is a pattern; name components one by one, or as a range such as pc1..pc4. What there is: %s", written, display.Command("nodes", written))
	}
	if !strings.HasPrefix(strings.ToLower(written), "urn:") {
		for one := range strings.SplitSeq(written, ",") {
			if known {
				if err := inInventory(inv, one); err != nil {
					return nil, err
				}
			}
			some, err := maintenance.Spread(one, room-len(names))
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
		return nil, site.NoComponent(inv, written)
	}
	return []string{c.Name}, nil
}

// inInventory fails if the inventory lacks a name, or one of a range: then it says where
// the range ends. Both may be written wrong; that is left to others.
func inInventory(inv *inventory.Inventory, written string) error {
	r, isRange := nameset.Parse(written)
	if !isRange {
		if _, ok := inv.ComponentNamed(written); ok || written == "" {
			return nil
		}
		err := site.NoComponent(inv, written)
		if !strings.Contains(err.Error(), "did you mean") {
			err = fmt.Errorf("%w; to say why: --reason", err)
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
			return site.NoComponent(inv, name)
		}
	}
	return nil
}

// tellLifted says what takes new work again, and what does not, and why.
func (o *drainOptions) tellLifted(c console, config *site.Config, inv *inventory.Inventory, names, changed, left []string) error {
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
		return fmt.Errorf("drained in %s, so take drained: true out there: %s", config.Inventory, strings.Join(nameset.Fold(there), " "))
	}
	for _, name := range never {
		if _, ok := inv.ComponentNamed(name); !ok {
			return site.NoComponent(inv, name)
		}
	}
	if len(never) > 0 {
		fmt.Fprintf(c.out, "Not drained before: %s\n", strings.Join(nameset.Fold(never), " "))
	}
	return nil
}

// tellHeld lists who still has something on components.
func (o *drainOptions) tellHeld(ctx context.Context, c console, config *site.Config, names []string) error {
	t := newTable(c.out, &listOptions{}, config.Now(ctx))
	t.head("NODE", "SLICE", "SLIVERS", "LAST END", "USERS")
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	err := site.Rows(ctx, site.AdminClient{Config: config}, "nodes", operate.Filter{State: "drained"}, func(n *operate.Node) error {
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
	if t.rows > 0 {
		fmt.Fprintln(c.out, "What is there is left alone:")
	}
	return t.flush("No sliver is there.")
}

// show lists what is drained.
func (o *drainOptions) show(ctx context.Context, c console, config *site.Config) error {
	t := newTable(c.out, &listOptions{}, config.Now(ctx))
	t.head("NODE", "SLIVERS", "SINCE", "REMARK")
	err := site.Rows(ctx, site.AdminClient{Config: config}, "nodes", operate.Filter{State: "drained,missing"}, func(n *operate.Node) error {
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
