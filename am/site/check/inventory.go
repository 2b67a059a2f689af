package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/service/maintenance"
	"patchbay/am/site"
	"patchbay/inventory"
)

// compareInventory compares the file with the inventory that the server uses, and prints the
// consequences for existing slivers.
func (k *Checker) compareInventory(ctx context.Context, c *site.Config) {
	r, served, err := c.ReloadEffect(ctx)
	switch {
	case errors.Is(err, site.ErrNeverServed):
		return // the site has not been served yet
	case err != nil:
		k.warn(c.Inventory, "its effect on existing slivers cannot be determined: %v", err)
		return
	}
	command := "serve"
	if served {
		command = "reload"
	}
	for _, line := range r.Wrong {
		if !slices.Contains(k.printed, line) { // earlier checks have printed most of these errors
			k.bad("", "%s would refuse: %s", command, line)
		}
	}
	if len(r.Wrong) > 0 {
		return
	}
	for _, x := range r.Changes {
		k.note(r.File, "not loaded yet: %s", x)
	}
	if r.MoreChanges > 0 {
		k.note(r.File, "not loaded yet: %s more", display.Count(r.MoreChanges, "change"))
	}
	for _, l := range r.Later {
		k.note(l.Where, "%s", l.Text)
	}
	for _, x := range r.Consequences {
		if x.Warning {
			k.warn(r.Where(x), "%s", x)
		} else {
			k.note(r.Where(x), "%s", x)
		}
	}
	for _, o := range r.Unmanaged {
		k.warn(c.Providers, "%s", o)
	}
	if r.MoreConsequences > 0 {
		k.warn(r.File, "and %d more consequences for slivers", r.MoreConsequences)
	}
	switch {
	case served && len(r.Changes) == 0:
		k.good(r.File, "the server uses this version")
	case served:
		k.note(r.File, "these changes take effect with patchbay reload, or at the next start")
	}
}

// inventory checks an inventory and returns it; nil if the file has mistakes.
func (k *Checker) inventory(file, authority string) *inventory.Inventory {
	inv, err := inventory.Load(file, authority)
	if err != nil {
		k.Errors(err)
		return nil
	}
	exclusive := 0
	for _, c := range inv.Components {
		if c.Exclusive {
			exclusive++
		}
	}
	list := []string{fmt.Sprintf("%s (%d exclusive)", display.Count(len(inv.Components), "component"), exclusive)}
	for _, x := range []struct {
		n    int
		what string
	}{
		{len(inv.SliverTypes), "sliver type"}, {len(inv.Images), "image"}, {len(inv.Links), "physical link"}, {len(inv.Interfaces), "interface"},
		{len(inv.VLANs), "VLAN tag"}, {len(inv.SharedVLANs), "shared VLAN"}, {len(inv.PublicAddresses), "public address"},
	} {
		if x.n > 0 {
			list = append(list, display.Count(x.n, x.what))
		}
	}
	k.good(file, "%s", strings.Join(list, ", "))
	for _, l := range inv.Locations {
		if l.Latitude == "" {
			k.warn(file, "location %s has no coordinates, so it is not advertised; give it a latitude and longitude", l.Name)
		}
	}
	return inv
}

// facts reports facts that cannot be read, and those that the inventory overrides.
func (k *Checker) facts(c *site.Config, inv *inventory.Inventory) {
	facts, err := inventory.ReadFacts(c.Providers)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			k.warn("", "%s", strings.TrimSuffix(line, "\n"))
		}
	}
	if inv == nil {
		return
	}
	for _, text := range inv.WithFound(nil, facts).ContradictedFacts() {
		k.warn(c.Inventory, "%s; remove the feature there, or keep it if the provider is wrong", text)
	}
}

// maintenance checks the maintenance file and warns of what is out of service. It does not check
// the names of components if inv is nil.
func (k *Checker) maintenance(file string, inv *inventory.Inventory) {
	p, err := maintenance.Read(file)
	if err != nil {
		k.Errors(err)
		return
	}
	if p.Fingerprint == "" {
		return
	}
	if l := p.Lockdown; l != nil {
		k.warn(file, "the site is locked down, and takes no new work: %s", l.Text)
	}
	if inv != nil {
		for _, x := range p.Unknown(func(name string) bool { _, ok := inv.ComponentNamed(name); return ok }) {
			k.bad(display.Place(file, x.Line), "%v; correct the name, or remove it: it takes nothing out of service", site.UnknownComponent(inv, x.Name))
		}
	}
	now := time.Now()
	for _, w := range p.Planned {
		at, span := display.Place(file, w.Line), w.From.Format(time.RFC3339)+" until "+w.Until.Format(time.RFC3339)
		switch {
		case !w.Until.After(now):
			k.warn(at, "maintenance of %s, from %s, is over; remove it", w.Where(), span)
		case w.IsInForce(now):
			k.warn(at, "%s is under maintenance, from %s: %s", w.Where(), span, w.Text)
		default:
			k.good(at, "maintenance of %s, from %s", w.Where(), span)
		}
	}
	for _, d := range p.Drained {
		k.warn(display.Place(file, d.Line), "drained, so it takes no new slivers: %s", site.DrainText(d))
	}
	if p.Lockdown == nil && len(p.Planned)+len(p.Drained) == 0 {
		k.good(file, "nothing is out of service")
	}
}
