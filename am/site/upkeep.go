package site

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/maintenance"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/inventory"
	"patchbay/inventory/suggest"
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
	if err := u.site.SetPlan(ctx, both); err != nil {
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
	return u.site.SetPlan(ctx, plan)
}

// tellHeld logs what is held now, and what is not any more.
func (u *upkeep) tellHeld(was, now []*maintenance.Drain) {
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

// UpkeepState is what a site heeds of its maintenance file, and whom it meets.
type UpkeepState struct {
	Fingerprint string // of the file that is in force
	Lockdown    string // what experimenters are told; "" for none
	Wrong       string // what is wrong with the file now; "" for nothing
	Slices      int    // that have slivers which are more than reserved
	Slivers     int    // of those
	Reserved    int    // slivers that are not provisioned, and lapse
	Reaches     []Reach
}

// Reach says that a slice has slivers on what is to be maintained, for longer
// than until its beginning.
type Reach struct {
	Planned int // the window's place in the file, from 0
	Slice   string
	Slivers int
	Until   time.Time // the last lease; zero for slivers that are frozen
}

// maxReaches bounds the answer; nobody reads more.
const maxReaches = 1000

// stateOf looks at all slivers that live.
func stateOf(p *maintenance.Plan, inv *inventory.Inventory, slivers []am.Sliver, now time.Time) UpkeepState {
	s := UpkeepState{Fingerprint: p.Fingerprint}
	if p.Lockdown != nil {
		s.Lockdown = p.Lockdown.Text
	}
	places := map[*maintenance.Window]int{}
	for i, w := range p.Planned {
		places[w] = i
	}
	type key struct {
		planned int
		slice   string
	}
	reaches, having := map[key]Reach{}, map[string]bool{}
	for _, x := range slivers {
		if !x.Live(now) {
			continue
		}
		if x.Status.Allocation == am.Allocated {
			s.Reserved++
		} else {
			s.Slivers++
			having[x.Slice.Key()] = true
		}
		c, ok := inv.Home(&x)
		if !ok {
			continue
		}
		for _, w := range p.Of(c.Name) {
			if !w.Until.After(now) || !x.Frozen && !x.Expires.After(w.From) {
				continue
			}
			k := key{places[w], x.Slice.String()}
			r := reaches[k]
			r.Planned, r.Slice, r.Slivers = k.planned, k.slice, r.Slivers+1
			if !x.Frozen && x.Expires.After(r.Until) {
				r.Until = x.Expires
			}
			reaches[k] = r
		}
	}
	for _, r := range reaches {
		s.Reaches = append(s.Reaches, r)
	}
	slices.SortFunc(s.Reaches, func(a, b Reach) int {
		return cmp.Or(cmp.Compare(a.Planned, b.Planned), cmp.Compare(a.Slice, b.Slice))
	})
	s.Slices, s.Reaches = len(having), s.Reaches[:min(len(s.Reaches), maxReaches)]
	return s
}

// askUpkeep asks a served site for its state, after it has read the file.
func askUpkeep(ctx context.Context, c *Config) (s UpkeepState, err error) {
	err = Ask(ctx, c, "/maintenance", &s)
	return s, err
}

// UpkeepOf gives the state of a site, and whether it is served. The plan is what
// its file says.
func UpkeepOf(ctx context.Context, c *Config, p *maintenance.Plan) (s UpkeepState, served bool, err error) {
	if s, err = askUpkeep(ctx, c); !errors.Is(err, ErrNotServed) {
		return s, true, err
	}
	inv, err := inventory.Load(c.Inventory, c.Authority)
	if err != nil {
		return s, false, err
	}
	var slivers []am.Sliver
	now := c.Now(ctx)
	has, err := c.HasState()
	if err != nil {
		return s, false, err
	}
	if has {
		st, err := c.LookAtState()
		if err != nil {
			return s, false, fmt.Errorf("%w; if so, it has no %s to be asked, and reads the file within a second", err, SocketName)
		}
		now = st.Now()
		slivers, err = st.Slivers()
		if err := errors.Join(err, st.Close()); err != nil {
			return s, false, err
		}
	}
	return stateOf(p, inv, slivers, now), false, nil
}

// Counts makes sure that what was written into the file is what a served site
// heeds.
func (s *UpkeepState) Counts(p *maintenance.Plan, c *Config) error {
	switch {
	case s.Fingerprint == p.Fingerprint:
		return nil
	case changedSince(p, c):
		return nil // by another operator, and over what p says; who wrote last is answered
	case s.Wrong != "":
		return fmt.Errorf("the served site cannot read what was written: %s", s.Wrong)
	}
	return fmt.Errorf("the served site does not read %s; it was started with another configuration, so start it again", c.Maintenance)
}

// changedSince tells whether the maintenance file is another than p by now.
func changedSince(p *maintenance.Plan, c *Config) bool {
	now, err := maintenance.Read(c.Maintenance)
	return err == nil && now.Fingerprint != p.Fingerprint
}

func (r Reach) String() string {
	if r.Until.IsZero() {
		return fmt.Sprintf("%s: %s, shut down and kept", r.Slice, display.Count(r.Slivers, "sliver"))
	}
	return fmt.Sprintf("%s: %s, until %s", r.Slice, display.Count(r.Slivers, "sliver"), r.Until.UTC().Format(time.RFC3339))
}

// holding is what a site heeds beside its maintenance file.
type holding struct {
	lockdown *maintenance.Lockdown // nil for none
	held     []*maintenance.Drain  // by component
}

// same tells whether the same is heeded.
func (h holding) same(o holding) bool {
	return h.lockdown == o.lockdown && slices.EqualFunc(h.held, o.held, func(a, b *maintenance.Drain) bool {
		return a.Components[0] == b.Components[0] && a.Text == b.Text && a.Since.Equal(b.Since)
	})
}

// DrainText is an entry of what is drained, in a line.
func DrainText(d *maintenance.Drain) string {
	text := strings.Join(d.Components, " ")
	if d.Text != "" {
		text += ": " + d.Text
	}
	return text
}

// NoComponent says that there is no component of a name.
func NoComponent(inv *inventory.Inventory, name string) error {
	near := ""
	if n := suggest.Word(name, componentNames(inv)); n != "" {
		near = fmt.Sprintf("; did you mean %s?", n)
	}
	return fmt.Errorf("the inventory has no component %q%s", name, near)
}

// WindowText is what a window is about, as it was written.
func WindowText(w *maintenance.Window) string {
	if len(w.Components) == 0 {
		return "the whole site"
	}
	return strings.Join(w.Components, " ")
}

// componentNames are the first names of an inventory, for hints.
func componentNames(inv *inventory.Inventory) (names []string) {
	for _, c := range inv.Components[:min(len(inv.Components), 1000)] {
		names = append(names, c.Name)
	}
	return names
}
