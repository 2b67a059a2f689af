package operate

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// page passes rows to the function row until the limit is reached or row fails.
type page[T any] struct {
	limit, n int
	row      func(T) error
	err      error
}

// add reports whether the page takes more rows.
func (p *page[T]) add(t T) bool {
	if p.err = p.row(t); p.err != nil {
		return false
	}
	p.n++
	return p.limit == 0 || p.n < p.limit
}

// queryRows calls fill, which adds the rows to a page, with a view of the store. It refuses a
// filter that names an unknown slice or component. It fails with a *RefusedError, or with an error
// of row or of the store.
func queryRows[T any](d *Operations, f Filter, row func(T) error, fill func(*parsedFilter, *store.View, *page[T]) error) error {
	w, p := d.parseFilter(f), &page[T]{limit: f.Limit, row: row}
	return d.cfg.Store.Read(func(v *store.View) error {
		if err := w.requireKnown(v); err != nil {
			return err
		}
		err := fill(w, v, p)
		return cmp.Or(p.err, err)
	})
}

// parsedFilter is a Filter with its patterns parsed, and the inventory and plan in force.
type parsedFilter struct {
	Filter
	slice, sliver, user, component, provider patterns
	state                                    patterns
	inv                                      *inventory.Inventory
	plan                                     *maintenance.Plan
}

func (d *Operations) parseFilter(f Filter) *parsedFilter {
	return &parsedFilter{f, newSlices(f.Slice), newPatterns(f.Sliver), newPatterns(f.User), newComponents(f.Component), newPatterns(f.Provider), newPatterns(f.State), d.cfg.Inventory(), d.cfg.Plan()}
}

func (w *parsedFilter) componentOf(x *am.Sliver) (name, provider string) {
	name, provider = cmp.Or(x.ComponentName, x.Component.Name), x.Provider
	if c, ok := w.inv.ComponentOf(x); ok {
		name, provider = c.Name, cmp.Or(provider, c.Provider)
	}
	return name, provider
}

func (w *parsedFilter) inPeriod(t time.Time) bool {
	return !t.Before(w.Since) && (w.Until.IsZero() || t.Before(w.Until))
}

func (w *parsedFilter) matchesSliver(x *am.Sliver, now time.Time) bool {
	name, provider := w.componentOf(x)
	return (w.slice.matchAll() || w.slice.matchSliver(x)) &&
		(w.sliver.matchAll() || w.sliver.matchURN(x.URN) || w.sliver.matchName(x.ClientID)) &&
		(w.user.matchAll() || w.user.matchURN(x.Creator) || !x.Speaker.IsZero() && w.user.matchURN(x.Speaker)) &&
		(w.component.matchAll() || w.component.matchURN(x.Component) || w.component.matchName(name)) &&
		(w.provider.matchAll() || w.provider.matchName(provider)) &&
		(w.state.matchAll() || w.state.matchName(StateOf(x, now)) || hasFailedSetup(x) && w.state.matchName(StateSetupFailed)) &&
		(w.EndsBefore.IsZero() || x.ReleaseTime().Before(w.EndsBefore) && !x.Frozen) &&
		w.inPeriod(x.Created)
}

func (w *parsedFilter) selectsSlivers() bool {
	return !w.sliver.matchAll() || !w.user.matchAll() || !w.component.matchAll() || !w.provider.matchAll() || w.slice.selectSlivers() || !w.state.matchAll() || !w.EndsBefore.IsZero()
}

// eachSlice calls f with each matching slice and all its slivers, sorted by their creation.
// It stops when f returns false or an error.
func (w *parsedFilter) eachSlice(v *store.View, f func(am.Slice, []am.Sliver) (more bool, err error)) error {
	var failed error
	err := v.Slices(func(s am.Slice) bool {
		if !w.slice.matchAll() && !w.slice.matchURN(s.URN) || w.Shutdown && s.Shutdown.IsZero() {
			return true
		}
		all, err := v.SliversOf(s.URN)
		more := false
		if err == nil {
			slices.SortStableFunc(all, func(a, b am.Sliver) int {
				return cmp.Or(a.Created.Compare(b.Created), a.Ordinal-b.Ordinal, strings.Compare(a.ClientID, b.ClientID))
			})
			more, err = f(s, all)
		}
		failed = err
		return more && err == nil
	})
	return cmp.Or(failed, err)
}

