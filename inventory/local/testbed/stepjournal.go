package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/setup"
	plan "patchbay/rspec/setup"
)

const journalFile = "services.json"

func newStepRunner(nc *nodeController, steps []setup.Step, stage int) *stepRunner {
	j := stepJournal{Steps: make([]stepState, len(steps)), Stage: stage}
	for i, step := range steps {
		j.Steps[i] = stepState{Kind: step.Kind, Stage: step.Stage, Operation: step.Operation, Report: setup.Report{State: setup.Waiting}}
	}
	return runnerOf(nc, j)
}

func runnerOf(nc *nodeController, j stepJournal) *stepRunner {
	return &stepRunner{nc: nc, journal: j, live: make([]liveStep, len(j.Steps)), changed: make(chan struct{}, 1)}
}

func loadStepRunner(nc *nodeController, rec record) *stepRunner {
	if rec.Steps == 0 {
		return nil
	}
	var j stepJournal
	err := readJSON(nc.dir(), journalFile, &j)
	if errors.Is(err, fs.ErrNotExist) {
		var steps []setup.Step
		if err = readJSON(nc.dir(), stepsFile, &steps); err == nil {
			j = newStepRunner(nc, steps, rec.Desired.stage()).journal
		}
	}
	if err == nil && len(j.Steps) != rec.Steps {
		err = fmt.Errorf("the journal has %d steps, and the node has %d", len(j.Steps), rec.Steps)
	}
	if err != nil { // rather skip all steps than run one twice
		nc.t.log.Error("the journal of a node's setup is damaged; no further step is run", "node", nc.id, "error", err)
		j = stepJournal{Steps: make([]stepState, rec.Steps), Stage: rec.Desired.stage()}
		for i := range j.Steps {
			j.Steps[i] = stepState{Kind: setup.Execute, Report: lostReport("its journal is damaged; no further step is run")}
		}
	}
	return runnerOf(nc, j)
}

// lostReport returns a failure with exit status 255, for a step whose result is missing.
func lostReport(message string) setup.Report {
	return setup.Report{State: setup.Failed, Exit: 255, Message: message}
}

// inPlan reports whether the step belongs to a stage: steps that run before the node is
// switched off or removed do not.
func (s *stepState) inPlan() bool { return s.Operation == "" || s.Operation == plan.Start }

// openSteps reports for each step whether it runs, or will run without another change of the
// allowed stage.
func (j *stepJournal) openSteps() []bool {
	failed := map[int]bool{} // stages in which no further step runs
	for _, s := range j.Steps {
		if s.inPlan() && s.Stage > 0 && s.State == setup.Failed {
			failed[s.Stage] = true
		}
	}
	open := make([]bool, len(j.Steps))
	for i, s := range j.Steps {
		open[i] = s.inPlan() && (s.State == setup.Running || s.State == setup.Waiting && s.Stage <= j.Stage && !failed[s.Stage])
	}
	return open
}

// executesLeft returns how long the node still waits for its executes. It is limit before the
// first one was started.
func (j *stepJournal) executesLeft(limit time.Duration) time.Duration {
	if j.Executes.IsZero() {
		return limit
	}
	since := time.Since(j.Executes)
	if since < 0 { // a clock that was set back must not block the node
		return 0
	}
	return max(0, limit-since)
}

// isBlocked reports whether the waiting step i must wait for one of the open steps: for a running
// or an earlier one of its stage, or for an earlier stage that was allowed at the same time.
// Executes of stage 0 may run forever, so later stages wait for them only until executesOver.
func (j *stepJournal) isBlocked(i int, open []bool, executesOver bool) bool {
	step := &j.Steps[i]
	for k := range j.Steps {
		other := &j.Steps[k]
		switch {
		case !open[k] || k == i || other.Stage > step.Stage:
		case other.Stage == step.Stage:
			if k < i || other.State == setup.Running {
				return true
			}
		case other.Stage >= j.First && (other.Stage > 0 || other.Kind != setup.Execute || !executesOver):
			return true
		}
	}
	return false
}

