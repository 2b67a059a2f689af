package web

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/inventory/nameset"
)

var todayRoutes = []route{
	{"GET /ui/operator/{$}", operators, (*request).showToday, (*request).siteRevision},
	{"POST /ui/operator/maintenance", operators, (*request).changeMaintenance, nil},
	{"POST /ui/operator/orphans", operators, (*request).removeOrphans, nil},
}

const (
	// soon is how long before its end a lease is shown on the operator's day.
	soon = 2 * time.Hour
	// startsSoon is how long before its start a reservation is shown.
	startsSoon = 24 * time.Hour
	// late is how long after its start a reservation that has not begun counts as late.
	late = time.Minute
	// failureAge is how old the journal's entry about a failed node may be.
	failureAge = 7 * 24 * time.Hour
	// maxToday limits the rows of each table of the day.
	maxToday = 100
)

// todayBody is the data of templates/today.html.
type todayBody struct {
	sent
	At          time.Time
	Failing     []failing
	Off         []operate.Sliver // that a shutdown has switched off
	Providers   []providerRow
	Stuck       []operate.Task // with failed attempts
	Working     int            // other tasks
	Soon        []operate.Slice
	Starts      []operate.Slice // with slivers that begin within a day, or whose start has come
	ShutDown    []operate.Slice
	Drained     []operate.Node
	Orphans     []operate.OrphanRow
	Maintenance operate.MaintenanceState
}

// failing is a node that failed, or whose setup failed.
type failing struct {
	operate.Sliver
	Last *operate.Entry // of the journal about it; nil for none
}

// Output is the end of the output of the failed step.
func (f failing) Output() string { return lastBytes(f.SetupOutput, 2000) }

// providerRow is a provider with what depends on it.
type providerRow struct {
	operate.Provider
	Components, Slivers int
}

// WindowState returns planned, maintenance or over.
func (x *todayBody) WindowState(w *maintenance.Window) string {
	switch {
	case !w.Until.After(x.At):
		return "over"
	case w.IsInForce(x.At):
		return "maintenance"
	}
	return "planned"
}

// showToday shows what needs the operator.
func (q *request) showToday() error {
	x := todayBody{sent: q.sent(), At: q.now}
	var orphans, soonOver, shutDown error
	x.Orphans, orphans = list[operate.OrphanRow](q, "orphans", operate.Filter{})
	x.Soon, soonOver = list[operate.Slice](q, "slices", operate.Filter{EndsBefore: q.now.Add(soon), Limit: maxToday})
	x.ShutDown, shutDown = list[operate.Slice](q, "slices", operate.Filter{Shutdown: true, Limit: maxToday})
	maintenance := q.operate("/maintenance", nil, &x.Maintenance)
	if err := errors.Join(orphans, soonOver, shutDown, maintenance, x.readNodes(q), x.readFailing(q), x.readOff(q), x.readTasks(q), x.readStarts(q)); err != nil {
		return err
	}
	x.Soon = slices.DeleteFunc(x.Soon, func(s operate.Slice) bool { return s.Slivers == 0 || !s.Shutdown.IsZero() })
	slices.SortFunc(x.Soon, func(a, b operate.Slice) int { return a.Expires.Compare(b.Expires) })
	return q.render(page{Name: "today", Title: "Today", Tab: "today", Body: &x})
}

// IsCalm reports whether nothing needs the operator.
func (x *todayBody) IsCalm() bool {
	isSilent := func(p providerRow) bool { return p.Silent }
	return !slices.ContainsFunc(x.Starts, x.IsLate) && len(x.Failing)+len(x.Stuck)+len(x.Orphans)+len(x.ShutDown) == 0 && !slices.ContainsFunc(x.Providers, isSilent) && x.Maintenance.Wrong == ""
}

// IsDrained reports whether a component is drained.
func (x *todayBody) IsDrained(component string) bool {
	return slices.ContainsFunc(x.Drained, func(n operate.Node) bool { return n.Name == component })
}

// readFailing adds the failing nodes, each with the latest entry of the journal about its failure.
func (x *todayBody) readFailing(q *request) error {
	found, err := list[operate.Sliver](q, "slivers", operate.Filter{State: "failed," + operate.StateSetupFailed, Limit: maxToday})
	if err != nil || len(found) == 0 {
		return err
	}
	last, err := q.lastEvents(string(am.EventGaveUp), string(am.EventLost), am.EventStepFailed)
	for _, s := range found {
		x.Failing = append(x.Failing, failing{s, last[s.URN.Key()]})
	}
	slices.SortStableFunc(x.Failing, func(a, b failing) int { return cmp.Compare(a.Setup, b.Setup) }) // failed nodes first
	return err
}

