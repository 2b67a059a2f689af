package steprunner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/node/setup"
	plan "patchbay/rspec/step"
)

// Step is a step of a node's setup and its result. Begun means that the node has confirmed the start
// of the attempt. From then on the Runner only waits for the end of the step.
type Step struct {
	Kind      string `json:"kind"`
	Stage     int    `json:"stage,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Place orders steps of equal Place by their index. A change of the setup sets it.
	Place int `json:"place,omitempty"`
	setup.Report
	Begun bool `json:"begun,omitempty"`
	// Interruption says how the node ended while the step ran; "" if the node did not end.
	Interruption string `json:"cut,omitempty"`
	// Ending means that the stage was withdrawn while the step ran: the node must end the step.
	Ending bool `json:"ending,omitempty"`
	// Again means that the stage was allowed again before that end: the step then runs again.
	Again bool `json:"again,omitempty"`
}

// Journal describes the steps of a node. A step is recorded as running before it is started. So a
// waiting step was never started in its next attempt, and an ended step is not started again unless
// the journal makes it wait again.
type Journal struct {
	Steps []Step `json:"steps"`
	// Stage is the highest stage whose steps may run, the attribute "setup_stage". Of the stages
	// from First, each begins after the one before it; they were allowed at the same time.
	Stage int `json:"stage,omitempty"`
	First int `json:"first,omitempty"`
	// Installing is the total duration of the installs that have ended, in ns. Executes is when
	// the first execute was started. Both count since steps were last allowed to run.
	Installing time.Duration `json:"installing,omitempty"`
	Executes   time.Time     `json:"executes,omitzero"`
	// Event is the operation, Stop or Uninstall, whose steps up to EventStage have begun since the
	// node was switched on; "" means none.
	Event      string    `json:"event,omitempty"`
	EventStage int       `json:"event_stage,omitempty"`
	EventBegan time.Time `json:"event_began,omitzero"`
	// Off means that the node was or is being switched off, and that the steps for Start run again
	// when it is switched on.
	Off bool `json:"off,omitempty"`
}

// NewJournal returns the journal of a node that has begun no step.
func NewJournal(steps []setup.Step, stage int) Journal {
	j := Journal{Steps: make([]Step, len(steps)), Stage: stage}
	for i, step := range steps {
		j.Steps[i] = Step{Kind: step.Kind, Stage: step.Stage, Operation: step.Operation, Report: setup.Report{State: setup.Waiting}}
	}
	return j
}

// DamagedJournal returns a journal in which all steps have failed.
func DamagedJournal(steps, stage int) Journal {
	j := Journal{Steps: make([]Step, steps), Stage: stage}
	for i := range j.Steps {
		j.Steps[i] = Step{Kind: setup.Execute, Report: lostReport("its journal is damaged; no further step is run")}
	}
	return j
}

// lostReport returns a failure with exit status 255, for a step whose result is missing.
func lostReport(message string) setup.Report {
	return setup.Report{State: setup.Failed, Exit: 255, Message: message}
}

// inPlan reports whether the step belongs to a stage: steps that run before the node is
// switched off or removed do not.
func (s *Step) inPlan() bool { return s.Operation == "" || s.Operation == plan.Start }

// IsOpen reports whether a step runs, or will run without another change of the allowed stage.
func (j *Journal) IsOpen() bool { return slices.Contains(j.openSteps(), true) }

// openSteps reports for each step whether it runs, or will run without another change of the
// allowed stage.
func (j *Journal) openSteps() []bool {
	failed := map[int]bool{} // stages in which no further step runs
	for _, s := range j.Steps {
		if s.inPlan() && s.Stage > 0 && s.State == setup.Failed {
			failed[s.Stage] = true
		}
	}
	open := make([]bool, len(j.Steps))
	for i, s := range j.Steps {
		open[i] = s.inPlan() && (s.State == setup.Running || s.State == setup.Waiting && s.Stage <= j.Stage && !failed[s.Stage]) ||
			s.Operation == dropped && s.State == setup.Running // it must be ended
	}
	return open
}

// executesLeft returns how long the node still waits for its executes. It is limit before the
// first one was started.
func (j *Journal) executesLeft(limit time.Duration) time.Duration {
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
func (j *Journal) isBlocked(i int, open []bool, executesOver bool) bool {
	step := &j.Steps[i]
	for k := range j.Steps {
		other := &j.Steps[k]
		switch {
		case !open[k] || k == i || other.Stage > step.Stage:
		case other.Stage == step.Stage:
			if j.comesBefore(k, i) || other.State == setup.Running {
				return true
			}
		case other.Stage >= j.First && (other.Stage > 0 || other.Kind != setup.Execute || !executesOver):
			return true
		}
	}
	return false
}

// SetStage allows the steps up to another stage. When the number falls, the running steps above it
// must end. When it grows, the steps of the added stages that have failed run again.
func (j *Journal) SetStage(stage int) {
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
func (s *Step) waitAgain() {
	*s = Step{Kind: s.Kind, Stage: s.Stage, Operation: s.Operation, Place: s.Place, Report: setup.Report{State: setup.Waiting, Attempt: s.Attempt + 1}}
}

// end records the result of a running step.
func (s *Step) end(r setup.Report) {
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

// shrinkOutputs halves the outputs until all together fit into MaxReport.
func (j *Journal) shrinkOutputs() {
	length := func() (n int) {
		for _, step := range j.Steps {
			b, _ := json.Marshal(step.Output) // a text
			n += len(b)
		}
		return n
	}
	for output := setup.MaxOutput; length() > MaxReport; {
		output /= 2
		for i := range j.Steps {
			j.Steps[i].Output = setup.Tail(j.Steps[i].Output, output)
		}
	}
}

// How a node may end while a step runs in it. The texts are part of saved journals.
const (
	ByRestart    = "restarted" // as requested
	ByPowerOff   = "stopped"   // as requested
	ByDeath      = "died"
	WhileStopped = "away"
)

// outcome returns the result of the step for the report r of the node. The report does not
// say how the node ended, so outcome adds that. An execute of stage 0, such as a server, that ended
// because of a requested stop or restart is done.
func (s Step) outcome(r setup.Report) setup.Report {
	requested := s.Interruption == ByRestart || s.Interruption == ByPowerOff
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
	case s.Interruption == ByDeath:
		r.Message = "interrupted: the system of the node ended unexpectedly while it ran"
	case s.Interruption == WhileStopped:
		r.Message = "interrupted: the node ended while the testbed did not run, for example when its host was rebooted"
	}
	return r
}

// waitReasons returns, for each allowed step that waits, which step of its stage it waits for.
func (j *Journal) waitReasons() []string {
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

// Wait reports whether the node is not ready because of open steps. If wait is 0, the node waits until
// a step ends; otherwise at most for that time. limit is how long executes keep a node from being
// ready.
func (j *Journal) Wait(limit time.Duration) (mustWait bool, wait time.Duration) {
	for i, open := range j.openSteps() {
		switch step := &j.Steps[i]; {
		case !open || step.Stage > j.Stage:
		case step.Kind != setup.Execute || j.Executes.IsZero():
			return true, 0
		default:
			wait = j.executesLeft(limit)
		}
	}
	return wait > 0, wait
}

// startable returns the running steps and those that can be started. If wait is not 0, more steps can
// be started after that time.
func (j *Journal) startable(limit time.Duration) (steps []int, wait time.Duration) {
	open := j.openSteps()
	wait = j.executesLeft(limit)
	for i, step := range j.Steps {
		if open[i] && (step.State == setup.Running || !j.isBlocked(i, open, wait == 0)) {
			steps = append(steps, i)
		}
	}
	return steps, wait
}

// Interrupt records how the node ends, or ended, while steps run, and reports whether any does. It
// does not replace an earlier record, since that one has already ended the step.
func (j *Journal) Interrupt(how string) (changed bool) {
	for i := range j.Steps {
		if s := &j.Steps[i]; s.State == setup.Running && s.Interruption == "" {
			s.Interruption, changed = how, true
		}
	}
	return changed
}

// Progress describes the first step that has not ended in the last of the stages that run.
func (j *Journal) Progress() string {
	current := -1
	for i, open := range j.openSteps() {
		if step := &j.Steps[i]; open && step.inPlan() && (current < 0 || step.Stage > j.Steps[current].Stage) {
			current = i
		}
	}
	if current < 0 {
		return "being set up"
	}
	number, total, now := 0, 0, &j.Steps[current]
	for i, step := range j.Steps {
		if step.Kind == now.Kind && step.Stage == now.Stage && step.inPlan() {
			total++
			if i <= current {
				number++
			}
		}
	}
	text := map[string]string{setup.Install: "installing", setup.Execute: "executing"}[now.Kind]
	text = fmt.Sprintf("%s %d of %d", cmp.Or(text, "setting up"), number, total)
	if now.Stage > 0 {
		text = fmt.Sprintf("stage %d: %s", now.Stage+1, text)
	}
	if progress := now.Report.Progress; progress != "" {
		text += ": " + progress
	}
	return text
}

// Items returns the attribute "services" in at most limit bytes. It halves the outputs until the
// items fit, and at last drops the messages, too.
func (j *Journal) Items(limit int) []string {
	for output := setup.MaxOutput; ; output /= 2 {
		all := j.boundedItems(output)
		size := 0
		for _, item := range all {
			size += len(item)
		}
		if output == 0 || size <= limit {
			return all
		}
	}
}

// boundedItems returns the items of the attribute "services". It bounds each output to maxOutput bytes. If
// maxOutput is 0, it also drops the messages.
func (j *Journal) boundedItems(maxOutput int) []string {
	all := make([]string, 0, len(j.Steps))
	waiting := j.waitReasons()
	for _, i := range j.order() {
		step := j.Steps[i]
		item := map[string]any{"kind": step.Kind, "state": step.State}
		if step.Ended() {
			item["exit"] = step.Exit
		}
		for key, at := range map[string]time.Time{"began": step.BeganAt, "ended": step.EndedAt} {
			if !at.IsZero() {
				item[key] = at
			}
		}
		if text := setup.Tail(step.Output, maxOutput); text != "" {
			item["output"] = text
		}
		switch {
		case maxOutput == 0:
		case step.Message != "":
			item["message"] = step.Message
		case waiting[i] != "":
			item["message"] = waiting[i]
		case step.State == setup.Running && step.Interruption != "":
			item["message"] = "the node stopped while this step was running; the result of the step is reported when the node runs again"
		}
		b, _ := json.Marshal(item) // cannot fail: only texts, a number and bounded times
		all = append(all, string(b))
	}
	return all
}

// MaxReport bounds the report of a node's steps, in bytes before it is encoded again.
const MaxReport = 32 << 10
