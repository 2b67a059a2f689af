package service

import (
	"context"

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

// goals are the tasks that actions leave behind.
var goals = map[am.Event]am.Goal{
	am.ActionStart: am.GoalStart, am.ActionStop: am.GoalStop, am.ActionRestart: am.GoalRestart, am.ActionUpdateUsers: am.GoalUsers,
}

// PerformOperationalAction moves slivers as the transition table says (AM API
// v3): at once to the wait state, and the work follows. For a whole slice it
// takes the provisioned slivers. An action that finds nothing to do succeeds.
//
// Errors: those of resolve and of am.Next; Busy for a sliver whose provider is
// still being asked.
func (s *Service) PerformOperationalAction(ctx context.Context, g credentials.Grant, t Targets, action am.Event, o ActionOptions) (Outcome, error) {
	var accounts []am.Account
	var slivers int // of the slice
	var prepare func(*store.View, urn.URN) error
	if action == am.ActionUpdateUsers {
		prepare = func(v *store.View, slice urn.URN) (err error) {
			accounts, slivers, err = nameAccounts(v, slice, o.Users)
			return err
		}
	}
	return s.run(ctx, change{
		event: string(action), grant: g, targets: t, call: o.Call,
		only:    am.Provisioned,
		none:    am.Errorf(am.Unsupported, "%s is not possible: no sliver of slice %s is provisioned; Provision it first", action, t.Slice).About(t.Slice),
		prepare: prepare,
		step: func(v *store.View, cs *store.ChangeSet, _ *resolved, x *am.Sliver) error {
			status, err := am.Next(x.Status, action)
			if err != nil {
				return err
			}
			if status == x.Status { // already so
				return nil
			}
			x.Status, x.Error = status, ""
			switch action {
			case am.ActionStart:
				x.Desired.On = true
			case am.ActionStop:
				x.Desired.On = false
			case am.ActionRestart:
				x.Desired.RestartSerial++
			case am.ActionUpdateUsers:
				x.Desired.Accounts = updateAccounts(x.Desired.Accounts, o.Users, accounts)
				if err := boundAccounts(x.Desired.Accounts, slivers); err != nil {
					return err
				}
			}
			// A cancelled update keeps its task: the promise stands, only the
			// sliver does not wait for it any longer.
			if goal, ok := goals[action]; ok {
				promise(cs, v, x, goal, o.Call)
			}
			cs.PutSliver(*x)
			return nil
		},
	})
}
