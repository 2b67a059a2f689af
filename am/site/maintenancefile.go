package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/inventory"
)

// unreadable is shown to experimenters if the file could not be read when the server started.
const unreadable = "the operators of this aggregate have to repair its settings; please try again later"

// maintenanceFile applies the maintenance file to a served site, at the start and after each
// change of the file.
type maintenanceFile struct {
	file  string
	inv   func() *inventory.Inventory
	store *store.Store
	site  *service.Service
	log   *slog.Logger

	reading   chan struct{} // has a value while the file is read; guards the fields below
	seen      fileStamp
	plan      *maintenance.Plan // the last valid content of the file; nil before the first read
	lastError error             // of the last read; nil if the read succeeded
	extra     extraPlan         // applies in addition to plan

	locked atomic.Bool                      // the file locks the site down
	broken atomic.Bool                      // the file cannot be read
	shown  atomic.Pointer[maintenance.Plan] // plan and extra combined, readable without the lock
}

func newMaintenanceFile(file string, inv func() *inventory.Inventory, st *store.Store, site *service.Service, log *slog.Logger) *maintenanceFile {
	return &maintenanceFile{file: file, inv: inv, store: st, site: site, log: log, reading: make(chan struct{}, 1)}
}

// lock waits until no other goroutine reads the file, or fails when ctx ends.
func (u *maintenanceFile) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case u.reading <- struct{}{}:
		return func() { <-u.reading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read applies the file if it has changed. If the file has mistakes, the previous plan still
// applies. Without a previous plan, read locks the site down.
func (u *maintenanceFile) read(ctx context.Context) error {
	done, err := u.lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	now := stampOf(u.file)
	if u.plan != nil && now == u.seen {
		return nil
	}
	plan, err := maintenance.Read(u.file)
	u.lastError = err
	u.broken.Store(err != nil)
	switch {
	case err != nil && u.plan == nil:
		u.log.Error("the maintenance file cannot be read, so the site starts locked down; repair the file, or remove it", "error", err)
		plan = &maintenance.Plan{Lockdown: &maintenance.Lockdown{Text: unreadable}, Fingerprint: "unreadable"}
	case err != nil:
		u.log.Error("the maintenance file cannot be read; its previous content still applies", "error", err)
		u.seen = now
		return nil
	case u.plan != nil && u.plan.Fingerprint == plan.Fingerprint:
		u.seen = now
		return nil
	}
	combined := plan.With(u.extra.lockdown, u.extra.drains)
	if err := u.site.SetPlan(ctx, combined); err != nil {
		return err // u.seen is unchanged, so the next call tries again
	}
	first := u.plan == nil
	u.seen, u.plan = now, plan
	u.locked.Store(plan.Lockdown != nil)
	u.shown.Store(combined)
	if !first || plan.Lockdown != nil || len(plan.Planned)+len(plan.Drained) > 0 {
		u.logPlan(plan)
	}
	return nil
}

func (u *maintenanceFile) logPlan(p *maintenance.Plan) {
	text := ""
	if p.Lockdown != nil {
		text = p.Lockdown.Text
	}
	u.log.Info("maintenance read", "file", u.file, "lockdown", text, "planned", len(p.Planned), "drained", len(p.Drained))
	u.logUnknown(p)
}

// logUnknown logs names that the inventory does not have. If a component was renamed, its entry
// in the file has no effect, and the component is in service.
func (u *maintenanceFile) logUnknown(p *maintenance.Plan) {
	for _, x := range p.Unknown(u.hasComponent) {
		u.log.Error("the maintenance file names a component that the inventory does not have, so a renamed component takes new slivers; correct the name, or remove the entry",
			"file", u.file, "line", x.Line, "component", x.Name)
	}
}

func (u *maintenanceFile) countUnknown() int { return len(u.shown.Load().Unknown(u.hasComponent)) }

func (u *maintenanceFile) hasComponent(name string) bool {
	_, ok := u.inv().ComponentNamed(name)
	return ok
}

// watch calls read after changes of the file, until ctx ends.
func (u *maintenanceFile) watch(ctx context.Context) {
	watchFiles(ctx, 0, func() string { return fmt.Sprint(stampOf(u.file)) }, func(string) {
		if err := u.read(ctx); err != nil && !errors.Is(err, context.Canceled) {
			u.log.Error("the maintenance file was applied, but running calls may not follow it yet", "error", err)
		}
	})
}

// state reads the file first, so that the state includes a change that a command has just
// made.
func (u *maintenanceFile) state(ctx context.Context) (s operate.MaintenanceState, err error) {
	if err := u.read(ctx); err != nil {
		return s, err
	}
	done, err := u.lock(ctx)
	if err != nil {
		return s, err
	}
	plan, wrong := u.plan, u.lastError
	done()
	slivers, err := u.store.Slivers()
	if err != nil {
		return s, err
	}
	s = maintenanceState(plan, u.inv(), slivers, u.store.Now())
	if wrong != nil {
		s.Wrong = wrong.Error()
	}
	return s, nil
}

// changeExtra lets change modify u.extra, and applies the new plan.
func (u *maintenanceFile) changeExtra(ctx context.Context, change func(*extraPlan)) error {
	done, err := u.lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	was := u.extra
	if change(&u.extra); u.extra.equal(was) || u.plan == nil {
		return nil
	}
	u.logDrains(was.drains, u.extra.drains)
	plan := u.plan.With(u.extra.lockdown, u.extra.drains)
	u.shown.Store(plan)
	return u.site.SetPlan(ctx, plan)
}

func (u *maintenanceFile) logDrains(was, now []*maintenance.Drain) {
	in := func(all []*maintenance.Drain, d *maintenance.Drain) bool {
		return slices.ContainsFunc(all, func(x *maintenance.Drain) bool { return x.Components[0] == d.Components[0] })
	}
	for _, d := range now {
		if !in(was, d) {
			u.log.Warn("a component takes no new slivers, since it has orphans; see patchbay nodes --orphans", "component", d.Components[0], "reason", d.Text)
		}
	}
	for _, d := range was {
		if !in(now, d) {
			u.log.Info("a component has no orphans any more, and takes new slivers", "component", d.Components[0])
		}
	}
}

// maxAffected limits the entries of operate.MaintenanceState.Affected.
const maxAffected = 1000

// maintenanceState describes a plan and counts the live slivers that it concerns.
func maintenanceState(p *maintenance.Plan, inv *inventory.Inventory, slivers []am.Sliver, now time.Time) operate.MaintenanceState {
	s := operate.MaintenanceState{Lockdown: p.Lockdown, Planned: p.Planned}
	indexes := map[*maintenance.Window]int{} // in s.Planned
	for i, w := range p.Planned {
		indexes[w] = i
	}
	type key struct {
		planned int
		slice   string
	}
	affected, provisioned := map[key]operate.AffectedSlice{}, map[string]bool{} // provisioned is by slice
	for _, x := range slivers {
		if !x.Live(now) {
			continue
		}
		switch {
		case x.Status.Allocation == am.Allocated && !x.Begins.IsZero():
			s.Waiting++
		case x.Status.Allocation == am.Allocated:
			s.Reserved++
		default:
			s.Slivers++
			provisioned[x.Slice.Key()] = true
		}
		c, ok := inv.ComponentOf(&x)
		if !ok {
			continue
		}
		for _, w := range p.Windows(c.Name) {
			until := x.Expires
			if x.Waits() {
				until = x.Ends
			}
			if !w.Until.After(now) || !x.Frozen && !until.After(w.From) || x.Waits() && !x.Begins.Before(w.Until) {
				continue
			}
			k := key{indexes[w], x.Slice.String()}
			r := affected[k]
			r.Planned, r.Slice, r.Slivers = k.planned, k.slice, r.Slivers+1
			if !x.Frozen && until.After(r.Until) {
				r.Until = until
			}
			if x.Waits() && (r.Begins.IsZero() || x.Begins.Before(r.Begins)) {
				r.Begins = x.Begins
			}
			affected[k] = r
		}
	}
	for _, r := range affected {
		s.Affected = append(s.Affected, r)
	}
	slices.SortFunc(s.Affected, func(a, b operate.AffectedSlice) int {
		return cmp.Or(cmp.Compare(a.Planned, b.Planned), cmp.Compare(a.Slice, b.Slice))
	})
	s.Slices, s.Affected = len(provisioned), s.Affected[:min(len(s.Affected), maxAffected)]
	return s
}

// extraPlan applies in addition to the maintenance file: a lockdown after a restore or of a
// read-only site, and drains because of orphans.
type extraPlan struct {
	lockdown *maintenance.Lockdown // nil for none
	drains   []*maintenance.Drain  // by component
}

func (h extraPlan) equal(o extraPlan) bool {
	return h.lockdown == o.lockdown && slices.EqualFunc(h.drains, o.drains, func(a, b *maintenance.Drain) bool {
		return a.Components[0] == b.Components[0] && a.Text == b.Text && a.Since.Equal(b.Since)
	})
}

// DrainText describes a drain in one line.
func DrainText(d *maintenance.Drain) string {
	text := strings.Join(d.Components, " ")
	if d.Text != "" {
		text += ": " + d.Text
	}
	return text
}
