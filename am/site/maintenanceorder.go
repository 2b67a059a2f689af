package site

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/inventory/nameset"
)

// maxMaintenanceOrder limits an order in bytes.
const maxMaintenanceOrder = 1 << 20

// maintenanceChange carries out an order, and collects the result.
type maintenanceChange struct{ operate.MaintenanceResult }

// ReadMaintenanceState returns the state of the maintenance of a site. It fails if the maintenance file
// has mistakes. served reports whether the site is served.
func ReadMaintenanceState(ctx context.Context, c *Config) (s operate.MaintenanceState, served bool, err error) {
	served, err = Connect(c).exchange(ctx, query{http.MethodGet, maintenancePath, nil, false}, &s)
	if err == nil && s.Wrong != "" {
		err = errors.New(s.Wrong)
	}
	return s, served, err
}

// ChangeMaintenance sends an order to a site in the name of the operator. When it returns, calls
// follow the change. served reports whether the site is served.
func ChangeMaintenance(ctx context.Context, c *Config, o operate.MaintenanceOrder) (r operate.MaintenanceResult, served bool, err error) {
	o.Operator = audit.Operator()
	served, err = Connect(c).Order(ctx, maintenancePath, o, &r)
	return r, served, err
}

const maintenancePath = "/maintenance"

// maintenanceEndpoint answers one request at a time, because state reads all slivers.
type maintenanceEndpoint struct {
	config *Config
	now    func() time.Time
	// state applies the maintenance file if it has changed, and returns the state.
	state func(context.Context) (operate.MaintenanceState, error)
	// record writes a note to the journal, or if that fails to the audit.
	record func(operate.Note) error
	// slivers returns all slivers.
	slivers func() ([]am.Sliver, error)
	one     sync.Mutex
}

func (e *maintenanceEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o operate.MaintenanceOrder
	if r.Method == http.MethodPost {
		if err := operate.ReadOrder(w, r, maxMaintenanceOrder, &o); err != nil {
			operate.Fail(w, err)
			return
		}
	}
	e.one.Lock()
	defer e.one.Unlock()
	var answer any
	var err error
	if r.Method == http.MethodPost {
		answer, err = e.carryOut(context.WithoutCancel(r.Context()), &o)
	} else {
		answer, err = e.state(r.Context())
	}
	if err != nil {
		operate.Fail(w, err)
		return
	}
	writeJSON(w, answer)
}

func (e *maintenanceEndpoint) carryOut(ctx context.Context, o *operate.MaintenanceOrder) (*operate.MaintenanceResult, error) {
	r := &maintenanceChange{}
	plan, err := e.change(o, r)
	if err != nil {
		return nil, &operate.RefusedError{Text: err.Error()}
	}
	if o.Event == operate.PlanMaintenance {
		r.Number = len(plan.Planned)
		r.Window = plan.Planned[r.Number-1]
		r.Changed = []string{windowLine(r.Window)}
	}
	for _, text := range r.notes(o) {
		if err := e.record(operate.Note{Event: o.Event, Text: text, Operator: o.Operator}); err != nil {
			r.Warning = fmt.Sprintf("the change was made, but it is not in the journal: %v", err)
		}
	}
	r.State, err = e.state(ctx)
	if err == nil && r.State.Wrong != "" {
		err = errors.New(r.State.Wrong)
	}
	if err != nil {
		return nil, fmt.Errorf("the change was written to %s, but: %w", e.config.Maintenance, err)
	}
	return &r.MaintenanceResult, nil
}

// notes returns the texts for the journal.
func (r *maintenanceChange) notes(o *operate.MaintenanceOrder) []string {
	if len(r.Changed) > 0 && (o.Event == operate.Drain || o.Event == operate.Undrain) {
		return []string{strings.TrimSuffix(strings.Join(nameset.Fold(r.Changed), " ")+": "+o.Text, ": ")}
	}
	return r.Changed
}

