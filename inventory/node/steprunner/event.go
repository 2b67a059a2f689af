package steprunner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"patchbay/inventory/node/setup"
	plan "patchbay/rspec/step"
)

// EventTime bounds the steps that run before a node is switched off or removed, all together.
const EventTime = time.Minute

// HasEvent reports whether the node has steps for the operation, Stop or Uninstall, that have not
// ended since it was switched on.
func (j *Journal) HasEvent(operation string) bool {
	begun, list := j.eventSteps(operation)
	return j.Stage >= 0 && len(list) > 0 && (!begun || slices.ContainsFunc(j.Steps, j.isUnfinishedEvent))
}

// RunEvent runs the steps for the operation, Stop or Uninstall, once, also if this program is killed
// meanwhile. isRunning says whether the node runs. A failed step does not keep the node from being
// switched off or removed. RunEvent calls before if it runs steps.
func (r *Runner) RunEvent(ctx context.Context, operation string, isRunning bool, before func()) {
	begun, list := r.Journal().eventSteps(operation)
	switch {
	case len(list) == 0 || !isRunning && !begun:
		return
	case !isRunning:
		r.failEvent("the node ended before the step had ended")
		return
	case !begun:
		if err := r.save(func(j *Journal) { j.beginEvent(operation, list) }); err != nil {
			r.Log.Error("cannot save the journal of a node's setup; its steps are left out", "operation", operation, "error", err)
			return
		}
	}
	before()
	steps, err := r.Node.Assignments()
	if err != nil {
		r.Log.Error("the setup of a node cannot be read", "error", err)
		r.failEvent(lostDescription)
		return
	}
	bounded, cancel := context.WithTimeout(ctx, r.eventLeft())
	defer cancel()
	for _, i := range list {
		if bounded.Err() == nil && !r.step(i).Ended() {
			r.runStep(bounded, i, steps[i])
		}
	}
	if ctx.Err() != nil {
		return
	}
	late := fmt.Sprintf("it did not end in time: the steps before a node is switched off or removed have %.0f seconds together", r.EventTime.Seconds())
	for _, i := range list {
		if r.step(i).State == setup.Running {
			r.endLateStep(ctx, i, late)
		}
	}
	r.failEvent(late)
}

// endLateStep asks the node once to end a step, and records the result with the message.
func (r *Runner) endLateStep(ctx context.Context, i int, message string) {
	bounded, cancel := context.WithTimeout(ctx, r.EndTime)
	defer cancel()
	err := r.Node.End(bounded, i+1, func(got setup.Report) {
		if got.State == setup.Failed {
			got.Message = message
		}
		if got.Ended() {
			r.update(ctx, func(j *Journal) { j.Steps[i].end(got) })
		}
	})
	if err != nil {
		r.Log.Info("a step of a node's setup takes too long and cannot be ended", "step", i+1, "error", err)
	}
}

// eventSteps returns the steps for an operation, of the allowed stages. The result begun means
// that they have begun since the node was switched on.
func (j *Journal) eventSteps(operation string) (begun bool, list []int) {
	stage := j.Stage
	if begun = j.Event == operation; begun {
		stage = j.EventStage
	}
	for i, step := range j.Steps {
		if step.Operation == operation && step.Stage <= stage {
			list = append(list, i)
		}
	}
	return begun, list
}

// eventLeft returns the rest of the time for the steps of the current event.
func (r *Runner) eventLeft() time.Duration {
	j := r.Journal()
	since := time.Since(j.EventBegan)
	if since < 0 { // a clock that was set back must not block the node
		return 0
	}
	return r.EventTime - since
}

func (j *Journal) beginEvent(operation string, list []int) {
	j.Event, j.EventStage, j.EventBegan = operation, j.Stage, time.Now()
	for _, i := range list {
		if s := &j.Steps[i]; s.State != setup.Waiting {
			s.waitAgain()
		}
	}
}

// failEvent records a failure for the steps of the current event that have not ended.
func (r *Runner) failEvent(message string) {
	if j := r.Journal(); !slices.ContainsFunc(j.Steps, j.isUnfinishedEvent) {
		return
	}
	if err := r.save(func(j *Journal) { j.failEvent(message) }); err != nil {
		r.Log.Error("cannot save how the steps of a node ended", "error", err)
	}
}

func (j *Journal) isUnfinishedEvent(s Step) bool {
	return j.Event != "" && s.Operation == j.Event && s.Stage <= j.EventStage && !s.Ended()
}

func (j *Journal) failEvent(message string) {
	for i := range j.Steps {
		if s := &j.Steps[i]; j.isUnfinishedEvent(*s) {
			s.end(lostReport(message))
		}
	}
}

// SwitchOff makes the steps for Start run again when the node is switched on, and reports whether the
// journal has changed. It must be saved before the node is switched off: so no program forgets it, and
// at worst the next one switches the node off once more.
func (j *Journal) SwitchOff() (changed bool) {
	changed = !j.Off && slices.ContainsFunc(j.Steps, func(s Step) bool {
		return s.Operation == plan.Start && s.State != setup.Waiting
	})
	j.Off = j.Off || changed
	return changed
}

// IsSwitchedOff reports whether SwitchOn would change the journal.
func (j *Journal) IsSwitchedOff() bool { return j.Off || j.Event != "" }

// SwitchOn must be saved before a node is started that was switched off. Its steps for Start wait
// again.
func (j *Journal) SwitchOn() {
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
