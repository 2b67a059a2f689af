package check

import (
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/am/site"
	"patchbay/inventory"
)

// maintenance checks the file that says what is out of service; inv is nil where
// it is not known.
func (k *Checker) maintenance(file string, inv *inventory.Inventory) {
	p, err := maintenance.Read(file)
	if err != nil {
		k.Errors(err)
		return
	}
	if p.Fingerprint == "" {
		return // there is none
	}
	if l := p.Lockdown; l != nil {
		k.warn(file, "the site is locked down, and takes no new work: %s", l.Text)
	}
	if inv != nil {
		for _, x := range p.Unknown(func(name string) bool { _, ok := inv.ComponentNamed(name); return ok }) {
			k.bad(display.Place(file, x.Line), "%v; correct the name, or remove it: it keeps nothing out of service", site.NoComponent(inv, x.Name))
		}
	}
	now := time.Now()
	for _, w := range p.Planned {
		at, span := display.Place(file, w.Line), w.From.Format(time.RFC3339)+" until "+w.Until.Format(time.RFC3339)
		switch {
		case !w.Until.After(now):
			k.warn(at, "maintenance of %s, from %s, is over; remove it", site.WindowText(w), span)
		case w.InForce(now):
			k.warn(at, "%s is under maintenance, from %s: %s", site.WindowText(w), span, w.Text)
		default:
			k.good(at, "maintenance of %s, from %s", site.WindowText(w), span)
		}
	}
	for _, d := range p.Drained {
		k.warn(display.Place(file, d.Line), "drained, so nothing new goes there: %s", site.DrainText(d))
	}
	if p.Lockdown == nil && len(p.Planned)+len(p.Drained) == 0 {
		k.good(file, "nothing is out of service")
	}
}

// isMaintenance tells a maintenance file from a configuration, which has other
// keys.
func isMaintenance(doc *yaml.Node) bool {
	var top struct{ Lockdown, Planned, Drained yaml.Node }
	return doc.Decode(&top) == nil && (top.Lockdown.Kind != 0 || top.Planned.Kind != 0 || top.Drained.Kind != 0)
}