// change edits the maintenance file, and adds to r what has changed. For PlanMaintenance, carryOut
// does that, because the number is only known in the changed plan.
func (e *maintenanceEndpoint) change(o *operate.MaintenanceOrder, r *maintenanceChange) (*maintenance.Plan, error) {
	if err := operate.CheckOperator(o.Operator, ""); err != nil {
		return nil, err
	}
	if o.Text != "" || o.Event == operate.LockDown || o.Event == operate.PlanMaintenance {
		if err := maintenance.CheckText(o.Text); err != nil {
			return nil, err
		}
	}
	inv := &inventory.Inventory{}
	if o.Event == operate.Drain || o.Event == operate.Undrain || o.Event == operate.PlanMaintenance {
		var err error
		if inv, err = e.config.LoadInventory(); err != nil {
			return nil, err
		}
	}
	return maintenance.Change(e.config.Maintenance, func(d *maintenance.Draft) error {
		switch o.Event {
		case operate.Drain:
			return r.drain(d, o, inv, e.now())
		case operate.Undrain:
			return r.undrain(d, o, inv, e.config.Inventory)
		case operate.LockDown:
			l := maintenance.Lockdown{Text: o.Text, Since: e.now()}
			if before := d.Plan.Lockdown; before != nil && !before.Since.IsZero() {
				l.Since = before.Since
			}
			d.SetLockdown(l)
			r.Changed = []string{o.Text}
		case operate.LiftLockdown:
			if d.Plan.Lockdown != nil {
				r.Changed = []string{""}
			}
			d.LiftLockdown()
		case operate.PlanMaintenance:
			if err := planWindow(d, o, inv, e.now()); err != nil || o.Over {
				return err
			}
			return e.checkReserved(o, inv)
		case operate.CancelMaintenance:
			return r.cancel(d, o.Numbers)
		default:
			return fmt.Errorf("there is no change %.40q of the maintenance", o.Event)
		}
		return nil
	})
}

func (r *maintenanceChange) drain(d *maintenance.Draft, o *operate.MaintenanceOrder, inv *inventory.Inventory, now time.Time) error {
	names, err := resolveComponents(inv, o.Components, len(inv.Components)+1, true)
	if err != nil {
		return err
	}
	for _, name := range names {
		if d.Plan.Drain(name) == nil {
			r.Changed = append(r.Changed, name)
		} else {
			r.Unchanged = append(r.Unchanged, name)
		}
	}
	if len(r.Changed) > 0 {
		d.AddDrain(maintenance.Drain{Components: nameset.Fold(r.Changed), Text: o.Text, Since: now, By: o.Operator})
	}
	return nil
}

// undrain ends the drains of components. It also accepts names that are no longer in the inventory.
func (r *maintenanceChange) undrain(d *maintenance.Draft, o *operate.MaintenanceOrder, inv *inventory.Inventory, file string) error {
	names, err := resolveComponents(inv, o.Components, len(inv.Components)+1+d.Plan.DrainedNames(), false)
	if err != nil {
		return err
	}
	var drainedInInventory []string // only an editor can undrain these
	var unknown error
	for _, name := range names {
		c, exists := inv.ComponentNamed(name)
		isDrained := d.Plan.Drain(name) != nil
		if isDrained {
			r.Changed = append(r.Changed, name)
		}
		switch {
		case exists && c.Drained:
			drainedInInventory = append(drainedInInventory, name)
		case isDrained: // in r.Changed already
		case exists:
			r.Unchanged = append(r.Unchanged, name)
		case unknown == nil:
			unknown = UnknownComponent(inv, name)
		}
	}
	switch {
	case len(drainedInInventory) > 0:
		r.Failed = fmt.Sprintf("drained in %s; remove drained: true there for: %s", file, strings.Join(nameset.Fold(drainedInInventory), " "))
	case unknown != nil:
		r.Failed = unknown.Error()
	}
	if len(r.Changed) > 0 {
		d.Undrain(r.Changed)
	}
	return nil
}

