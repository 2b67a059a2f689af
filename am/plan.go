package am

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/rspec/step"
)

// DefaultSetupLimit is the longest time of a plan whose request gives none.
const DefaultSetupLimit = time.Hour

// SetupPlan is the state of the plan of one request document: the stages of the steps of its
// nodes. Only provisioned slivers with steps in the plan count.
type SetupPlan struct {
	// Stage is the first stage with steps that has not ended, Last the last one with steps. Stage is
	// larger than Last if the plan has ended. Before is the one with steps before Stage; -1 if
	// there is none.
	Before, Stage, Last int
	// Place is the place of Stage among the Count stages with steps, from 1.
	Place, Count int
	// Nodes is the number of nodes with steps in Stage; Ended says on how many of them it has ended.
	Nodes, Ended int
	// NotStarted are the client_ids of nodes that Stage waits for because they are off.
	NotStarted []string
	// Failure says which step or node has failed, so that no further stage begins; empty if none.
	Failure string
	// Began is the time from which Limit counts; zero while no node was ready for steps.
	Began time.Time
	Limit time.Duration
}

// PlanOf returns the state of the plan of the slivers of one document.
func PlanOf(slivers []Sliver) SetupPlan {
	p := SetupPlan{Before: -1, Last: -1}
	for i := range slivers {
		if s := &slivers[i]; s.InPlan() {
			p.Last = max(p.Last, s.lastStage())
			p.Limit = max(p.Limit, s.SetupLimit)
			if s.SetupBegan.After(p.Began) {
				p.Began = s.SetupBegan
			}
			if failure := s.planFailure(); p.Failure == "" {
				p.Failure = failure
			}
		}
	}
	if p.Limit == 0 {
		p.Limit = DefaultSetupLimit
	}
	isFound := false // the first stage that has not ended
	for stage := range p.Last + 1 {
		at := SetupPlan{}
		at.countNodes(slivers, stage)
		if at.Nodes == 0 {
			continue
		}
		if p.Count++; !isFound && at.Ended < at.Nodes {
			isFound = true
			p.Stage, p.Place, p.Nodes, p.Ended, p.NotStarted = stage, p.Count, at.Nodes, at.Ended, at.NotStarted
		}
		if !isFound {
			p.Before = stage
		}
	}
	if !isFound {
		p.Stage = p.Last + 1
	}
	return p
}

// countNodes sets Nodes, Ended and NotStarted for a stage.
func (p *SetupPlan) countNodes(slivers []Sliver, stage int) {
	for i := range slivers {
		s := &slivers[i]
		if !s.InPlan() || !s.hasStage(stage) {
			continue
		}
		p.Nodes++
		switch {
		case s.StageEnded(stage):
			p.Ended++
		case !s.Desired.On:
			p.NotStarted = append(p.NotStarted, s.ClientID)
		}
	}
}

// HasEnded reports whether all stages have ended.
func (p *SetupPlan) HasEnded() bool { return p.Stage > p.Last }

// Text describes the stage that runs, such as "stage 2 of 3, 4 of 6 nodes". It returns "" if the
// plan has ended.
func (p *SetupPlan) Text() string {
	if p.HasEnded() {
		return ""
	}
	text := fmt.Sprintf("stage %d of %d, %d of %d nodes", p.Place, p.Count, p.Ended, p.Nodes)
	if n := len(p.NotStarted); n > 0 {
		const most = 5
		text += "; waits for " + strings.Join(p.NotStarted[:min(n, most)], ", ")
		if n > most {
			text += fmt.Sprintf(" and %d more", n-most)
		}
		text += ", not started"
	}
	return text
}

// HasStages reports whether the sliver's steps need a plan: they have a stage other than 0, or a
// command of stage 0 for whose end others wait.
func (s *Sliver) HasStages() bool {
	if s.Desired.Stage < 0 { // patchbay_setup runs a step of stage 0 again
		return true
	}
	for i := range s.Setup {
		if x := &s.Setup[i]; x.InPlan() && (x.Stage > 0 || waitsForEnd(x.Background)) {
			return true
		}
	}
	return false
}

// HasUninstall reports whether the sliver has steps for its removal.
func (s *Sliver) HasUninstall() bool {
	return slices.ContainsFunc(s.Setup, func(x step.Step) bool { return x.Operation == step.Uninstall })
}

func waitsForEnd(background *bool) bool { return background != nil && !*background }

// InPlan reports whether the sliver counts in its document's plan.
func (s *Sliver) InPlan() bool {
	return s.Status.Allocation == Provisioned && (s.Desired.Present || s.Status.Operational == Failed) && s.lastStage() >= 0
}

