package service

import (
	"context"
	"fmt"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// ActionOptions are the options of PerformOperationalAction.
type ActionOptions struct {
	Call
	// Users are the accounts of geni_update_users.
	Users []am.Account
}

// goals are the goals of the tasks that actions create.
var goals = map[am.Event]am.Goal{
	am.ActionStart: am.GoalStart, am.ActionStop: am.GoalStop, am.ActionRestart: am.GoalRestart, am.ActionUpdateUsers: am.GoalUsers,
	am.ActionSetup: am.GoalSetup,
}

// PerformOperationalAction changes the state of slivers by the transition table (AM API v3). A
// sliver gets its wait state immediately, and the runner does the work afterwards. If the call
// names a whole slice, the action applies to the provisioned slivers. An action without effect
// succeeds. A sliver that is still being created keeps its state. geni_start makes the runner
// start it as soon as it exists; geni_stop cancels that.
//
// Errors: those of resolve and of am.Next; Busy for a sliver in a dry run.
func (s *Service) PerformOperationalAction(ctx context.Context, g credentials.Grant, t Targets, action am.Event, o ActionOptions) (Outcome, error) {
	var accounts []am.Account
	var slivers int // number of the slice's live slivers
	var beforeAll func(*store.View, urn.URN) error
	if action == am.ActionUpdateUsers {
		beforeAll = func(v *store.View, slice urn.URN) (err error) {
			accounts, slivers, err = nameAccounts(v, slice, o.Users)
			return err
		}
	}
	var setups continuation
	var afterAll func(*store.View, *store.ChangeSet, []am.Sliver) error
	if action == am.ActionSetup {
		beforeAll = func(*store.View, urn.URN) error { // a decision may run more than once
			setups = continuation{o.Call, s.hasStages, map[urn.URN]bool{}, map[string]bool{}}
			return nil
		}
		afterAll = setups.reopenOthers
	}
	out, err := s.run(ctx, change{
		event: string(action), grant: g, targets: t, call: o.Call, afterAll: afterAll,
		onlyState: am.Provisioned,
		errNone:   am.Errorf(am.Unsupported, "%s is not possible: no sliver of slice %s is provisioned; Provision it first", action, t.Slice).About(t.Slice),
		beforeAll: beforeAll,
		apply: func(v *store.View, cs *store.ChangeSet, _ *resolved, x *am.Sliver) error {
			status, err := am.Next(x.Status, action)
			if err != nil {
				return err
			}
			if status.Operational == am.PendingAllocation {
				if on := action == am.ActionStart; x.Desired.On != on {
					x.Desired.On = on
					queueTask(cs, v, x, am.GoalMake, o.Call)
					cs.PutSliver(*x)
				}
				return nil
			}
			switch {
			case action == am.ActionSetup:
				return setups.reopenFailed(v, cs, x, status)
			case action == am.ActionUpdateUsers && status == x.Status: // while its setup continues
			case status == x.Status: // no change
				return nil
			}
			x.Status, x.Error = status, ""
			switch action {
			case am.ActionStart, am.ActionStop:
				x.Desired.On = action == am.ActionStart
			case am.ActionRestart:
				x.Desired.RestartSerial++
			case am.ActionUpdateUsers:
				x.Desired.Accounts = updateAccounts(x.Desired.Accounts, o.Users, accounts)
				if err := limitAccounts(x.Desired.Accounts, slivers); err != nil {
					return err
				}
			}
			// If the action cancels an update of users, the task of the update stays. The sliver
			// is ready again at once, and it still gets the desired accounts.
			goal, ok := goals[action]
			if t, _, err := v.Task(x.URN); err == nil && action == am.ActionUpdateUsers && status.Operational == am.Configuring {
				goal = t.Goal // PutTask replaces that task, so its work must continue
			}
			if ok {
				queueTask(cs, v, x, goal, o.Call)
			}
			cs.PutSliver(*x)
			return nil
		},
	})
	if n := countBeingMade(out); err == nil && n > 0 {
		what := "switched on"
		if action == am.ActionStop {
			what = "left switched off"
		}
		out.Notices = append(out.Notices, fmt.Sprintf("%d of %d slivers are still being made; %s is remembered: they are %s when they are made", n, len(out.Slivers), action, what))
	}
	return out, err
}

func countBeingMade(out Outcome) (n int) {
	for _, x := range out.Slivers {
		if x.Failed == "" && x.Status.Allocation == am.Provisioned && x.Status.Operational == am.PendingAllocation {
			n++
		}
	}
	return n
}