// checkReserved fails if slivers that have not begun are reserved in the planned maintenance. It lists the first ones.
func (e *maintenanceEndpoint) checkReserved(o *operate.MaintenanceOrder, inv *inventory.Inventory) error {
	names, err := resolveComponents(inv, o.Components, len(inv.Components)+1, true)
	if err != nil {
		return err
	}
	slivers, err := e.slivers()
	if err != nil {
		return err
	}
	const most = 10
	var lines []string
	for i := range slivers {
		x := &slivers[i]
		c, ok := inv.ComponentOf(x)
		if ok && x.Waits() && x.Begins.Before(o.Until) && x.Ends.After(o.From) && (len(names) == 0 || slices.Contains(names, c.Name)) {
			then := "would begin at the end of the maintenance"
			switch {
			case x.Begins.Before(o.From):
				then = "begins before the maintenance, and stays"
			case !x.Ends.After(o.Until):
				then = "would be lost, since it ends before the maintenance"
			}
			lines = append(lines, fmt.Sprintf("%s/%s on %s from %s until %s, of %s, %s", x.Slice.Name, x.ClientID, c.Name, x.Begins.Format(time.RFC3339), x.Ends.Format(time.RFC3339), x.Creator, then))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s reserved in this time; plan it nevertheless with --over:\n  %s", display.Count(len(lines), "sliver"), strings.Join(lines[:min(len(lines), most)], "\n  "))
	if len(lines) > most {
		text += fmt.Sprintf("\n  %d more", len(lines)-most)
	}
	return errors.New(text)
}

// planWindow adds a maintenance, and removes past ones.
func planWindow(d *maintenance.Draft, o *operate.MaintenanceOrder, inv *inventory.Inventory, now time.Time) error {
	names, err := resolveComponents(inv, o.Components, len(inv.Components)+1, true)
	switch {
	case err != nil:
		return err
	case !o.Until.After(o.From):
		return fmt.Errorf("the end %s is not after the beginning %s", o.Until.Format(time.RFC3339), o.From.Format(time.RFC3339))
	case !o.Until.After(now):
		return fmt.Errorf("the end %s is in the past", o.Until.Format(time.RFC3339))
	}
	d.Remove(func(w *maintenance.Window) bool { return !w.Until.After(now) })
	d.Add(maintenance.Window{Components: nameset.Fold(names), From: o.From, Until: o.Until, Text: o.Text})
	return nil
}

func (r *maintenanceChange) cancel(d *maintenance.Draft, numbers []int) error {
	n := len(d.Plan.Planned)
	if n == 0 {
		return errors.New("no maintenance is planned")
	}
	var cancelled []*maintenance.Window
	for _, i := range numbers {
		if i < 1 || i > n {
			return fmt.Errorf("there is no number %d; the list has %d", i, n)
		}
	}
	for i, w := range d.Plan.Planned {
		if slices.Contains(numbers, i+1) {
			cancelled = append(cancelled, w)
			r.Changed = append(r.Changed, windowLine(w))
		}
	}
	d.Remove(func(w *maintenance.Window) bool { return slices.Contains(cancelled, w) })
	return nil
}

func windowLine(w *maintenance.Window) string {
	return fmt.Sprintf("%s, %s to %s: %s", w.Where(), w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339), w.Text)
}

// resolveComponents returns each name once. It fails for more than limit names in one text. If
// mustExist is true, it also fails for a name that is not in the inventory.
func resolveComponents(inv *inventory.Inventory, texts []string, limit int, mustExist bool) (names []string, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		some, err := componentsOf(inv, text, limit, mustExist)
		if err != nil {
			return nil, err
		}
		for _, name := range some {
			if !seen[name] {
				names, seen[name] = append(names, name), true
			}
		}
	}
	return names, nil
}

// componentsOf accepts names and ranges separated by commas, or the URN of a component.
func componentsOf(inv *inventory.Inventory, text string, limit int, mustExist bool) (names []string, err error) {
	if strings.ContainsAny(text, "*?") {
		return nil, fmt.Errorf("%s is a pattern; give names, or a range such as pc1..pc4. To list components: %s", text, display.Command("nodes", text))
	}
	if !strings.HasPrefix(strings.ToLower(text), "urn:") {
		for one := range strings.SplitSeq(text, ",") {
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
	u, err := urn.Parse(text)
	if err != nil {
		return nil, err
	}
	c, ok := inv.Component(u)
	if !ok {
		return nil, UnknownComponent(inv, text)
	}
	return []string{c.Name}, nil
}

// checkInInventory fails if the inventory lacks a component. For a range, the error names
// the last existing component. The syntax is not checked.
func checkInInventory(inv *inventory.Inventory, text string) error {
	r, isRange := nameset.Parse(text)
	if !isRange {
		if _, ok := inv.ComponentNamed(text); ok || text == "" {
			return nil
		}
		err := UnknownComponent(inv, text)
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
			return UnknownComponent(inv, name)
		}
	}
	return nil
}

// UnknownComponent returns the error for a name that no component has. The error suggests a
// similar name.
func UnknownComponent(inv *inventory.Inventory, name string) error {
	near := ""
	if n := display.Suggest(name, componentNames(inv)); n != "" {
		near = fmt.Sprintf("; did you mean %s?", n)
	}
	return fmt.Errorf("the inventory has no component %q%s", name, near)
}

// componentNames returns the first 1000 names, for suggestions.
func componentNames(inv *inventory.Inventory) (names []string) {
	for _, c := range inv.Components[:min(len(inv.Components), 1000)] {
		names = append(names, c.Name)
	}
	return names
}

// explainNoSocket adds to the error of a request about the maintenance what to do if a server
// runs without an admin socket.
func explainNoSocket(err error, file string) error {
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w; if so, the server has no %s: edit %s, which the server reads within a second", err, SocketName, file)
	}
	return err
}