// lastEvents returns the latest entry of the journal with one of the events by the keys of slivers.
func (q *request) lastEvents(events ...string) (map[string]*operate.Entry, error) {
	entries, err := list[operate.Entry](q, "journal", operate.Filter{State: strings.Join(events, ","), Since: q.now.Add(-failureAge), Limit: 10 * maxToday})
	last := map[string]*operate.Entry{}
	for i := range entries {
		for _, u := range entries[i].Slivers {
			last[u.Key()] = &entries[i]
		}
	}
	return last, err
}

// readOff adds the nodes that are off since their slice was shut down and thawed.
func (x *todayBody) readOff(q *request) error {
	found, err := list[operate.Sliver](q, "slivers", operate.Filter{State: "notready"})
	if err != nil || len(found) == 0 {
		return err
	}
	last, err := q.lastEvents(operate.EventThaw, string(am.ActionStart), string(am.ActionRestart))
	for _, s := range found {
		if e := last[s.URN.Key()]; e != nil && e.Event == operate.EventThaw && len(x.Off) < maxToday {
			x.Off = append(x.Off, s)
		}
	}
	return err
}

// readNodes adds the drained components, and the providers with the numbers of their components and slivers.
func (x *todayBody) readNodes(q *request) error {
	nodes, err := list[operate.Node](q, "nodes", operate.Filter{})
	if err != nil {
		return err
	}
	providers, err := list[operate.Provider](q, "providers", operate.Filter{})
	for _, p := range providers {
		r := providerRow{Provider: p}
		for i := range nodes {
			if nodes[i].Provider == p.Name {
				r.Components++
				r.Slivers += nodes[i].Slivers
			}
		}
		x.Providers = append(x.Providers, r)
	}
	x.Drained = slices.DeleteFunc(nodes, func(n operate.Node) bool { return n.Drained == "" })
	return err
}

// readStarts adds the slices whose slivers begin soon, the earliest first.
func (x *todayBody) readStarts(q *request) error {
	found, err := list[operate.Slice](q, "slices", operate.Filter{State: operate.StateAllocated})
	found = slices.DeleteFunc(found, func(s operate.Slice) bool { return s.Waiting == 0 || s.Begins.After(q.now.Add(startsSoon)) })
	slices.SortFunc(found, func(a, b operate.Slice) int { return a.Begins.Compare(b.Begins) })
	x.Starts = found[:min(len(found), maxToday)]
	return err
}

// IsLate reports whether slivers of a slice wait although their start has come.
func (x *todayBody) IsLate(s operate.Slice) bool { return s.Begins.Before(x.At.Add(-late)) }

func (x *todayBody) readTasks(q *request) error {
	tasks, err := list[operate.Task](q, "tasks", operate.Filter{})
	for _, t := range tasks {
		if t.Attempt > 0 && len(x.Stuck) < maxToday {
			x.Stuck = append(x.Stuck, t)
		} else {
			x.Working++
		}
	}
	return err
}

