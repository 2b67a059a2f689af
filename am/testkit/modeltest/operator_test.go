package modeltest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// The functions below model the actions of operators, and faults of hosts and machines.

// order carries out an operator's order and sets the model to after if it succeeds.
func (l *run) order(what string, after *plain, do func(context.Context) error) {
	full := l.full.Load()
	err := do(l.context)
	l.logf("%s: %v", what, err)
	switch {
	case l.site.isDead():
		l.ifDone = after
	case err == nil:
		l.model = after
	case errors.Is(err, store.ErrNotCommitted) && l.full.Load() > full:
	default:
		l.fail("%s: %v", what, err)
	}
}

// operatorAction does a random action of an operator.
func (l *run) operatorAction() {
	n := l.pick("s1", "s2", "s3")
	if down := l.shut(); down != "" && l.rand.IntN(4) > 0 {
		n = down
	}
	after := l.model.clone()
	s := after.slices[n]
	switch l.rand.IntN(8) {
	case 0:
		if len(s.nodes) == 0 {
			return
		}
		targets := []string{n}
		if l.rand.IntN(2) == 0 {
			targets = []string{n + "/" + s.nodes[0].client}
			s.nodes = s.nodes[1:]
		} else {
			s.nodes = nil
		}
		l.order("release", after, func(ctx context.Context) error {
			_, err := l.site.operations.Release(ctx, operate.Release{Targets: targets, Frozen: true, Operator: "olga"})
			return err
		})
	case 1:
		if len(s.nodes) == 0 || s.shut {
			return
		}
		until := l.now().Add(time.Duration(1+l.rand.IntN(600)) * time.Minute).Truncate(time.Second)
		for _, x := range s.nodes {
			x.expires, x.latest, x.wish, x.granted = until, until, time.Time{}, time.Time{} // no credential binds an operator
			if x.state == "reserved" {
				x.granted = until
			}
		}
		l.order("renew", after, func(ctx context.Context) error {
			_, err := l.site.operations.Renew(ctx, operate.Renew{Targets: []string{n}, End: operate.End{Until: until}, Operator: "olga"})
			return err
		})
	case 2:
		l.reload()
	default:
		if s.shut {
			s.shut = false
			l.order("thaw", after, func(context.Context) error { return l.site.thaw(n) })
		}
	}
}

// shut returns a slice that is shut down; "" if there is none.
func (l *run) shut() string {
	for _, n := range slices.Sorted(maps.Keys(l.model.slices)) {
		if l.model.slices[n].shut {
			return n
		}
	}
	return ""
}

// offers are the inventories between which reload changes.
var offers = []string{offer, offerOf("pc1..pc3", "3", "2"), offerOf("pc1..pc5", "5", "3"), offerOf("pc2..pc4", "1", "3")}

// reload puts another inventory in force. Existing slivers stay.
func (l *run) reload() {
	full := l.full.Load()
	l.offer(offers[l.rand.IntN(len(offers))])
	err := l.site.svc.SetInventory(l.context, l.inv, func() {})
	l.logf("set another inventory: %v", err)
	if err != nil && !l.site.isDead() && l.full.Load() == full {
		l.fail("cannot set another inventory: %v", err)
	}
	if err != nil && !l.site.isDead() {
		l.inv = l.site.inventory.Load() // the previous one
	}
}

// setClock sets the host's clock. The site's time continues unless an operator confirms
// the new time.
func (l *run) setClock() {
	ahead := []time.Duration{0, 0, 2 * time.Hour, -3 * time.Hour, 40 * 24 * time.Hour}[l.rand.IntN(5)]
	l.mu.Lock()
	l.ahead = l.trustedAhead + ahead
	l.mu.Unlock()
	l.logf("the host's clock is %v ahead", ahead)
	l.site.clock.Now() // makes the clock notice the change
	if ahead.Abs() > 3*time.Hour || l.rand.IntN(3) > 0 || l.overdue() {
		return
	}
	l.mu.Lock()
	l.trustedAhead = l.ahead
	l.mu.Unlock()
	l.site.clock.Trust()
	l.opened = l.now()
	l.logf("and an operator has confirmed its time")
}

// overdue reports whether a sliver whose lease has ended was not released yet. If the clock is
// then set back, the lease would run again.
func (l *run) overdue() bool {
	records, _ := l.site.records()
	for _, x := range records {
		if x.Status.Allocation != am.Unallocated && !x.Live(l.now()) {
			return true
		}
	}
	return false
}

// machineFault changes a random machine: it disappears, fails, is switched off, or
// reappears after its removal.
func (l *run) machineFault() {
	r := l.providers[l.pick("metal", "cloud")]
	records, _ := l.site.records()
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.rand.IntN(3) == 0 {
		for _, id := range slices.Sorted(maps.Keys(r.gone)) {
			if _, known := records[id]; known || r.machines[id] != nil || r.setting[id] || l.reappearances >= 10 {
				continue
			}
			l.logf("%s exists again", id)
			r.machines[id] = &machine{is: r.gone[id], reappeared: true}
			l.reappearances++
			return
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.machines)) {
		m := r.machines[id]
		if r.setting[id] || m.reappeared || m.is.Text(provider.AttrEnsure) == provider.Absent || l.rand.IntN(2) > 0 {
			continue
		}
		l.damaged[id] = true
		what := l.pick("vanishes", "breaks")
		if !l.drifted && m.is.Text(provider.AttrPower) == provider.On { // only once, since a sliver is repaired only once an hour
			what = "is switched off"
		}
		l.logf("%s %s", id, what)
		switch what {
		case "vanishes":
			delete(r.machines, id)
		case "breaks":
			m.failed = "it smokes"
		default:
			m.is[provider.AttrPower] = provider.Off
			l.drifted = true
		}
		return
	}
}

// capacityOf returns how many nodes a component holds.
func capacityOf(c *inventory.Component) int {
	if c.Exclusive {
		return 1
	}
	return int(c.Capacity.Slots)
}
