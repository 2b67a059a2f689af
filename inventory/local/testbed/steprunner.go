package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

const journalFile = "services.json"

// installsTime bounds the total time of a node's installs; after it, no further install is
// started. The manager counts the node as failed after an hour. Until then, the last install
// can still end and the executes can run.
const installsTime = 30 * time.Minute

// Limits of attempts for one step.
const (
	maxStartAttempts = 5  // to start the step; an attempt without an answer in time does not count
	maxWaitAttempts  = 20 // in a row without a report of the started step
)

// reportPause is the pause between two progress reports of a step. It limits the work for a node
// that sends many reports.
const reportPause = 100 * time.Millisecond

func newStepRunner(nc *nodeController, steps []setup.Step) *stepRunner {
	s := &stepRunner{nc: nc}
	for _, step := range steps {
		s.journal.Steps = append(s.journal.Steps, stepState{Kind: step.Kind, Report: setup.Report{State: setup.Waiting}})
	}
	return s
}

func loadStepRunner(nc *nodeController, rec record) *stepRunner {
	if rec.Steps == 0 {
		return nil
	}
	s := &stepRunner{nc: nc}
	err := readJSON(nc.dir(), journalFile, &s.journal)
	if errors.Is(err, fs.ErrNotExist) {
		var steps []setup.Step
		if err = readJSON(nc.dir(), stepsFile, &steps); err == nil {
			s = newStepRunner(nc, steps)
		}
	}
	if err == nil && len(s.journal.Steps) != rec.Steps {
		err = fmt.Errorf("the journal has %d steps, and the node has %d", len(s.journal.Steps), rec.Steps)
	}
	if err != nil { // rather skip all steps than run one twice
		nc.t.log.Error("the journal of a node's setup is damaged; no further step is run", "node", nc.id, "error", err)
		s.journal = stepJournal{Steps: make([]stepState, rec.Steps)}
		for i := range s.journal.Steps {
			s.journal.Steps[i] = stepState{Kind: setup.Execute, Report: lostReport("its journal is damaged; no further step is run")}
		}
	}
	s.allEnded = s.journal.allEnded()
	return s
}

// lostReport returns a failure with exit status 255, for a step whose result is missing.
func lostReport(message string) setup.Report {
	return setup.Report{State: setup.Failed, Exit: 255, Message: message}
}

func (j *stepJournal) allEnded() bool {
	for _, step := range j.Steps {
		if !step.Ended() {
			return false
		}
	}
	return true
}

// startSteps must be called after the logins are proven. The result mustWait means that the node
// is not ready until steps end. If wait is 0, the node waits until a step ends; otherwise at
// most for that time.
func (nc *nodeController) startSteps(rec record) (mustWait bool, wait time.Duration) {
	s := nc.steps
	if s == nil {
		return false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allEnded {
		return false, 0
	}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(nc.t.ctx)
		s.stop, s.done = cancel, make(chan struct{})
		done, account := s.done, ""
		if users, err := parseUsers(rec.Desired.Users); err == nil && len(users) > 0 {
			account = users[0].Login
		}
		nc.t.work.Go(func() {
			defer close(done)
			s.run(ctx, account)
		})
	}
	for _, step := range s.journal.Steps {
		if step.Kind == setup.Install && !step.Ended() {
			return true, 0
		}
	}
	if s.journal.Executes.IsZero() {
		return true, 0
	}
	since := time.Since(s.journal.Executes)
	wait = nc.t.settings.ServicesWait - since
	return since >= 0 && wait > 0, wait // a clock that was set back must not block the node
}

// stopSteps waits for the end of the stepRunner's goroutine. Steps inside the node may continue.
func (nc *nodeController) stopSteps() {
	s := nc.steps
	if s == nil || s.stop == nil {
		return
	}
	s.stop()
	<-s.done
	s.stop, s.done = nil, nil
}

// reportSteps does nothing if the desired state has changed.
func (nc *nodeController) reportSteps(change uint64) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.rec.Change == change {
		nc.setState(provider.StateChanging, nc.steps.progressText())
		nc.showsSteps = true
	}
}

func (s *stepRunner) progressText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	doing := map[string]string{setup.Install: "installing", setup.Execute: "executing"}
	number, of := map[string]int{}, map[string]int{}
	for _, step := range s.journal.Steps {
		of[step.Kind]++
	}
	for _, step := range s.journal.Steps {
		number[step.Kind]++
		if step.Ended() {
			continue
		}
		text := fmt.Sprintf("%s %d of %d", doing[step.Kind], number[step.Kind], of[step.Kind])
		if s.progress != "" {
			text += ": " + s.progress
		}
		return text
	}
	return "being set up"
}