// affectedText names the slices whose leases end after the planned maintenance with the index i begins; "" for none.
func affectedText(m operate.MaintenanceState, i int) string {
	var names []string
	for _, s := range m.Affected {
		if u, err := urn.Parse(s.Slice); err == nil && s.Planned == i {
			names = append(names, u.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("Leases of %s end later, and their slivers stay: %s.", display.Count(len(names), "slice"), someOf(names))
}

// sliverStates are the words for people of the states of slivers that have others, as in experiment.StateWord.
var sliverStates = map[string]string{
	operate.StateRemoving: "being removed", operate.StateAllocated: "reserved", operate.StateMaking: "being created",
	"notready": "stopped", "configuring": "starting", "updating_users": "updating",
	operate.StateSetupFailed: "setup failed", operate.StateSettingUp: "setting up",
}

// stateWord returns a state of a sliver as a word for people.
func stateWord(state string) string { return cmp.Or(sliverStates[state], state) }

// stateOf returns the state of a sliver in the words of experiment.StateWord.
func stateOf(s operate.Sliver) string {
	word := stateWord(s.State)
	switch {
	case s.Setup == operate.SetupFailed && (word == "ready" || word == "failed"):
		return "setup failed"
	case s.Setup == operate.SetupRuns && word == "starting":
		return "setting up"
	}
	return word
}

// siteRevision numbers the changes of the site's state. It also differs each minute, because providers become
// silent and maintenance begins without a change.
func (q *request) siteRevision() (uint64, error) {
	return q.Revision() + uint64(q.Now().Unix()/60)<<32, nil
}

// maintenanceOrder reads the order of a form.
func (q *request) maintenanceOrder() (o operate.MaintenanceOrder, err error) {
	o = operate.MaintenanceOrder{Event: q.r.PostFormValue("event"), Over: q.r.PostFormValue("over") == "yes", Operator: q.visitor.Operator}
	o.Components = append(strings.FieldsFunc(q.r.PostFormValue("components"), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), q.r.PostForm["component"]...)
	if o.Event == operate.CancelMaintenance {
		return o, q.findWindow(&o)
	}
	if o.Event == operate.LiftLockdown {
		return o, nil
	}
	if o.Text, err = q.reason(); err != nil {
		return o, err
	}
	switch isWhole := q.r.PostFormValue("all") != ""; {
	case o.Event == operate.LockDown:
	case len(o.Components) == 0 && !q.r.PostForm.Has("components"):
		return o, badRequest("Tick the components.")
	case len(o.Components) == 0 && !isWhole:
		return o, badRequest("Name the components, such as pc1, or pc1..pc4.")
	case len(o.Components) > 0 && isWhole:
		return o, badRequest("The whole site has all components. Name components, or tick the whole site.")
	}
	if o.Event == operate.PlanMaintenance {
		now := q.now.UTC().Truncate(time.Second)
		if o.From, err = operate.ParseFuture("", timeText(q.r.PostForm, "from"), now); err == nil {
			o.Until, err = operate.ParseFuture("", timeText(q.r.PostForm, "until"), o.From)
		}
		switch {
		case err != nil:
			return o, badRequest("Give the beginning and the end each as one time, or as one duration such as 2h or 3d.")
		case timeText(q.r.PostForm, "until") == "":
			return o, badRequest("Say when the maintenance ends.")
		case !o.Until.After(o.From):
			return o, badRequest("The maintenance would end at %s, before it begins at %s.", inUTC(o.Until), inUTC(o.From))
		}
	}
	return o, nil
}

// findWindow adds the number of the planned maintenance that the form describes, since the numbers change.
func (q *request) findWindow(o *operate.MaintenanceOrder) error {
	var state operate.MaintenanceState
	if err := q.operate("/maintenance", nil, &state); err != nil {
		return err
	}
	i := slices.IndexFunc(state.Planned, func(w *maintenance.Window) bool { return windowKey(w) == q.r.PostFormValue("window") })
	if i < 0 {
		return badRequest("This maintenance is not planned any more.")
	}
	o.Numbers = []int{i + 1}
	return nil
}

// windowKey tells a planned maintenance from others.
func windowKey(w *maintenance.Window) string {
	return fmt.Sprintf("%d %d %s: %s", w.From.Unix(), w.Until.Unix(), w.Where(), w.Text)
}

// changeMaintenance carries out an order about drains, lockdowns and planned maintenance.
func (q *request) changeMaintenance() error {
	o, err := q.maintenanceOrder()
	var r operate.MaintenanceResult
	if err == nil {
		err = q.order("/maintenance", o, &r)
	}
	if err != nil {
		return q.refuse(err)
	}
	return q.redirect(q.back(), maintenanceNotices(&o, &r)...)
}

// maintenanceNotices says what an order has changed, in the words of the commands.
func maintenanceNotices(o *operate.MaintenanceOrder, r *operate.MaintenanceResult) (all []notice) {
	add := func(names []string, text string) {
		if len(names) > 0 {
			all = append(all, done("%s: %s", text, strings.Join(nameset.Fold(names), " ")))
		}
	}
	switch o.Event {
	case operate.Drain:
		add(r.Changed, "Drained, no new slivers there")
		add(r.Unchanged, "Already drained")
	case operate.Undrain:
		add(r.Changed, "No longer drained")
		add(r.Unchanged, "Not drained")
	case operate.LockDown:
		all = append(all, done("New reservations are refused from now on. Existing nodes continue: %s of %s.", display.Count(r.State.Slivers, "sliver"), display.Count(r.State.Slices, "slice")))
	case operate.LiftLockdown:
		all = append(all, done("New reservations are accepted again."))
	case operate.CancelMaintenance:
		add(r.Changed, "Cancelled")
	case operate.PlanMaintenance:
		all = append(all, done("Maintenance is planned, of %s, from %s until %s.", r.Window.Where(), inUTC(r.Window.From), inUTC(r.Window.Until)))
		r.Warning = strings.TrimSpace(affectedText(r.State, r.Number-1) + " " + r.Warning)
	}
	for _, text := range []string{r.Failed, r.Warning} {
		if text != "" {
			all = append(all, notice{true, text})
		}
	}
	return all
}

// removeOrphans removes the ticked orphans.
func (q *request) removeOrphans() error {
	text, err := q.reason()
	var results []operate.OrphanResult
	if err == nil {
		err = q.order("/orphans", operate.OrphanOrder{Resources: q.r.PostForm["resource"], Text: text, Operator: q.visitor.Operator}, &results)
	}
	if err != nil {
		return q.refuse(err)
	}
	var all []notice
	for _, r := range results {
		what := fmt.Sprintf("%s of provider %s", r.Resource, r.Provider)
		switch {
		case r.Gone:
			all = append(all, done("Removed: %s.", what))
		case r.Wrong != "":
			all = append(all, notice{true, "Not removed: " + what + ": " + r.Wrong})
		default:
			all = append(all, done("Removal requested, not yet confirmed: %s.", what))
		}
	}
	return q.redirect(q.back(), all...)
}
