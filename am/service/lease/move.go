package lease

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec/match"
)

// Mover binds slivers that have not begun to other components. It is for one decision.
type Mover struct {
	Inventory *inventory.Inventory
	Plan      *maintenance.Plan
	// Allows reports whether the user of a sliver may use a component; nil allows all.
	Allows func(x *am.Sliver, c *inventory.Component) bool

	taken map[*inventory.Component]bool // by earlier moves
	full  map[string]bool               // what Move has searched without success
}

// Obstacle returns the reason why x, whose start has come, cannot begin on its component in the near future; "" if there
// is none. The text does not name other users.
func (m *Mover) Obstacle(v *store.View, x *am.Sliver) (why string, err error) {
	c, ok := m.Inventory.ComponentOf(x)
	switch {
	case !ok:
		return fmt.Sprintf("component %s is not at this aggregate any more", x.ComponentName), nil
	case c.Drained || m.Plan.Drain(c.Name) != nil:
		return fmt.Sprintf("component %s is out of service", c.Name), nil
	}
	err = v.CalendarAt([]byte(x.Component.Key()), func(h *am.Hold) bool {
		switch {
		case !h.From.IsZero() || !x.Exclusive && !h.Exclusive:
		case h.Cleaning:
			u, failed := urn.Parse(string(h.Sliver))
			if t, _, err := v.Task(u); failed == nil && err == nil && t.Attempt > 0 {
				why = fmt.Sprintf("component %s cannot be cleaned", c.Name)
			}
		case h.Until.IsZero():
			why = fmt.Sprintf("component %s is kept for inspection after a shutdown", c.Name)
		}
		return why == ""
	})
	return why, err
}

// IsMovable reports whether x may get another component: its user did not ask for this one, and it has no links.
func IsMovable(x *am.Sliver) bool { return !x.Asked && len(x.Interfaces) == 0 }

// WhyStays returns the reason why MoveAll has not moved x.
func WhyStays(x *am.Sliver) string {
	switch {
	case x.Asked:
		return "its user asked for this component"
	case len(x.Interfaces) > 0:
		return "it has links"
	}
	return "no equal component is free for its time"
}

// Move binds x, which has not begun, to an equal component that is free from now or the start of x until its end. It
// reports whether there is one. A sliver that is not movable stays.
func (m *Mover) Move(v *store.View, x *am.Sliver) (bool, error) {
	class := fmt.Sprint(x.Provider, x.SliverType, x.HardwareType, x.Exclusive, x.Begins, x.Ends, x.Amount, x.Creator)
	if !IsMovable(x) || m.full[class] {
		return false, nil
	}
	if m.taken == nil {
		m.taken, m.full = map[*inventory.Component]bool{}, map[string]bool{}
	}
	old, _ := m.Inventory.ComponentOf(x)
	for _, c := range m.Inventory.Components {
		if c == old || m.taken[c] || !m.isEqual(x, old, c) {
			continue
		}
		free, err := m.isFree(v, x, c)
		if err != nil {
			return false, err
		}
		if free {
			x.Component, x.ComponentName, x.Gateway, m.taken[c] = c.URN, c.Name, c.Gateway.Address(), true
			return true, nil
		}
	}
	m.full[class] = len(x.Features) == 0
	return false, nil
}

// isEqual reports whether c is like the component of x, which is old, or nil if the inventory lacks it.
func (m *Mover) isEqual(x *am.Sliver, old, c *inventory.Component) bool {
	switch {
	case c.Drained || m.Plan.Drain(c.Name) != nil || c.Provider != x.Provider || strings.Join(c.HardwareTypes[:min(len(c.HardwareTypes), 1)], "") != x.HardwareType,
		!slices.ContainsFunc(c.SliverTypes, func(t *inventory.SliverType) bool { return t.Name == x.SliverType }),
		m.Allows != nil && !m.Allows(x, c):
		return false
	case old == nil:
		return len(x.Features) == 0
	}
	return c.Exclusive == old.Exclusive && slices.Equal(c.HardwareTypes, old.HardwareTypes) && (len(x.Features) == 0 || maps.EqualFunc(c.Capabilities, old.Capabilities, func(a, b match.Capability) bool { return a.Kind == b.Kind && a.String() == b.String() }))
}

// isFree reports whether x fits on c for its whole time.
func (m *Mover) isFree(v *store.View, x *am.Sliver, c *inventory.Component) (free bool, err error) {
	from := am.LaterOf(v.Now(), x.Begins)
	for _, w := range m.Plan.Windows(c.Name) {
		if w.From.Before(x.Ends) && w.Until.After(from) {
			return false, nil
		}
	}
	free = true
	var used am.Amount
	err = v.CalendarAt([]byte(c.URN.Key()), func(h *am.Hold) bool {
		if h.Overlaps(from, x.Ends, v.Now()) {
			used = used.Add(h.Amount)
			free = !x.Exclusive && !h.Exclusive
		}
		return free
	})
	return free && am.Fits(c.Capacity, used, x.Amount, 1) > 0, err
}

// MoveAll moves the slivers that have not begun and are on the named components to equal ones, and adds the changes to cs. It
// returns those that it has moved, and those that stay.
func (m *Mover) MoveAll(v *store.View, cs *store.ChangeSet, names []string) (moved, stay []am.Sliver, err error) {
	var all []am.Sliver
	if err := v.Slivers(func(x am.Sliver) bool {
		if c, ok := m.Inventory.ComponentOf(&x); x.Waits() && ok && slices.Contains(names, c.Name) {
			all = append(all, x)
		}
		return true
	}); err != nil {
		return nil, nil, err
	}
	for _, x := range all {
		isMoved, err := m.Move(v, &x)
		switch {
		case err != nil:
			return nil, nil, err
		case !isMoved:
			stay = append(stay, x)
		default:
			moved = append(moved, x)
			cs.PutSliver(x)
		}
	}
	return moved, stay, countChanges(v, cs, moved)
}

// Displaced returns the slivers that have not begun and could not begin on the component of x if x stayed until the given time,
// earliest start first. capacity is that of the component.
func Displaced(v *store.View, x *am.Sliver, until time.Time, capacity am.Amount) (all []am.Sliver, err error) {
	var list []am.Hold
	key := x.URN.Key()
	if err := v.CalendarAt([]byte(x.Component.Key()), func(h *am.Hold) bool {
		one := am.Hold{Sliver: bytes.Clone(h.Sliver), From: h.From, Until: h.Until, Amount: h.Amount, Exclusive: h.Exclusive, Cleaning: h.Cleaning}
		if string(h.Sliver) == key {
			one.Until = until
		}
		list = append(list, one)
		return true
	}); err != nil {
		return nil, err
	}
	var used am.Amount
	out := map[*am.Hold]bool{}
	am.Sweep(list, v.Now(), v.Now(), func(h *am.Hold) {
		waits := !h.From.IsZero() && h.From.Before(until) && h.Until.After(x.Begins) && string(h.Sliver) != key
		if waits && (x.Exclusive || h.Exclusive || am.Fits(capacity, used, h.Amount, 1) == 0) {
			out[h] = true
			u, failed := urn.Parse(string(h.Sliver))
			other, _, unread := v.Sliver(u)
			all, err = append(all, other), cmp.Or(err, failed, unread)
			return
		}
		used = used.Add(h.Amount)
	}, func(h *am.Hold) {
		if !out[h] {
			used = used.Sub(h.Amount)
		}
	}, func(at time.Time) bool { return at.Before(until) })
	return all, err
}