func (s *stepRunner) setProgress(progress string) {
	s.mu.Lock()
	s.progress = progress
	s.mu.Unlock()
	s.showProgress()
}

// showProgress updates the node's message only if that message is the progress of steps.
func (s *stepRunner) showProgress() {
	s.nc.mu.Lock()
	defer s.nc.mu.Unlock()
	if s.nc.showsSteps {
		s.nc.message = s.progressText()
	}
}

// updateJournal retries until the journal is saved. It returns false if ctx ends first.
func (s *stepRunner) updateJournal(ctx context.Context, f func(j *stepJournal)) bool {
	next := s.journal // changed only by this goroutine
	next.Steps = append([]stepState(nil), next.Steps...)
	f(&next)
	next.shrinkOutputs()
	for n := 1; ; n++ {
		err := s.nc.t.write(s.nc.dir(), journalFile, next)
		if err == nil {
			break
		}
		s.nc.t.log.Error("cannot save the journal of a node's setup; retrying", "node", s.nc.id, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.nc.t.pause)
		if ctx.Err() != nil {
			return false
		}
	}
	s.mu.Lock()
	s.journal, s.progress, s.allEnded = next, "", next.allEnded()
	s.mu.Unlock()
	s.showProgress()
	return true
}

// endStep returns false if ctx ended before the result was saved.
func (s *stepRunner) endStep(ctx context.Context, i int, r setup.Report) bool {
	r = s.journal.Steps[i].outcome(r)
	r.Progress = ""
	begun := s.installStarted
	s.installStarted = time.Time{}
	ok := s.updateJournal(ctx, func(j *stepJournal) {
		j.Steps[i].Report = r
		if !begun.IsZero() {
			j.Installing += time.Since(begun)
		}
	})
	if ok && r.State == setup.Failed {
		s.nc.t.log.Info("a step of a node's setup failed", "node", s.nc.id, "step", i+1, "status", r.Exit, "message", r.Message)
	}
	s.nc.wake()
	return ok
}

