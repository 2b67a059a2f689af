package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"patchbay/am/maintenance"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/inventory"
)

// unreadable is what experimenters are told while nobody knows whether the site
// is locked down.
const unreadable = "the operators of this aggregate have to mend its settings; please try again later"

// upkeep keeps a served site in step with its maintenance file.
type upkeep struct {
	file  string
	inv   func() *inventory.Inventory // in force
	store *store.Store
	site  *service.Service
	log   *slog.Logger

	turn  chan struct{} // holds one who reads, and guards what follows
	seen  stamp
	plan  *maintenance.Plan // of the file, in force; nil before the first reading
	wrong error             // with the file as it is now
	hold  holding           // in force beside it

	locked, broken atomic.Bool                      // the site takes no new work; the file cannot be read
	shown          atomic.Pointer[maintenance.Plan] // plan and hold, for those who only look
}

func newUpkeep(file string, inv func() *inventory.Inventory, st *store.Store, site *service.Service, log *slog.Logger) *upkeep {
	return &upkeep{file: file, inv: inv, store: st, site: site, log: log, turn: make(chan struct{}, 1)}
}

// take waits for the turn, no longer than ctx lasts; done gives it to the next.
func (u *upkeep) take(ctx context.Context) (done func(), err error) {
	select {
	case u.turn <- struct{}{}:
		return func() { <-u.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read takes in what the file says, if it has changed. With mistakes in it, what
// is in force stays so; if nothing is yet, the site is locked down.
func (u *upkeep) read(ctx context.Context) error {
	done, err := u.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	now := stampOf(u.file)
	if u.plan != nil && now == u.seen {
		return nil
	}
	plan, err := maintenance.Read(u.file)
	u.wrong = err
	u.broken.Store(err != nil)
	switch {
	case err != nil && u.plan == nil:
		u.log.Error("the maintenance file cannot be read, so the site starts locked down; mend it, or remove it", "error", err)
		plan = &maintenance.Plan{Lockdown: &maintenance.Lockdown{Text: unreadable}, Fingerprint: "unreadable"}
	case err != nil:
		u.log.Error("the maintenance file cannot be read; what it said stays in force", "error", err)
		u.seen = now
		return nil
	case u.plan != nil && u.plan.Fingerprint == plan.Fingerprint:
		u.seen = now
		return nil
	}
	both := plan.With(u.hold.lockdown, u.hold.held)
	if err := u.site.Heed(ctx, both); err != nil {
		return err
	}
	first := u.plan == nil
	u.seen, u.plan = now, plan
	u.locked.Store(plan.Lockdown != nil)
	u.shown.Store(both)
	if !first || plan.Lockdown != nil || len(plan.Planned)+len(plan.Drained) > 0 {
		u.tell(plan)
	}
	return nil
}

// tell logs what is in force.
func (u *upkeep) tell(p *maintenance.Plan) {
	text := ""
	if p.Lockdown != nil {
		text = p.Lockdown.Text
	}
	u.log.Info("maintenance read", "file", u.file, "lockdown", text, "planned", len(p.Planned), "drained", len(p.Drained))
	u.tellUnknown(p)
}

// tellUnknown logs what keeps nothing out of service, at each start and reload: a
// component that has got another name is in service.
func (u *upkeep) tellUnknown(p *maintenance.Plan) {
	for _, x := range p.Unknown(u.has) {
		u.log.Error("the maintenance file names a component that the inventory does not have, so one that was renamed takes new work; put the right name there, or take it out",
			"file", u.file, "line", x.Line, "component", x.Name)
	}
}

// unknown counts the entries of the file that name what the inventory does not have.
func (u *upkeep) unknown() int { return len(u.shown.Load().Unknown(u.has)) }

func (u *upkeep) has(name string) bool {
	_, ok := u.inv().ComponentNamed(name)
	return ok
}

// watch reads the file again whenever it has changed, until ctx ends.
func (u *upkeep) watch(ctx context.Context) {
	watchFiles(ctx, 0, func() string { return fmt.Sprint(stampOf(u.file)) }, func(string) {
		if err := u.read(ctx); err != nil && !errors.Is(err, context.Canceled) {
			u.log.Error("maintenance is heeded, but it is not sure that all calls know", "error", err)
		}
	})
}

// answer is what the socket tells: the file is read first, so that who has
// written it knows that it counts.
func (u *upkeep) answer(ctx context.Context) ([]byte, error) {
	if err := u.read(ctx); err != nil {
		return nil, err
	}
	done, err := u.take(ctx)
	if err != nil {
		return nil, err
	}
	plan, wrong := u.plan, u.wrong
	done()
	slivers, err := u.store.Slivers()
	if err != nil {
		return nil, err
	}
	s := stateOf(plan, u.inv(), slivers, u.store.Now())
	if wrong != nil {
		s.Wrong = wrong.Error()
	}
	return json.Marshal(s)
}

// beside lets change say what is heeded beside the file, and heeds it.
func (u *upkeep) beside(ctx context.Context, change func(*holding)) error {
	done, err := u.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	was := u.hold
	if change(&u.hold); u.hold.same(was) || u.plan == nil {
		return nil
	}
	u.tellHeld(was.held, u.hold.held)
	plan := u.plan.With(u.hold.lockdown, u.hold.held)
	u.shown.Store(plan)
	return u.site.Heed(ctx, plan)
}

// tellHeld logs what is held now, and what is not any more.
func (u *upkeep) tellHeld(was, now []*maintenance.Drain) {
	in := func(all []*maintenance.Drain, d *maintenance.Drain) bool {
		return slices.ContainsFunc(all, func(x *maintenance.Drain) bool { return x.Components[0] == d.Components[0] })
	}
	for _, d := range now {
		if !in(was, d) {
			u.log.Warn("nothing new goes to a component; see patchbay nodes --unpromised", "component", d.Components[0], "reason", d.Text)
		}
	}
	for _, d := range was {
		if !in(now, d) {
			u.log.Info("a component has nothing any more that nobody was promised", "component", d.Components[0])
		}
	}
}