// setStage allows the steps up to another stage. When the number falls, the running steps above it
// must end. When it grows, the steps of the added stages that have failed run again.
func (j *stepJournal) setStage(stage int) {
	old, more := j.Stage, false
	for i := range j.Steps {
		s := &j.Steps[i]
		switch {
		case !s.inPlan():
		case s.State == setup.Running && s.Stage > stage:
			s.Ending, s.Again = true, false
		case s.Stage <= old || s.Stage > stage || s.State == setup.Done:
		case s.State == setup.Failed:
			s.waitAgain()
			more = true
		default:
			s.Again, more = s.Ending, true
		}
	}
	if j.Stage = stage; more {
		j.First, j.Installing, j.Executes = old+1, 0, time.Time{}
	}
}

// waitAgain makes the step run in another attempt.
func (s *stepState) waitAgain() {
	*s = stepState{Kind: s.Kind, Stage: s.Stage, Operation: s.Operation, Report: setup.Report{State: setup.Waiting, Attempt: s.Attempt + 1}}
}

// end records the result of a running step.
func (s *stepState) end(r setup.Report) {
	if r = s.outcome(r); r.State == setup.Failed && s.Again {
		s.waitAgain()
		return
	}
	if r.BeganAt.IsZero() {
		r.BeganAt = s.BeganAt
	}
	if r.EndedAt.IsZero() && !r.BeganAt.IsZero() { // the node does not know its end
		r.EndedAt = time.Now().UTC().Truncate(time.Second)
	}
	r.Progress, r.Attempt = "", s.Attempt
	s.Report, s.Ending, s.Again = r, false, false
}

// shrinkOutputs halves the outputs until all together fit into maxStepReport.
func (j *stepJournal) shrinkOutputs() {
	length := func() (n int) {
		for _, step := range j.Steps {
			b, _ := json.Marshal(step.Output) // a text
			n += len(b)
		}
		return n
	}
	for output := setup.MaxOutput; length() > maxStepReport; {
		output /= 2
		for i := range j.Steps {
			j.Steps[i].Output = setup.Tail(j.Steps[i].Output, output)
		}
	}
}

// How a node may end while a step runs in it. The texts are part of services.json.
const (
	byRestart    = "restarted" // as requested
	byPowerOff   = "stopped"   // as requested
	byDeath      = "died"
	whileStopped = "away"
)

// outcome returns the result of the step for the report r of the node. The report does not
// say how the node ended, so outcome adds that. An execute of stage 0, such as a server, that ended
// because of a requested stop or restart is done.
func (s stepState) outcome(r setup.Report) setup.Report {
	requested := s.Interruption == byRestart || s.Interruption == byPowerOff
	// The step's shell may have ended before the node's agent reported it.
	halted := requested && (r.Exit == 128+int(unix.SIGTERM) || r.Exit == 128+int(unix.SIGKILL))
	if r.State != setup.Failed || r.Message != setup.Interrupted && !halted {
		return r
	}
	switch {
	case requested && s.Kind == setup.Execute && s.Stage == 0 && !s.Ending:
		r.State, r.Exit, r.Message = setup.Done, 0, fmt.Sprintf("it ended with the node, which was %s", s.Interruption)
	case requested:
		r.Message = fmt.Sprintf("interrupted: the node was %s while it ran", s.Interruption)
	case s.Interruption == byDeath:
		r.Message = "interrupted: the system of the node ended unexpectedly while it ran"
	case s.Interruption == whileStopped:
		r.Message = "interrupted: the node ended while the testbed did not run, for example when its host was rebooted"
	}
	return r
}

// waitReasons says for each allowed step that waits, which step of its stage it waits for.
func (j *stepJournal) waitReasons() []string {
	byStage, all := map[int]string{}, make([]string, len(j.Steps))
	for i, s := range j.Steps {
		switch {
		case !s.inPlan():
		case s.State == setup.Running && s.Interruption == "":
			byStage[s.Stage] = fmt.Sprintf("waits for step %d, which still runs", i+1)
		case s.State == setup.Failed && s.Stage > 0:
			byStage[s.Stage] = fmt.Sprintf("not run, because step %d has failed", i+1)
		}
	}
	for i, s := range j.Steps {
		if s.inPlan() && s.State == setup.Waiting && s.Stage <= j.Stage {
			all[i] = byStage[s.Stage]
		}
	}
	return all
}

// maxStepReport bounds the report of a node's steps, in bytes before it is encoded again.
const maxStepReport = 32 << 10
