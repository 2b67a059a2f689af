package testbed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"patchbay/inventory/local/setup"
	plan "patchbay/rspec/setup"
)

// eventTime bounds the steps that run before a node is switched off or removed, all together.
const eventTime = time.Minute

// runStopSteps runs the steps for Stop before a running node is switched off.
func (nc *nodeController) runStopSteps(r *round) result {
	return nc.runEventSteps(r, plan.Stop, "running the steps before it is switched off")
}

// runUninstallSteps runs the steps for Uninstall before a running node is removed.
func (nc *nodeController) runUninstallSteps(r *round) result {
	return nc.runEventSteps(r, plan.Uninstall, removing)
}

// runEventSteps runs the steps for an operation once, also if this program is killed meanwhile. A
// failed step does not keep the node from being switched off or removed.
func (nc *nodeController) runEventSteps(r *round, operation, progress string) result {
	s := nc.steps
	if s == nil || r.rec.Desired.stage() < 0 {
		return result{}
	}
	begun, list := s.eventSteps(operation)
	switch {
	case len(list) == 0:
		return result{}
	case nc.run == nil && !begun:
		return result{}
	case nc.run == nil:
		s.endEvent("the node ended before the step had ended")
		return result{}
	case !begun:
		if err := s.saveJournal(func(j *stepJournal) { j.beginEvent(operation, list) }); err != nil {
			nc.t.log.Error("cannot save the journal of a node's setup; its steps are left out", "node", nc.id, "operation", operation, "error", err)
			return result{}
		}
	}
	nc.reportProgress(progress)
	nc.stopSteps()
	ctx, cancel := context.WithTimeout(r.ctx, s.eventLeft())
	defer cancel()
	steps, err := nc.readSteps()
	if err != nil {
		nc.t.log.Error("the setup of a node cannot be read", "node", nc.id, "error", err)
		s.endEvent("the description of the step is lost; the testbed's operators can see why in the log")
		return result{}
	}
	for _, i := range list {
		if ctx.Err() == nil && !s.step(i).Ended() {
			s.runStep(ctx, i, nc.assignment(steps[i], firstAccount(r.rec)))
		}
	}
	if r.ctx.Err() != nil {
		return resultOf(r.ctx.Err())
	}
	late := fmt.Sprintf("it did not end in time: the steps before a node is switched off or removed have %.0f seconds together", nc.t.eventTime.Seconds())
	for _, i := range list {
		if s.step(i).State == setup.Running {
			s.endLateStep(r.ctx, i, late)
		}
	}
	s.endEvent(late)
	return result{}
}

// endLateStep asks the node once to end a step, and records the result with the message.
func (s *stepRunner) endLateStep(ctx context.Context, i int, message string) {
	ctx, cancel := context.WithTimeout(ctx, s.nc.t.agentTime)
	defer cancel()
	err := s.nc.t.runSetup(ctx, s.nc.id, setup.EndArgs(i+1), nil, func(r setup.Report) {
		if r.State == setup.Failed {
			r.Message = message
		}
		if r.Ended() {
			s.updateJournal(ctx, func(j *stepJournal) { j.Steps[i].end(r) })
		}
	})
	if err != nil {
		s.nc.t.log.Info("a step of a node's setup takes too long and cannot be ended", "node", s.nc.id, "step", i+1, "error", err)
	}
}

// eventSteps returns the steps for an operation, of the allowed stages. The result begun means
// that they have begun since the node was switched on.
func (s *stepRunner) eventSteps(operation string) (begun bool, list []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stage := s.journal.Stage
	if begun = s.journal.Event == operation; begun {
		stage = s.journal.EventStage
	}
	for i, step := range s.journal.Steps {
		if step.Operation == operation && step.Stage <= stage {
			list = append(list, i)
		}
	}
	return begun, list
}

// eventLeft returns the rest of the time for the steps of the current event.
func (s *stepRunner) eventLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Since(s.journal.EventBegan)
	if since < 0 { // a clock that was set back must not block the node
		return 0
	}
	return s.nc.t.eventTime - since
}

func (j *stepJournal) beginEvent(operation string, list []int) {
	j.Event, j.EventStage, j.EventBegan = operation, j.Stage, time.Now()
	for _, i := range list {
		if s := &j.Steps[i]; s.State != setup.Waiting {
			s.waitAgain()
		}
	}
}

// endEvent records a failure for the steps of the current event that have not ended.
func (s *stepRunner) endEvent(message string) {
	s.mu.Lock()
	open := slices.ContainsFunc(s.journal.Steps, s.journal.isUnfinishedEvent)
	s.mu.Unlock()
	if !open {
		return
	}
	if err := s.saveJournal(func(j *stepJournal) { j.failEvent(message) }); err != nil {
		s.nc.t.log.Error("cannot save how the steps of a node ended", "node", s.nc.id, "error", err)
	}
}

func (j *stepJournal) isUnfinishedEvent(s stepState) bool {
	return j.Event != "" && s.Operation == j.Event && s.Stage <= j.EventStage && !s.Ended()
}

func (j *stepJournal) failEvent(message string) {
	for i := range j.Steps {
		if s := &j.Steps[i]; j.isUnfinishedEvent(*s) {
			s.end(lostReport(message))
		}
	}
}

// recordSwitchOff makes the steps for Start run again when the node is switched on. It must be
// called before the node is switched off: so no program forgets it, and at worst the next one
// switches the node off once more. It does not retry a failed save, since nodes must be able to stop
// on a full disk.
func (s *stepRunner) recordSwitchOff() {
	if s == nil {
		return
	}
	s.mu.Lock()
	needed := !s.journal.Off && slices.ContainsFunc(s.journal.Steps, func(s stepState) bool {
		return s.Operation == plan.Start && s.State != setup.Waiting
	})
	s.mu.Unlock()
	if !needed {
		return
	}
	if err := s.saveJournal(func(j *stepJournal) { j.Off = true }); err != nil {
		s.nc.t.log.Error("cannot save that a node is switched off; its start steps will not run again", "node", s.nc.id, "error", err)
	}
}

// repeatStartSteps runs before a node is started that was switched off, and makes its steps for
// Start wait again.
func (nc *nodeController) repeatStartSteps(r *round) result {
	s := nc.steps
	if s == nil {
		return result{}
	}
	s.mu.Lock()
	off, event := s.journal.Off, s.journal.Event
	s.mu.Unlock()
	if !off && event == "" {
		return result{}
	}
	if off { // an earlier program may have been killed before it could end the node
		if end := nc.shutDown(r.ctx, "shutting down", byPowerOff); end.outcome != done {
			return end
		}
	}
	return resultOf(asUserError("its setup cannot be saved on the disk of the host", s.saveJournal((*stepJournal).switchOn)))
}

func (j *stepJournal) switchOn() {
	j.failEvent("the node was switched on again before the step had ended")
	j.Event, j.EventStage, j.EventBegan = "", 0, time.Time{}
	if !j.Off {
		return
	}
	j.Off = false
	for i := range j.Steps {
		if s := &j.Steps[i]; s.Operation == plan.Start && s.State != setup.Waiting {
			s.waitAgain()
			j.First, j.Installing, j.Executes = 0, 0, time.Time{}
		}
	}
}
