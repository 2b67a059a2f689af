package am

import (
	"slices"
	"strings"
)

// Transition is one row of the table: in status From, Event leads to To.
type Transition struct {
	From  Status
	Event Event
	To    Status
	// Description explains the event to an experimenter; it appears in the advertisement.
	Description string
}

// Transitions are all transitions of a sliver. An event without a row is refused, and
// the status does not change. An allocated sliver is always pending_allocation; only
// provisioned slivers have other operational states. The table of states in the
// documentation and the advertised state machine are generated from these rows.
var Transitions = []Transition{
	{unallocated, EventAllocate, allocated, "reserve"},
	{allocated, EventProvision, pending, "create the resources"},
	{allocated, EventChange, allocated, "change what is reserved"},
	{allocated, EventRenew, allocated, "prolong the reservation"},
	{allocated, EventDelete, unallocated, "release"},
	{allocated, EventExpire, unallocated, "release"},
	{allocated, EventShutdown, allocated, "freeze for inspection"},

	{pending, ActionStart, pending, "remembered: switch on when it has been created"},
	{pending, ActionStop, pending, "leave it off when it has been created"},
	{pending, EventChange, pending, "make it as changed"},
	{pending, EventDone, notReady, ""},
	{pending, EventGaveUp, failed, ""},

	{notReady, ActionStart, configuring, "switch on"},
	{notReady, ActionStop, notReady, "already off: nothing to do"},
	{notReady, ActionSetup, notReady, "remembered: run failed steps of the setup again when it is on"},
	{notReady, EventChange, notReady, "remembered: change it when it is on"},
	{notReady, EventLost, failed, ""},

	{configuring, ActionStart, configuring, "already being switched on: nothing to do"},
	{configuring, ActionStop, stopping, "switch off; files stay, and the running steps fail"},
	{configuring, ActionUpdateUsers, configuring, "replace the keys of the users listed in geni_users"},
	{configuring, ActionSetup, configuring, "run failed steps of the setup again, and go on"},
	{configuring, EventChange, configuring, "change it in place"},
	{configuring, EventShutdown, stopping, "freeze for inspection"},
	{configuring, EventDone, ready, ""},
	{configuring, EventGaveUp, failed, ""},

	{ready, ActionStart, ready, "already on: nothing to do"},
	{ready, ActionRestart, configuring, "switch off and on; files stay"},
	{ready, ActionStop, stopping, "switch off; files stay"},
	{ready, ActionUpdateUsers, updatingUsers, "replace the keys of the users listed in geni_users"},
	{ready, ActionSetup, configuring, "run failed steps of the setup again, and go on"},
	{ready, EventChange, configuring, "change it in place"},
	{ready, EventShutdown, stopping, "freeze for inspection"},
	{ready, EventLost, failed, ""},

	{stopping, ActionStop, stopping, "already being switched off: nothing to do"},
	{stopping, EventDone, notReady, ""},
	{stopping, EventGaveUp, failed, ""},

	{updatingUsers, ActionStart, updatingUsers, "already on: nothing to do"},
	{updatingUsers, ActionUpdateUsersCancel, ready, "stop waiting for the update of users"},
	{updatingUsers, EventShutdown, stopping, "freeze for inspection"},
	{updatingUsers, EventDone, ready, ""},
	{updatingUsers, EventGaveUp, ready, ""},
	{updatingUsers, EventLost, failed, ""},

	{failed, ActionSetup, configuring, "run failed steps of the setup again, if nothing else has failed"},
}

// ProvisionedTransitions apply to a provisioned sliver in every operational state that has no
// row for the event in Transitions. An empty operational state in To means that the operational
// state does not change.
var ProvisionedTransitions = []Transition{
	{Status{Provisioned, ""}, EventRenew, Status{Provisioned, ""}, "prolong the lease"},
	{Status{Provisioned, ""}, EventDelete, unallocated, "release"},
	{Status{Provisioned, ""}, EventExpire, unallocated, "release"},
	{Status{Provisioned, ""}, EventShutdown, Status{Provisioned, ""}, "freeze for inspection"},
}