// run expects the node's first account; "" means root.
func (s *stepRunner) run(ctx context.Context, account string) {
	steps, err := s.nc.readSteps()
	for i := range s.journal.Steps {
		switch {
		case s.journal.Steps[i].Ended():
		case err != nil:
			s.nc.t.log.Error("the setup of a node cannot be read", "node", s.nc.id, "error", err)
			s.endStep(ctx, i, lostReport("the description of the step is lost; the testbed's operators can see why in the log"))
		case s.isOutOfTime(i):
			s.endStep(ctx, i, lostReport(fmt.Sprintf("it was not started, since the installs before it took the maximum of %.0f minutes; make them smaller, or download in an execute, in the background", installsTime.Minutes())))
		default:
			if s.journal.Steps[i].Kind == setup.Install {
				s.installStarted = time.Now()
			}
			s.runStep(ctx, i, setup.Assignment{Step: steps[i], Account: account, NoEgress: !s.nc.t.settings.Outbound})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// isOutOfTime reports whether a step is an install that can no longer be started, because
// earlier installs have used up installsTime.
func (s *stepRunner) isOutOfTime(i int) bool {
	step := s.journal.Steps[i]
	return step.Kind == setup.Install && step.State == setup.Waiting && s.journal.Installing >= s.nc.t.installsTime
}

// runStep starts a step unless it was started, and waits for its end.
func (s *stepRunner) runStep(ctx context.Context, i int, o setup.Assignment) {
	if s.journal.Steps[i].State == setup.Waiting {
		if !s.updateJournal(ctx, func(j *stepJournal) {
			j.Steps[i].State = setup.Running
			if o.Kind == setup.Execute && j.Executes.IsZero() {
				j.Executes = time.Now()
			}
		}) {
			return
		}
		s.nc.wake() // the time of executes counts from now on
	}
	if !s.journal.Steps[i].Begun && !s.startStep(ctx, i, o) {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		last := setup.Report{State: setup.Running}
		err := s.nc.t.runSetup(ctx, s.nc.id, setup.WaitArgs(i+1), nil, func(r setup.Report) {
			last, n = r, 1
			s.setProgress(r.Progress)
			if !r.Ended() {
				sleep(ctx, reportPause)
			}
		})
		switch {
		case ctx.Err() != nil:
			return
		case last.Ended():
			s.endStep(ctx, i, last)
			return
		case err == nil && last.State == setup.Waiting:
			s.endStep(ctx, i, lostReport("the node lost its state of the step"))
			return
		case n >= maxWaitAttempts:
			s.endStep(ctx, i, lostReport("the node does not report the step's result"))
			return
		}
		s.nc.t.log.Info("a node does not report the result of a step of its setup; retrying", "node", s.nc.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.nc.t.pause)
	}
}

// startStep reports whether the step runs. It returns false when ctx ends, and after it has
// recorded a step that failed or has already ended.
func (s *stepRunner) startStep(ctx context.Context, i int, o setup.Assignment) bool {
	order, err := json.Marshal(o)
	if err != nil {
		s.endStep(ctx, i, lostReport(err.Error()))
		return false
	}
	slow := 0
	for n := 1; ctx.Err() == nil; n++ {
		last, late, err := s.requestStart(ctx, i, order, slow > 0)
		switch {
		case ctx.Err() != nil:
			return false
		case last.Ended():
			s.endStep(ctx, i, last)
			return false
		case last.State == setup.Running:
			return s.updateJournal(ctx, func(j *stepJournal) { j.Steps[i].Begun, j.Steps[i].Interruption = true, "" })
		case late: // attempts with a slow node do not count
			slow++
			n--
		case n >= maxStartAttempts:
			s.endStep(ctx, i, lostReport(strings.TrimSpace(fmt.Sprintf("it cannot be started in the node: %v", err))))
			return false
		}
		s.nc.t.log.Info("a step of a node's setup cannot be started yet; retrying", "node", s.nc.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n+slow, maxPause))*s.nc.t.pause)
	}
	return false
}

// requestStart returns the first report of the step. The result late means that the node did not
// answer in time. The parameter slow means that an earlier attempt was late; the node then gets
// more time.
func (s *stepRunner) requestStart(ctx context.Context, i int, order []byte, slow bool) (report setup.Report, late bool, err error) {
	t := s.nc.t
	turns, within := t.agentCalls, t.agentTime
	if slow {
		turns, within = t.slowAgentCalls, t.slowAgentTime
	}
	if err := t.pingAgent(ctx, s.nc.id, within); err != nil {
		return report, true, err
	}
	if err := turns.acquire(ctx); err != nil {
		return report, false, err
	}
	defer turns.release()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	late = true
	err = t.runSetup(ctx, s.nc.id, setup.RunArgs(i+1), order, func(r setup.Report) {
		if late {
			report, late = r, false
			cancel() // nothing reads the rest of the program's output
		}
	})
	return report, late && ctx.Err() != nil, err
}

// saveSteps must be called before the record of the new node is saved.
func (nc *nodeController) saveSteps(steps []setup.Step) error {
	if len(steps) == 0 {
		return nil
	}
	if err := nc.t.write(nc.dir(), stepsFile, steps); err != nil {
		return err
	}
	nc.steps = newStepRunner(nc, steps)
	return nil
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

// recordInterruption does not replace a recorded interruption, since that one has already ended
// the step. It does not retry a failed save, since nodes must be able to stop on a full disk.
// The parameter interruption says how the node ends, or ended.
func (s *stepRunner) recordInterruption(interruption string) {
	if s == nil {
		return
	}
	for i, step := range s.journal.Steps {
		if step.State == setup.Running && step.Interruption == "" {
			once, cancel := context.WithCancel(context.Background()) // with an ended context, updateJournal makes one attempt
			cancel()
			s.updateJournal(once, func(j *stepJournal) { j.Steps[i].Interruption = interruption })
			return
		}
	}
}

// outcome returns the result of the step for the report r of the node. The report does not
// say how the node ended, so outcome adds that. An execute step that ended because of a
// requested stop or restart is done.
func (s stepState) outcome(r setup.Report) setup.Report {
	requested := s.Interruption == byRestart || s.Interruption == byPowerOff
	// The step's shell may have ended before the node's agent reported it.
	halted := requested && (r.Exit == 128+int(unix.SIGTERM) || r.Exit == 128+int(unix.SIGKILL))
	if r.State != setup.Failed || r.Message != setup.Interrupted && !halted {
		return r
	}
	switch {
	case requested && s.Kind == setup.Execute:
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

// waitReason says for which running step the other steps wait. It is empty if no step runs.
func (j *stepJournal) waitReason() string {
	for i, step := range j.Steps {
		switch {
		case step.State == setup.Running && step.Interruption == "":
			return fmt.Sprintf("waits for step %d, which still runs", i+1)
		case !step.Ended():
			return ""
		}
	}
	return ""
}

// maxStepReport bounds the report of a node's steps, in bytes before it is encoded again.
const maxStepReport = 32 << 10
