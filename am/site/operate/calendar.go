package operate

import (
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// CalendarRow is a row of the calendar: a component that offers a type, with the windows in which it is not wholly free.
type CalendarRow struct {
	// Type is the name of a sliver type.
	Type string `json:"type"`
	// Exclusive means that a component takes one sliver of the type.
	Exclusive bool             `json:"exclusive"`
	Component string           `json:"component"`
	Windows   []CalendarWindow `json:"windows"`
}

// CalendarWindow is a time during which nothing changes on a component. It does not say who holds the component.
type CalendarWindow struct {
	// State is ahead, held, cleaning, maintenance or drained.
	State string `json:"state"`
	// From is omitted if the window has begun, and Until if its end is unknown.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Free is the number of slivers that still fit.
	Free int `json:"free,omitempty"`
	// Mine is a slice that the filter selects and that holds something in the window.
	Mine urn.URN `json:"mine,omitzero"`
}

// calendarTime is the length of a calendar without an end.
const calendarTime = 7 * 24 * time.Hour

// Calendar lists the components by type, with their windows from f.Since, or now, until f.Until. The conditions on
// slices and users do not select components: they mark windows. Calendar fails like Slices.
func (d *Operations) Calendar(f Filter, row func(CalendarRow) error) error {
	w := d.parseFilter(f)
	marked, err := d.markedSlices(w, f)
	if err != nil {
		return err
	}
	from, until := f.Since, f.Until
	if from.IsZero() {
		from = d.cfg.Store.Now()
	}
	if until.IsZero() {
		until = from.Add(calendarTime)
	}
	if !until.After(from) {
		return refuse("the calendar ends before it begins")
	}
	var current atomic.Pointer[inventory.Inventory]
	current.Store(w.inv)
	all, err := service.New(service.Config{Store: d.cfg.Store, Inventory: &current, Plan: w.plan}).Calendar(from, until, marked)
	if err != nil {
		return err
	}
	p := page[CalendarRow]{limit: f.Limit, row: row}
	for _, t := range all.Types {
		for _, c := range t.Components {
			known, ok := w.inv.ComponentNamed(c.Name)
			isWanted := w.component.matchAll() || w.component.matchName(c.Name) || ok && w.component.matchURN(known.URN)
			if isWanted && !p.add(calendarRow(&t, &c)) {
				return p.err
			}
		}
	}
	return p.err
}

// markedSlices returns the slices that the filter names, or whose slivers the user that it names has reserved.
func (d *Operations) markedSlices(w *parsedFilter, f Filter) (marked []urn.URN, err error) {
	err = d.cfg.Store.Read(func(v *store.View) error {
		if err := w.requireKnown(v); err != nil || f.Slice == "" && f.User == "" {
			return err
		}
		known, seen := f.User == "" || strings.ContainsAny(f.User, "*?"), map[urn.URN]bool{}
		if err := v.Slivers(func(x am.Sliver) bool {
			known = known || w.user.matchURN(x.Creator)
			if !seen[x.Slice] && (w.slice.matchAll() || w.slice.matchURN(x.Slice)) && (w.user.matchAll() || w.user.matchURN(x.Creator)) {
				seen[x.Slice] = true
				marked = append(marked, x.Slice)
			}
			return true
		}); err != nil || known {
			return err
		}
		return refuse("no user %s has slivers here", f.User)
	})
	return marked, err
}

func calendarRow(t *service.CalendarType, c *service.CalendarComponent) CalendarRow {
	r := CalendarRow{Type: t.Name, Exclusive: t.Kind == "exclusive", Component: c.Name, Windows: []CalendarWindow{}}
	for _, x := range c.Windows {
		r.Windows = append(r.Windows, CalendarWindow{x.Kind, x.From, x.Until, x.Free, x.Mine})
	}
	return r
}
