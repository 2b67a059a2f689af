package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/site/operate"
)

// maxEntries is the number of journal entries that a page shows, the latest ones.
const maxEntries = 20

// journalOf returns the latest journal entries of a slice, the newest last. Call it only for a slice in which the visitor has a
// role. It reads only what it has not yet, since the journal has the entries of all slices in one order.
func (q *request) journalOf(s sliceRecord) ([]operate.Entry, error) {
	key, since := s.URN.Key(), s.Created
	known := slices.Clone(q.journals.get(key))
	if len(known) > 0 { // the last known entry may have been joined with later ones
		if last := known[len(known)-1].At; last.After(since) {
			since = last
		}
		// Entries before the creation are those of an earlier slice of this name, perhaps of somebody else.
		known = slices.DeleteFunc(known, func(e operate.Entry) bool { return !e.At.Before(since) || e.At.Before(s.Created) })
	}
	f := operate.Filter{Slice: s.URN.String(), Since: since, Limit: maxEntries}
	later, err := list[operate.Entry](q, "journal", f)
	if err != nil {
		return nil, err
	}
	known = append(known, later...)
	known = known[max(0, len(known)-maxEntries):]
	q.journals.put(key, known)
	return known, nil
}

// doings are what the journal's events say of nodes, which replace %s.
var doings = map[am.Event]string{
	am.EventAllocate: "reserved %s", "CreateSliver": "created %s", am.EventProvision: "had %s created", am.EventChange: "changed %s",
	am.EventRenew: "set the end of %s", am.EventDelete: "ended %s", am.EventExpire: "released %s, since the lease was over",
	am.EventShutdown: "shut down %s", operate.EventThaw: "lifted the shutdown of %s",
	eventNoShow: "released %s, since nobody created them after the begin", "begins": "began %s", "limited": "found when %s must end at the latest",
	"Provision at the start": "asked that %s are created at the begin",
	am.ActionStart:           "started %s", am.ActionStop: "stopped %s", am.ActionRestart: "restarted %s", am.ActionSetup: "continued the setup of %s",
	am.ActionUpdateUsers: "updated the SSH keys on %s", am.ActionUpdateUsersCancel: "stopped the update of the SSH keys on %s",
	am.EventGaveUp: "reported that %s failed", am.EventLost: "reported that %s failed", "drift": "is repairing %s",
	am.EventStageEnded: "finished a stage of the setup of %s", am.EventStepFailed: "reported a failed step of the setup of %s",
	operate.Drain: "drained", operate.Undrain: "undrained", operate.LockDown: "locked the site down", operate.LiftLockdown: "lifted the lockdown",
	operate.PlanMaintenance: "planned maintenance", operate.CancelMaintenance: "cancelled maintenance", "web": "changed who can sign in",
	"reload": "reloaded the configuration", "clock trusted": "trusted the clock", "move": "declared the site the original",
}

// eventNoShow is the journal's event about the end of what was reserved ahead and never created.
const eventNoShow am.Event = "no_show"

// doing is an entry of the journal in words.
type doing struct {
	operate.Entry
	Who, What string
}

// IsEnd reports whether the entry is about the end of nodes.
func (d doing) IsEnd() bool {
	return slices.Contains([]am.Event{am.EventDelete, am.EventExpire, eventNoShow}, am.Event(d.Event))
}

// doingOf returns an entry in words. names has the names of existing nodes by the URNs of their slivers.
func doingOf(e operate.Entry, names map[string]string) doing {
	d := doing{Entry: e, Who: "The site"}
	switch {
	case e.Operator != "":
		d.Who = "An operator"
	case !e.Caller.IsZero():
		d.Who = e.Caller.Name
	}
	const most = 4
	var list []string
	for _, u := range e.Slivers {
		if name := names[u.String()]; name != "" {
			list = append(list, name)
		}
	}
	nodes := strings.Join(list, ", ")
	if len(list) == 0 || len(list) > most || len(list) < len(e.Slivers) {
		nodes = display.Count(len(e.Slivers), "node")
	}
	if d.What = doings[am.Event(e.Event)]; e.Event == "move" && len(e.Slivers) > 0 { // for a site, it is another event
		d.What = "moved %s"
	}
	if d.What == "" && len(e.Slivers) > 0 {
		d.What = e.Event + " of %s"
	}
	d.What = strings.ReplaceAll(cmp.Or(d.What, e.Event), "%s", nodes)
	if e.Times > 1 {
		d.What += fmt.Sprintf(" (%d times)", e.Times)
	}
	return d
}

// operatorsDoing is doingOf for operators, who see the names of others.
func operatorsDoing(e operate.Entry, names map[string]string) doing {
	d := doingOf(e, names)
	if e.Operator != "" {
		d.Who = "Operator " + e.Operator
	}
	return d
}

// journalBody is the data of templates/journal.html.
type journalBody struct {
	Search  form
	Events  map[string]string // those that can be selected by their words
	Entries []doing           // the newest first
	Problem string            // why there are no entries
	Oldest  time.Time         // of the entries that were searched; zero for all
}

// maxSearched limits the entries in which a text is searched.
const maxSearched = 5000

// showJournal shows what happened at the site, also what concerns no slice.
func (q *request) showJournal() error {
	v := q.r.URL.Query()
	x, text := journalBody{Search: form{ID: "search", Values: v}, Events: map[string]string{}}, strings.ToLower(v.Get("q"))
	for event, words := range doings {
		words = strings.ReplaceAll(words, "%s", "nodes")
		x.Events[words] = strings.TrimPrefix(x.Events[words]+","+string(event), ",")
	}
	f := operate.Filter{Slice: q.part("slice"), User: q.part("user"), State: x.Events[v.Get("what")], Limit: maxRows}
	if text != "" {
		f.Limit = maxSearched
	}
	var err error
	if f.Since, err = operate.ParsePast("", timeText(v, "since"), q.now); err != nil {
		x.Problem = "Give a time, or a duration until now such as 10m."
		return q.render(page{Name: "journal", Title: "Journal", Tab: "journal", Body: x})
	}
	entries, err := list[operate.Entry](q, "journal", f)
	if err != nil {
		return err
	}
	if len(entries) == f.Limit {
		x.Oldest = entries[0].At
	}
	for _, e := range slices.Backward(entries) {
		d := operatorsDoing(e, nil)
		if strings.Contains(strings.ToLower(strings.Join([]string{d.Who, d.What, d.Slice.Name, d.Text}, " ")), text) && len(x.Entries) < maxRows {
			x.Entries = append(x.Entries, d)
		}
	}
	return q.render(page{Name: "journal", Title: "Journal", Tab: "journal", Body: x})
}