// Slices lists slices by URN, each with counts of its slivers. A condition on slivers
// selects slices with a matching sliver. Slices fails with a *RefusedError, or with an error
// of row or of the store.
func (d *Operations) Slices(f Filter, row func(Slice) error) error {
	return queryRows(d, f, row, func(w *parsedFilter, v *store.View, p *page[Slice]) error {
		cond := *w
		cond.Since, cond.Until = time.Time{}, time.Time{} // both apply to the slice's creation
		return w.eachSlice(v, func(s am.Slice, all []am.Sliver) (bool, error) {
			if !w.inPeriod(s.Created) || w.selectsSlivers() && !slices.ContainsFunc(all, func(x am.Sliver) bool { return cond.matchesSliver(&x, v.Now()) }) {
				return true, nil
			}
			return p.add(sliceRow(&s, all, v.Now())), nil
		})
	})
}

func sliceRow(s *am.Slice, slivers []am.Sliver, now time.Time) Slice {
	r := Slice{URN: s.URN, Created: s.Created, Shutdown: s.Shutdown, ShutdownBy: s.ShutdownBy, ShutdownOperator: s.ShutdownOperator, States: map[string]int{}}
	for i := range slivers {
		x := &slivers[i]
		r.States[setupState(x, now)]++
		r.Users = addUser(r.Users, x.Creator)
		if !x.Live(now) {
			continue
		}
		r.Slivers++
		if x.Waits() {
			if r.Waiting++; r.Begins.IsZero() || x.Begins.Before(r.Begins) {
				r.Begins = x.Begins
			}
		}
		end := x.ReleaseTime()
		if r.Expires.IsZero() || end.Before(r.Expires) {
			r.Expires = end
		}
		if end.After(r.Last) {
			r.Last = end
		}
	}
	return r
}

// Slivers lists slivers by the URN of their slice, and within a slice in the order of
// reservation. It fails like Slices.
func (d *Operations) Slivers(f Filter, row func(Sliver) error) error {
	return queryRows(d, f, row, func(w *parsedFilter, v *store.View, p *page[Sliver]) error {
		return w.eachSlice(v, func(_ am.Slice, all []am.Sliver) (bool, error) {
			for i := range all {
				x := &all[i]
				if !w.matchesSliver(x, v.Now()) {
					continue
				}
				r := w.sliverRow(x, v.Now())
				if since, silent := d.cfg.Silent(r.Provider); silent && r.Error == "" {
					r.Error = am.SilentText(r.Provider, since)
				}
				r.Error = cmp.Or(r.Error, lease.LateText(x, d.cfg.Plan(), v.Now()))
				t, _, err := v.Task(x.URN)
				if err == nil {
					r.Task, r.Attempt = t.Goal, t.Attempt
				} else if !errors.Is(err, store.ErrNotFound) {
					return false, err
				}
				if !p.add(r) {
					return false, nil
				}
			}
			return true, nil
		})
	})
}

func (w *parsedFilter) sliverRow(x *am.Sliver, now time.Time) Sliver {
	r := Sliver{
		URN: x.URN, Slice: x.Slice, ClientID: x.ClientID, Component: x.Component, SliverType: x.SliverType, Image: x.Image,
		State: StateOf(x, now), Allocation: x.Status.Allocation, Operational: x.Status.Operational, Frozen: x.Frozen,
		Created: x.Created, Expires: x.Expires, Creator: x.Creator, Speaker: x.Speaker, Error: x.Error,
		Addresses: x.Observed.Addresses, Logins: x.Observed.Logins,
	}
	if hasFailedSetup(x) {
		r.Setup = SetupFailed
		if i := x.FailedStep(); i >= 0 && i < len(x.Observed.Services) {
			r.SetupOutput = x.Observed.Services[i].Output
		}
	} else if !x.SetupBegan.IsZero() {
		r.Setup = SetupRuns
	}
	if r.State == StateExpired { // calls of the API do not show it any more
		ended := am.After(x.Status, am.EventExpire)
		r.Allocation, r.Operational = ended.Allocation, ended.Operational
	}
	if !x.Begins.IsZero() {
		r.Begins, r.Ends, r.Waits = x.Begins, x.Ends, x.Waits()
	}
	r.ComponentName, r.Provider = w.componentOf(x)
	if x.PublicAddress.IsValid() {
		r.Addresses = append([]string{x.PublicAddress.String()}, r.Addresses...)
	}
	return r
}