var (
	unallocated   = Status{Unallocated, PendingAllocation}
	allocated     = Status{Allocated, PendingAllocation}
	pending       = Status{Provisioned, PendingAllocation}
	notReady      = Status{Provisioned, NotReady}
	configuring   = Status{Provisioned, Configuring}
	ready         = Status{Provisioned, Ready}
	stopping      = Status{Provisioned, Stopping}
	updatingUsers = Status{Provisioned, UpdatingUsers}
	failed        = Status{Provisioned, Failed}
)

// StartState is the state of a sliver after its provider has created it (the start
// attribute of the advertised state machine).
const StartState = NotReady

// AdvertisedStates are the states of the advertised state machine, in order.
// pending_allocation comes before that machine and is not part of it.
var AdvertisedStates = []OperationalState{NotReady, Configuring, Ready, Stopping, UpdatingUsers, Failed}

// Actions are the operational actions, in the order of the advertisement.
var Actions = []Event{ActionStart, ActionRestart, ActionStop, ActionUpdateUsers, ActionUpdateUsersCancel, ActionSetup}

// ParseAction returns the action that a client named. It returns an Unsupported error
// for an unknown or empty name.
func ParseAction(s string) (Event, error) {
	if s == "geni_update_users_cancel" { // the spelling of one deployed server
		return ActionUpdateUsersCancel, nil
	}
	for _, a := range Actions {
		if string(a) == s {
			return a, nil
		}
	}
	names := make([]string, len(Actions))
	for i, a := range Actions {
		names[i] = string(a)
	}
	return "", Errorf(Unsupported, "there is no action %.40q here; try %s", s, strings.Join(names, ", "))
}

// Next returns the status after event e in status s. If the tables have no row for them, Next
// returns an *Error. Its code is Refused if e is geni_update_users and s is provisioned, and
// otherwise Unsupported.
func Next(s Status, e Event) (Status, error) {
	for _, t := range Transitions {
		if t.From == s && t.Event == e {
			return t.To, nil
		}
	}
	if s.Allocation == Provisioned {
		for _, t := range ProvisionedTransitions {
			if t.Event == e {
				to := t.To
				if to.Operational == "" {
					to.Operational = s.Operational
				}
				return to, nil
			}
		}
	}
	return s, refusal(s, e)
}

// After returns the status after a sequence of the runner's events. It stops at the first event
// without a row, because a call may have changed the status meanwhile without a new generation.
func After(s Status, events ...Event) Status {
	for _, e := range events {
		to, err := Next(s, e)
		if err != nil {
			break
		}
		s = to
	}
	return s
}

// Done returns the status after a task with the given goal is done. desiredOn is the field
// Desired.On of the sliver. If a new sliver is desired on, Done returns the status after its
// start, because the provider has already reported the new resource on.
func Done(s Status, goal Goal, desiredOn bool) Status {
	if goal == GoalMake && desiredOn {
		return After(s, EventDone, ActionStart, EventDone)
	}
	return After(s, EventDone)
}

// refusal returns the error of Next, with a hint at what is possible in status s.
func refusal(s Status, e Event) error {
	code := Unsupported
	if e == ActionUpdateUsers && s.Allocation == Provisioned {
		code = Refused
	}
	where := string(s.Operational)
	if s.Allocation != Provisioned {
		where = string(s.Allocation)
	}
	var can, in []string // the actions possible now; the states in which e is possible
	for _, t := range Transitions {
		if t.From == s && t.Event.IsAction() {
			can = append(can, string(t.Event))
		}
		if t.Event == e && t.From.Allocation == Provisioned && !slices.Contains(in, string(t.From.Operational)) {
			in = append(in, string(t.From.Operational))
		}
	}
	next := s
	if e != EventDone { // After calls refusal for EventDone: avoid an endless recursion
		next = After(s, EventDone)
	}
	hint := "Delete is possible"
	switch {
	case s == allocated:
		hint = "Provision it first"
	case e == EventProvision:
		hint = "it is provisioned already"
	case next != s && slices.Contains(in, string(next.Operational)):
		hint = "wait until it is " + string(next.Operational)
	case next != s && len(in) > 0:
		hint = "it is possible in state " + strings.Join(in, " and ")
	case len(can) > 0:
		hint = "possible now: " + strings.Join(can, ", ")
	}
	return Errorf(code, "%s is not possible in state %s; %s", e, where, hint)
}
