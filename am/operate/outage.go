package operate

import (
	"time"

	"patchbay/am/maintenance"
)

// outOfService says why a node takes nothing new.
func (r *Node) outOfService(p *maintenance.Plan, now time.Time) {
	if d := p.Drain(r.Name); d != nil {
		r.Drained, r.DrainedText, r.DrainedBy, r.DrainedSince = "command", d.Text, d.By, d.Since
		if d.Unpromised {
			r.Drained = "unpromised"
		}
	}
	if w := p.On(r.Name, now); w != nil {
		r.MaintenanceUntil, r.MaintenanceText = w.Until, w.Text
	}
}