// lastStage returns -1 if no step belongs to the plan.
func (s *Sliver) lastStage() int {
	last := -1
	for i := range s.Setup {
		if s.Setup[i].InPlan() {
			last = max(last, s.Setup[i].Stage)
		}
	}
	return last
}

func (s *Sliver) hasStage(stage int) bool {
	for i := range s.Setup {
		if s.Setup[i].InPlan() && s.Setup[i].Stage == stage {
			return true
		}
	}
	return false
}

func (s *Sliver) stepState(i int) StepState {
	if i < len(s.Observed.Services) {
		return s.Observed.Services[i].State
	}
	return ""
}

// StageEnded reports whether all steps of a stage are done, or the sliver has none in it. A stage
// that may not run has not ended. In stage 0 a command without setup:background, and the commands
// after it, need not end if the provider reports the node as ready meanwhile.
func (s *Sliver) StageEnded(stage int) bool {
	running := false // a command of the stage runs: those after it wait for it
	for i := range s.Setup {
		x, state := &s.Setup[i], s.stepState(i)
		if !x.InPlan() || x.Stage != stage || state == StepDone && stage <= s.Desired.Stage {
			continue
		}
		needNotEnd := stage == 0 && s.Desired.Stage >= 0 && s.Observed.State == "ready" && x.Kind == step.Execute && !waitsForEnd(x.Background)
		running = running || state == StepRunning
		if !needNotEnd || !running || state == StepFailed {
			return false
		}
	}
	return true
}

// planFailure describes why the sliver stops the plan; "" if it does not. A step that failed above
// the stage that may run will run again, so it stops nothing.
func (s *Sliver) planFailure() string {
	if i := s.FailedStep(); i >= 0 {
		name := s.StepName(i)
		if s.Setup[i].Name != "" {
			name += " (" + s.Setup[i].Name + ")"
		}
		return fmt.Sprintf("%s of node %s failed", name, s.ClientID)
	}
	if s.Status.Operational == Failed {
		return fmt.Sprintf("node %s failed", s.ClientID)
	}
	return ""
}

// FailedStep returns the index of the first failed step of the plan; -1 if there is none. A step
// above the stage that may run does not count, because it will run again, nor does one above the
// stage that the provider knows.
func (s *Sliver) FailedStep() int {
	for i := range s.Setup {
		if x := &s.Setup[i]; x.InPlan() && x.Stage <= min(s.Desired.Stage, s.Observed.Stage) && s.stepState(i) == StepFailed {
			return i
		}
	}
	return -1
}

// SetupOpen reports whether the sliver waits for steps of its own: it is on, and its plan has
// neither ended, failed nor been stopped.
func (s *Sliver) SetupOpen() bool {
	if !s.Desired.Present || !s.Desired.On || s.SetupStopped != "" || !s.HasStages() || s.FailedStep() >= 0 {
		return false
	}
	return s.OpenStage() >= 0
}

// OpenStage returns the first stage with steps that has not ended on this sliver; -1 if there is
// none.
func (s *Sliver) OpenStage() int {
	for stage := range s.lastStage() + 1 {
		if s.hasStage(stage) && !s.StageEnded(stage) {
			return stage
		}
	}
	return -1
}

// StageRuns reports whether steps in a stage that may run have not ended.
func (s *Sliver) StageRuns() bool {
	stage := s.OpenStage()
	return stage >= 0 && stage <= s.Desired.Stage
}

// InStage reports whether the sliver has steps in a stage that may run.
func (s *Sliver) InStage(stage int) bool {
	return s.InPlan() && stage <= s.Desired.Stage && s.hasStage(stage)
}

// MayRaise reports whether a later stage may begin on the sliver: it has steps for it, and its
// provider knows the present one.
func (s *Sliver) MayRaise(stage int) bool {
	if !s.InPlan() || !s.Desired.Present || s.Observed.State != "" && s.Observed.Stage != s.Desired.Stage {
		return false
	}
	return slices.ContainsFunc(s.Setup, func(x step.Step) bool {
		return x.InPlan() && x.Stage > s.Desired.Stage && x.Stage <= stage
	})
}

// ReadyForSteps reports whether the sliver is on, and ready or busy with its steps.
func (s *Sliver) ReadyForSteps() bool {
	if !s.InPlan() || !s.Desired.On {
		return false
	}
	return s.Observed.State == "ready" ||
		slices.ContainsFunc(s.Observed.Services, func(r StepReport) bool { return r.State != "" && r.State != StepWaiting })
}
