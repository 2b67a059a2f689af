package binder

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/inventory"
)

// lives are slivers at a site with maintenance.
type lives struct {
	x *holdings
	v *inventory.Inventory
	moment
}

// moment is a plan at a time.
type moment struct {
	plan *maintenance.Plan
	now  time.Time
}

func (m moment) serves(c *inventory.Component) bool {
	return !c.Drained && m.plan.WindowAt(c.Name, m.now) == nil
}

func newLives(v *inventory.Inventory) *lives { return &lives{x: newHoldings(v), v: v} }

// pick is one of the slivers, if there are any.
func (l *lives) pick(t *rapid.T) (am.Sliver, bool) {
	ids := slices.Sorted(maps.Keys(l.x.slivers))
	if len(ids) == 0 {
		return am.Sliver{}, false
	}
	return l.x.slivers[rapid.SampledFrom(ids).Draw(t, "sliver")], true
}

// drawPlan makes a plan of a few hours.
func drawPlan(t *rapid.T, v *inventory.Inventory) *maintenance.Plan {
	text := "planned:\n"
	for range rapid.IntRange(0, 3).Draw(t, "windows") {
		from := rapid.IntRange(0, 8).Draw(t, "from")
		until := from + rapid.IntRange(1, 4).Draw(t, "hours")
		of := ""
		if rapid.IntRange(0, 4).Draw(t, "whole") > 0 {
			of = "components: " + rapid.SampledFrom(v.Components).Draw(t, "component").Name + ", "
		}
		text += fmt.Sprintf("  - {%sfrom: 2030-01-01T%02d:00:00Z, until: 2030-01-01T%02d:00:00Z, text: x}\n", of, from, until)
	}
	p, err := maintenance.Parse([]byte(text), "maintenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// steps returns actions and random events of slivers; sites are the inventories that may be loaded.
func (l *lives) steps(sites []*inventory.Inventory, actions map[string]func(*rapid.T)) map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"release": func(t *rapid.T) {
			if s, ok := l.pick(t); ok {
				s.Status.Allocation = am.Unallocated
				l.x.put(s)
			}
		},
		"forget": func(t *rapid.T) {
			if s, ok := l.pick(t); ok {
				l.x.remove(s)
			}
		},
		"plan": func(t *rapid.T) {
			l.plan = drawPlan(t, l.v)
			l.x.plan = l.plan
		},
		"pass the time": func(t *rapid.T) { // or set the clock
			l.now = time.Date(2030, 1, 1, 0, rapid.IntRange(0, 12*60).Draw(t, "minute"), 0, 0, time.UTC)
			l.x.now = l.now
		},
		"reload": func(t *rapid.T) {
			l.v = rapid.SampledFrom(sites).Draw(t, "site")
			l.x.inv = l.v
		},
	}
	maps.Copy(all, actions)
	return all
}
