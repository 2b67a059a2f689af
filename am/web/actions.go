package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/client/experiment"
	"patchbay/am/display"
)

// action is what a button does with nodes.
type action struct {
	event am.Event
	verb  string // as in "asked to stop web"
}

// actions are the actions of the buttons, by the value of do.
var actions = map[string]action{
	"start":   {am.ActionStart, "start"},
	"stop":    {am.ActionStop, "stop"},
	"restart": {am.ActionRestart, "restart"},
	"setup":   {am.ActionSetup, "continue the setup of"},
	"keys":    {am.ActionUpdateUsers, "update the SSH keys on"},
	"create":  {am.EventProvision, "create"},
}

// hints say what to do with a node in a state that does not allow an action.
var hints = map[string]string{
	"stopped": "Press Start to switch it on.", "ready": "It runs already.", "reserved": "Press Create first.", "failed": "End the experiment, and start it again.",
}

// actOnNodes carries out an action on the nodes that the form names.
func (q *request) actOnNodes(o *opened) error {
	a, ok := actions[q.r.FormValue("do")]
	if !ok {
		return badRequest("There is no action %q.", q.r.FormValue("do"))
	}
	list, err := o.status(q)
	if err != nil {
		return err
	}
	wanted := q.r.Form["node"]
	list = slices.DeleteFunc(list, func(v client.Sliver) bool {
		return !slices.Contains(wanted, v.ClientID) || a.event == am.EventProvision && v.Allocation != string(am.Allocated)
	})
	if runs := slices.DeleteFunc(slices.Clone(list), func(v client.Sliver) bool { return experiment.StateWord(v) != "ready" }); a.event == am.ActionStart && len(runs) > 0 && len(runs) == len(list) {
		return q.redirect(o.Path(), notice{true, "What you have ticked runs already."})
	}
	if len(list) == 0 {
		return q.redirect(o.Path(), notice{true, "No node is ticked. Tick nodes in the table, or the box in its header for all of them. Then press the button again."})
	}
	var users []client.User
	if a.event == am.ActionUpdateUsers || a.event == am.EventProvision {
		if users, err = q.usersOf(o.URN); err != nil {
			return err
		}
		if a.event == am.ActionUpdateUsers && len(users) == 0 {
			return q.redirect(o.Path(), notice{true, "Nobody who works in this experiment has an SSH key. Add yours under Mine, then update the keys again."})
		}
	}
	return q.redirect(o.Path(), q.perform(o, a, list, users)...)
}

// perform carries out an action on all nodes together. If the aggregate refuses that, it tries each node, so that there is a
// notice for each one.
func (q *request) perform(o *opened, a action, list []client.Sliver, users []client.User) (notices []notice) {
	names, urns := make([]string, len(list)), make([]string, len(list))
	for i, v := range list {
		names[i], urns[i] = v.ClientID, v.URN
	}
	all, options := strings.Join(names, ", "), client.Options{Users: users, AtStart: waitingOf(list, q.now).IsAll}
	if len(names) > 6 {
		all = display.Count(len(names), "node")
	}
	var err error
	if a.event == am.EventProvision || options.AtStart && a.event == am.ActionUpdateUsers {
		err = q.create(o, urns, options)
	} else {
		_, _, err = o.Client.PerformOperationalAction(q.r.Context(), urns, o.Credentials, string(a.event), options)
	}
	switch {
	case err == nil:
		return []notice{done("The site was asked to %s %s.", a.verb, all)}
	case len(list) == 1 && am.CodeOf(err) == am.Unsupported:
		state := experiment.StateWord(list[0])
		return []notice{{true, fmt.Sprintf("The site does not %s %s, which is %s. %s", a.verb, all, state, cmp.Or(hints[state], "Wait until it is ready or stopped."))}}
	case len(list) == 1:
		return []notice{wrong("The site does not "+a.verb+" "+all, err)}
	}
	for _, v := range list {
		notices = append(notices, q.perform(o, a, []client.Sliver{v}, users)...)
	}
	return notices
}

// create has reserved nodes created and started: at once, or when they begin if options.AtStart is true.
func (q *request) create(o *opened, urns []string, options client.Options) error {
	_, _, err := o.Client.Provision(q.r.Context(), urns, o.Credentials, options)
	if err == nil && !options.AtStart {
		_, _, err = o.Client.PerformOperationalAction(q.r.Context(), urns, o.Credentials, string(am.ActionStart), client.Options{})
	}
	return err
}

// inputTime is the form of a datetime-local input.
const inputTime = "2006-01-02T15:04"

