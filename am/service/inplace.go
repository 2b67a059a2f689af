package service

import (
	"errors"
	"reflect"
	"slices"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/store"
	"patchbay/rspec/step"
)

// changeSteps gives a kept sliver its new steps. Those that are the same keep their reports; the
// others wait for their stage.
func changeSteps(x *am.Sliver, now []step.Step, moreNodes bool) {
	steps, from := step.Change(x.Setup, now, moreNodes)
	var reports []am.StepReport
	if len(x.Observed.Services) > 0 && len(steps) > 0 {
		reports = make([]am.StepReport, len(steps))
	}
	for i, was := range from {
		if was >= 0 && was < len(x.Observed.Services) {
			reports[i] = x.Observed.Services[was]
		}
		if s := &steps[i]; was < 0 && s.InPlan() && x.Status.Allocation == am.Provisioned {
			x.Desired.Stage = min(x.Desired.Stage, s.Stage-1)
		}
	}
	x.Setup, x.Observed.Services = steps, reports
}

// isChangedNode reports whether a provider must change the node.
func isChangedNode(was, x *am.Sliver) bool {
	return !reflect.DeepEqual(plainInterfaces(was), plainInterfaces(x)) || !reflect.DeepEqual(plainSteps(was), plainSteps(x))
}

// plainInterfaces returns the interfaces without what is only for playbooks.
func plainInterfaces(x *am.Sliver) []am.Interface {
	list := slices.Clone(x.Interfaces)
	for i := range list {
		list[i].Public = false
	}
	return list
}

// plainSteps returns the steps without the rule that is not the provider's.
func plainSteps(x *am.Sliver) []step.Step {
	list := make([]step.Step, len(x.Setup))
	for i := range x.Setup {
		list[i] = x.Setup[i]
		list[i].Again = false
	}
	return list
}

// checkChange refuses a change that the sliver's state or its provider does not permit.
func (s *Service) checkChange(v *store.View, was, x *am.Sliver) error {
	if v.Now().Before(was.ProbedUntil) && was.Document != x.Document {
		return am.Errorf(am.Busy, "the provider of node %.80q is still checking whether it can make it; try again when the call that reserves it has returned", x.ClientID).About(x.URN)
	}
	if !isChangedNode(was, x) {
		return nil
	}
	if _, err := am.Next(was.Status, am.EventChange); err != nil {
		return am.Errorf(am.CodeOf(err), "node %.80q: %v", x.ClientID, err).About(x.URN)
	}
	if was.Status.Allocation == am.Provisioned && s.cfg.ChangesNodes != nil && !s.cfg.ChangesNodes(x.Provider) {
		return am.Errorf(am.Unsupported, "node %.80q: the testbed of %s cannot change links and steps of a node that exists; Delete the node first, or leave both as they were", x.ClientID, x.ComponentName).About(x.URN)
	}
	return nil
}

// changeSliver stores a kept sliver, and makes the runner change its node if the provider must change it. A task that
// waits keeps its goal, since the new task replaces it. A node that is off is changed when it is started.
func (s *Service) changeSliver(v *store.View, cs *store.ChangeSet, was, x *am.Sliver, call Call) error {
	if !isChangedNode(was, x) {
		cs.PutSliver(*x)
		return nil
	}
	status, err := am.Next(x.Status, am.EventChange)
	if err != nil {
		return err
	}
	x.Status, x.Error = status, ""
	if x.Status.Allocation != am.Provisioned {
		cs.PutSliver(*x)
		return nil
	}
	x.Desired.ChangeSerial++
	if x.Desired.Stage < was.Desired.Stage {
		x.SetupBegan, x.SetupDone, x.SetupStopped = v.Now().UTC(), false, ""
	}
	goal := am.GoalSetup
	if status.Operational == am.PendingAllocation {
		goal = am.GoalMake
	}
	if t, _, err := v.Task(x.URN); err == nil {
		goal = t.Goal
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if x.Desired.On || goal == am.GoalMake {
		queueTask(cs, v, x, goal, call)
	}
	cs.PutSliver(*x)
	return nil
}

// probed returns what providers are asked about in a dry run: the new slivers, and those that they must change.
func (a *attempt) probed() (b binder.Binding, slivers []am.Sliver) {
	for i, x := range a.slivers {
		if a.windowOf(i).isAhead {
			continue // what the provider can do then is unknown
		}
		if was := a.kept[x.ClientID]; was != nil {
			if !isChangedNode(was, &x) {
				continue
			}
			if x.Status.Allocation == am.Provisioned {
				x.Desired.ChangeSerial++
			}
		}
		b.Nodes, slivers = append(b.Nodes, a.binding.Nodes[i]), append(slivers, x)
	}
	return b, slivers
}

// added returns the slivers that are new: all, unless it is a change.
func (a *attempt) added() (slivers []am.Sliver) {
	for i := range a.slivers {
		if a.kept[a.slivers[i].ClientID] == nil {
			slivers = append(slivers, a.slivers[i])
		}
	}
	return slivers
}