// Tasks lists the unfinished work of providers, by sliver. The filter's times apply to
// the beginning of a task. Tasks fails like Slices.
func (d *Operations) Tasks(f Filter, row func(Task) error) error {
	return queryRows(d, f, row, func(w *parsedFilter, v *store.View, p *page[Task]) error {
		cond := *w
		cond.state, cond.Since, cond.Until = nil, time.Time{}, time.Time{} // these apply to the task
		var failed error
		err := v.Tasks(func(t am.Task) bool {
			if !w.state.matchAll() && !w.state.matchName(string(t.Goal)) || !w.inPeriod(t.Since) {
				return true
			}
			r := Task{Sliver: t.Sliver, Goal: t.Goal, Attempt: t.Attempt, Next: t.NotBefore, Since: t.Since, Request: t.Request}
			x, _, err := v.Sliver(t.Sliver)
			switch {
			case errors.Is(err, store.ErrNotFound):
				x = am.Sliver{URN: t.Sliver}
			case err != nil:
				failed = err
				return false
			}
			if !cond.matchesSliver(&x, v.Now()) {
				return true
			}
			r.Slice, r.ClientID, r.Error = x.Slice, x.ClientID, x.Error
			r.ComponentName, r.Provider = w.componentOf(&x)
			return p.add(r)
		})
		return cmp.Or(failed, err)
	})
}

// maxNames limits the names that are searched for a similar name.
const maxNames = 10_000

// requireKnown refuses a filter that names an unknown slice or component. A name with wildcards may
// be unknown.
func (w *parsedFilter) requireKnown(v *store.View) error {
	for _, p := range w.slice {
		if p.hasWildcard || p.text == "" {
			continue
		}
		if _, err := findSlice(v, p.original); err != nil {
			return err
		}
	}
	missing := slices.DeleteFunc(slices.Clone(w.component), func(p pattern) bool {
		return p.matchesAll() || p.hasWildcard || w.inInventory(p) || w.plan.Drain(p.original) != nil
	})
	if len(missing) == 0 {
		return nil
	}
	err := v.Slivers(func(x am.Sliver) bool { // a component with slivers need not be in the inventory any more
		missing = slices.DeleteFunc(missing, func(p pattern) bool { return p.matchesURN(x.Component) })
		return len(missing) > 0
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	if text := missing[0].inRange; text != "" {
		count := func(all patterns) (n int) {
			for _, p := range all {
				if p.inRange == text {
					n++
				}
			}
			return n
		}
		return refuse("there is no component %s; of the %d in %s, %d are missing, so correct the range", missing[0].original, count(w.component), text, count(missing))
	}
	return noComponent(w.inv, missing[0].original)
}

func (w *parsedFilter) inInventory(p pattern) bool {
	if _, ok := w.inv.ComponentNamed(p.original); ok {
		return true
	}
	return slices.ContainsFunc(w.inv.Components, func(c *inventory.Component) bool {
		return p.matchesURN(c.URN) || p.matchesName(c.Name)
	})
}

func noComponent(inv *inventory.Inventory, arg string) error {
	if strings.Contains(arg, "..") {
		if _, err := maintenance.Spread(arg, maxRange); err != nil {
			return refuse("%v", err)
		}
	}
	var names []string
	for _, c := range inv.Components[:min(len(inv.Components), maxNames)] {
		names = append(names, c.Name)
	}
	return refuse("there is no component %s%s", arg, didYouMean(arg, names))
}

// findSlice returns the slice with the URN arg, or all slices with the name arg. It returns at
// least one slice if it does not fail.
func findSlice(v *store.View, arg string) ([]urn.URN, error) {
	if arg == "" {
		return nil, refuse("no slice is named; name one by its URN or name")
	}
	if u, err := urn.Parse(arg); err == nil {
		if u.Type != urn.Slice {
			return nil, refuse("%s is a %s, not a slice", u, u.Type)
		}
		if _, _, err := v.Slice(u); !errors.Is(err, store.ErrNotFound) {
			return []urn.URN{u}, err
		}
		return nil, refuse("there is no slice %s here", u)
	}
	var found []urn.URN
	var names []string
	err := v.Slices(func(s am.Slice) bool {
		if strings.EqualFold(s.URN.Name, arg) {
			found = append(found, s.URN)
		}
		if len(names) < maxNames {
			names = append(names, s.URN.Name)
		}
		return true
	})
	if err == nil && len(found) == 0 {
		hint := didYouMean(arg, names)
		if hint == "" && strings.Contains(arg, ",") {
			hint = "; separate several slices with spaces"
		}
		err = refuse("there is no slice %s here%s", arg, hint)
	}
	return found, err
}