// parseInput returns the time of a datetime-local input, in UTC.
func parseInput(text string) (time.Time, error) {
	t, err := time.Parse(inputTime, text)
	if err != nil {
		t, err = time.Parse(inputTime+":05", text)
	}
	return t, err
}

// inputText returns a time as a datetime-local input has it; "" for none.
func inputText(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Second() > 0:
		return t.UTC().Format(inputTime + ":05")
	}
	return t.UTC().Format(inputTime)
}

// extendExperiment sets a later end of all leases.
func (q *request) extendExperiment(o *opened) error {
	list, err := o.status(q)
	if err != nil {
		return err
	}
	until, problem := q.newEnd(list)
	if problem != "" {
		return q.redirect(o.Path(), notice{true, problem})
	}
	until, reason, err := q.extend(o, list, until)
	if err != nil {
		return q.redirect(o.Path(), wrong("The experiment was not extended", err))
	}
	if reason != "" {
		reason = ", the latest possible end: " + reason
	}
	if waitingOf(list, q.now).IsAll {
		return q.redirect(o.Path(), done("The reservation ends at %s%s.", inUTC(until), reason))
	}
	return q.redirect(o.Path(), done("The experiment is kept until %s%s.", inUTC(until), reason))
}

// extend sets the end of all leases of an experiment with the slivers in list, and extends its slice before if necessary. If until is too
// late, it takes the latest possible end, and returns the reason.
func (q *request) extend(o *opened, list []client.Sliver, until time.Time) (end time.Time, reason string, err error) {
	if err = q.keepUntil(o.sliceRecord, until); err == nil {
		o, err = q.open(o.sliceRecord) // with a new credential, since a lease ends with it at the latest
	}
	if err != nil {
		return until, "", err
	}
	renew := o.Renew
	if w := waitingOf(list, q.now); !w.Released.IsZero() { // for these, the time of the call is when they are released
		renew = func(ctx context.Context, end time.Time) ([]client.Sliver, error) {
			list, _, err := o.Client.Renew(ctx, []string{o.Slice}, o.Credentials, w.Released, client.Options{End: end})
			return list, err
		}
	}
	_, err = renew(q.r.Context(), until)
	refused, ok := errors.AsType[*am.Error](err)
	if !ok {
		return until, "", err
	}
	current := experiment.LatestEnd(list)
	end, reason, ok = experiment.LimitOf(refused)
	switch {
	case ok && end.After(current):
		_, err = renew(q.r.Context(), end)
	case ok:
		err = badRequest("It lasts until %s, the latest possible end: %s", inUTC(current), reason)
	}
	return end, reason, err
}

// newEnd returns the end of leases that the form requests: for a duration after the latest end, or until a time in
// UTC. If the form has no such time, or one that would make leases shorter that have begun, problem says what to do.
func (q *request) newEnd(list []client.Sliver) (until time.Time, problem string) {
	current := experiment.LatestEnd(list)
	if text := q.r.FormValue("until"); text != "" {
		until, err := parseInput(text)
		w := waitingOf(list, q.now)
		switch {
		case err != nil:
			return until, fmt.Sprintf("%.40q is not a time. Write one such as %s, in UTC.", text, q.now.Add(time.Hour).UTC().Format(inputTime))
		case w.IsAll && !until.After(w.Begins):
			return until, fmt.Sprintf("The end must be after the begin, %s. To give the nodes up, delete the reservation.", inUTC(w.Begins))
		case until.Before(current.Truncate(time.Minute)) && !w.IsAll:
			return until, fmt.Sprintf("The experiment lasts until %s, which is later. Nothing was changed.", inUTC(current))
		}
		return until, ""
	}
	life, err := display.ParseDuration(q.r.FormValue("for"))
	if err != nil || life <= 0 {
		return current, "Choose how much longer the experiment lasts."
	}
	if current.Before(q.now) {
		current = q.now
	}
	return current.Add(life), ""
}

// endExperiment deletes all nodes.
func (q *request) endExperiment(o *opened) error {
	if _, _, err := o.Client.Delete(q.r.Context(), []string{o.Slice}, o.Credentials, client.Options{}); err != nil && am.CodeOf(err) != am.SearchFailed {
		return q.redirect(o.Path(), wrong("The experiment was not ended", err))
	}
	if q.r.PostFormValue("do") == "delete" {
		return q.redirect(o.Path(), done("The reservation was deleted."))
	}
	return q.redirect(o.Path(), done("The experiment has ended."))
}
