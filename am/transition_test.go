package am

import (
	"slices"
	"strings"
	"testing"
)

// TestActionsOfTheSpecification compares the table with the actions that the API's texts and
// tests require.
func TestActionsOfTheSpecification(t *testing.T) {
	no := Status{}
	for _, tt := range []struct {
		from   Status
		action Event
		want   Status
		code   Code
	}{
		{notReady, ActionStart, configuring, 0},
		{configuring, ActionStart, configuring, 0}, // idempotent: clients start in any state
		{ready, ActionStart, ready, 0},
		{ready, ActionRestart, configuring, 0},
		{ready, ActionStop, stopping, 0},
		{notReady, ActionStop, notReady, 0},
		{ready, ActionUpdateUsers, updatingUsers, 0},
		{notReady, ActionUpdateUsers, no, Refused},
		{configuring, ActionRestart, no, Unsupported},
		{configuring, ActionStop, stopping, 0},
		{configuring, ActionUpdateUsers, configuring, 0},
		{ready, ActionSetup, configuring, 0},
		{notReady, ActionSetup, notReady, 0},
		{pending, ActionStart, pending, 0},
		{pending, ActionStop, pending, 0},
		{pending, ActionRestart, no, Unsupported},
		{failed, ActionStart, no, Unsupported},
		{allocated, ActionStart, no, Unsupported},
		{allocated, ActionUpdateUsers, no, Unsupported},
		{pending, EventProvision, no, Unsupported},
		{allocated, EventProvision, pending, 0},
		{failed, EventDelete, unallocated, 0},
		{failed, EventRenew, failed, 0},
		{stopping, EventRenew, stopping, 0},
		{ready, EventShutdown, stopping, 0},
		{pending, EventShutdown, pending, 0},
	} {
		got, err := Next(tt.from, tt.action)
		if CodeOf(err) != tt.code || err == nil && got != tt.want {
			t.Errorf("Next(%v, %s) = %v, %v; want %v, code %d", tt.from, tt.action, got, err, tt.want, tt.code)
		}
		if err != nil && got != tt.from {
			t.Errorf("Next(%v, %s): a refused event moved the sliver to %v", tt.from, tt.action, got)
		}
	}
}

func TestTableIsComplete(t *testing.T) {
	type cell struct {
		Status
		Event
	}
	seen := map[cell]bool{}
	for _, r := range Transitions {
		if seen[cell{r.From, r.Event}] {
			t.Errorf("two rows for %s in %v", r.Event, r.From)
		}
		seen[cell{r.From, r.Event}] = true
		if strings.Contains(string(r.Event), "_") && !slices.Contains(Actions, r.Event) {
			t.Errorf("action %s has a row but is not advertised", r.Event)
		}
	}
	// A state that the sliver must leave by itself needs both ways out.
	for _, w := range []OperationalState{PendingAllocation, Configuring, Stopping, UpdatingUsers} {
		for _, e := range []Event{EventDone, EventGaveUp} {
			if _, err := Next(Status{Provisioned, w}, e); err != nil {
				t.Errorf("wait state %s has no way out on %q", w, e)
			}
		}
	}
	for _, s := range AdvertisedStates {
		if _, err := Next(Status{Provisioned, s}, EventDelete); err != nil {
			t.Errorf("a sliver in %s cannot be deleted: %v", s, err)
		}
	}
}

func TestParseAction(t *testing.T) {
	for _, bad := range []string{"", "start", "geni_reload", "GENI_START", strings.Repeat("a", 100000)} {
		_, err := ParseAction(bad)
		if CodeOf(err) != Unsupported {
			t.Errorf("ParseAction(%.40q): %v, want Unsupported", bad, err)
		} else if len(err.Error()) > 250 {
			t.Errorf("ParseAction(%.40q): the refusal has %d bytes", bad, len(err.Error()))
		}
	}
	for _, s := range []string{"geni_update_users_cancel", "geni_updating_users_cancel"} {
		if a, err := ParseAction(s); a != ActionUpdateUsersCancel {
			t.Errorf("ParseAction(%q) = %v, %v", s, a, err)
		}
	}
}

// TestDone checks that only a sliver of version 2 is started together with its creation.
func TestDone(t *testing.T) {
	for _, tt := range []struct {
		rule string
		from Status
		goal Goal
		on   bool
		want Status
	}{
		{"made", pending, GoalMake, false, notReady},
		{"made, and on", pending, GoalMake, true, ready},
		{"started", configuring, GoalStart, true, ready},
		{"stopped", stopping, GoalStop, false, notReady},
		{"users", updatingUsers, GoalUsers, true, ready},
		{"moved on meanwhile", ready, GoalUsers, true, ready},
		{"failed", failed, GoalMake, true, failed},
	} {
		if got := Done(tt.from, tt.goal, tt.on); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.rule, got, tt.want)
		}
	}
}
