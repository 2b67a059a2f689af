package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

// installsTime bounds the total time of a node's installs since steps were allowed last; after it,
// no further install is started. The manager counts the node as failed after an hour. Until then,
// the last install can still end and the executes can run.
const installsTime = 30 * time.Minute

// Limits of attempts for one step.
const (
	maxStartAttempts = 5  // to start the step; an attempt without an answer in time does not count
	maxWaitAttempts  = 20 // in a row without a report of the started step
)

// reportPause is the pause between two progress reports of a step. It limits the work for a node
// that sends many reports.
const reportPause = 100 * time.Millisecond

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
	open := s.journal.openSteps()
	if !slices.Contains(open, true) {
		return false, 0
	}
	if s.stop != nil && isClosed(s.done) { // it had no more to do
		s.stop()
		s.stop = nil
	}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(nc.t.ctx)
		s.stop, s.done = cancel, make(chan struct{})
		done, account := s.done, firstAccount(rec)
		nc.t.work.Go(func() {
			defer nc.wake() // a stage may have been allowed since the last look at the journal
			defer close(done)
			s.run(ctx, account)
		})
	}
	for i, step := range s.journal.Steps {
		switch {
		case !open[i] || step.Stage > s.journal.Stage:
		case step.Kind != setup.Execute || s.journal.Executes.IsZero():
			return true, 0
		default:
			wait = s.journal.executesLeft(nc.t.settings.ServicesWait)
		}
	}
	return wait > 0, wait
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (nc *nodeController) assignment(step setup.Step, account string) setup.Assignment {
	return setup.Assignment{Step: step, Account: account, NoEgress: !nc.t.settings.Outbound}
}

// firstAccount returns the account that owns what steps make. It is empty, which means root, if
// the node has no account.
func firstAccount(rec record) string {
	if users, err := parseUsers(rec.Desired.Users); err == nil && len(users) > 0 {
		return users[0].Login
	}
	return ""
}

// stopSteps waits for the end of the stepRunner's goroutines. Steps inside the node may continue.
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

// progressText describes the first step that has not ended in the last of the stages that run.
func (s *stepRunner) progressText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := -1
	for i, open := range s.journal.openSteps() {
		if step := &s.journal.Steps[i]; open && (current < 0 || step.Stage > s.journal.Steps[current].Stage) {
			current = i
		}
	}
	if current < 0 {
		return "being set up"
	}
	number, of, now := 0, 0, &s.journal.Steps[current]
	for i, step := range s.journal.Steps {
		if step.Kind == now.Kind && step.Stage == now.Stage && step.inPlan() {
			of++
			if i <= current {
				number++
			}
		}
	}
	text := map[string]string{setup.Install: "installing", setup.Execute: "executing"}[now.Kind]
	text = fmt.Sprintf("%s %d of %d", cmp.Or(text, "setting up"), number, of)
	if now.Stage > 0 {
		text = fmt.Sprintf("stage %d: %s", now.Stage, text)
	}
	if progress := s.live[current].progress; progress != "" {
		text += ": " + progress
	}
	return text
}

// setProgress keeps the progress and the output of a running step.
func (s *stepRunner) setProgress(i int, r setup.Report) {
	s.mu.Lock()
	s.live[i].progress, s.live[i].output = r.Progress, r.Output
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

// step returns the current state of a step.
func (s *stepRunner) step(i int) stepState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.Steps[i]
}

// saveJournal makes one attempt to save a changed journal, and fails if it is not saved.
func (s *stepRunner) saveJournal(change func(j *stepJournal)) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	next := s.journal
	next.Steps = slices.Clone(next.Steps)
	change(&next)
	next.shrinkOutputs()
	if err := s.nc.t.write(s.nc.dir(), journalFile, next); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal = next
	return nil
}

// updateJournal retries until the journal is saved. It returns false if ctx ends first.
func (s *stepRunner) updateJournal(ctx context.Context, change func(j *stepJournal)) bool {
	for n := 1; ; n++ {
		err := s.saveJournal(change)
		if err == nil {
			s.showProgress()
			return true
		}
		s.nc.t.log.Error("cannot save the journal of a node's setup; retrying", "node", s.nc.id, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.nc.t.pause)
		if ctx.Err() != nil {
			return false
		}
	}
}

// setStage allows the steps up to another stage. nc.mu is held.
func (s *stepRunner) setStage(stage int) error {
	if err := s.saveJournal(func(j *stepJournal) { j.setStage(stage) }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, step := range s.journal.Steps {
		if end := s.live[i].endWait; step.Ending && end != nil {
			end()
		}
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// endStep returns false if ctx ended before the result was saved. The parameter took is the
// duration of an install.
func (s *stepRunner) endStep(ctx context.Context, i int, r setup.Report, took time.Duration) bool {
	ok := s.updateJournal(ctx, func(j *stepJournal) {
		j.Steps[i].end(r)
		j.Installing += took
	})
	s.setProgress(i, setup.Report{})
	if step := s.step(i); ok && step.State == setup.Failed {
		s.nc.t.log.Info("a step of a node's setup failed", "node", s.nc.id, "step", i+1, "status", step.Exit, "message", step.Message)
	}
	s.nc.wake()
	return ok
}

// run starts the steps that can run, until no step is left that can. It expects the node's first
// account; "" means root.
func (s *stepRunner) run(ctx context.Context, account string) {
	steps, err := s.nc.readSteps()
	if err != nil {
		s.nc.t.log.Error("the setup of a node cannot be read", "node", s.nc.id, "error", err)
		steps = nil
	}
	ended, active := make(chan int, len(s.live)), map[int]bool{}
	var workers sync.WaitGroup
	defer workers.Wait()
	for ctx.Err() == nil {
		open, startable, wait := s.next()
		for _, i := range startable {
			if active[i] {
				continue
			}
			active[i] = true
			workers.Go(func() {
				if steps == nil {
					s.endStep(ctx, i, lostReport("the description of the step is lost; the testbed's operators can see why in the log"), 0)
				} else {
					s.runStep(ctx, i, s.nc.assignment(steps[i], account))
				}
				ended <- i // never blocks: a step has one worker at a time
			})
		}
		if !open {
			return
		}
		var later <-chan time.Time
		if wait > 0 {
			later = time.After(wait)
		}
		select {
		case i := <-ended:
			delete(active, i)
		case <-s.changed:
		case <-later:
		case <-ctx.Done():
		}
	}
}

// next returns the running steps and those that can be started. The result open is false if
// there is none, and none will be without a change of the allowed stage. If wait is not 0, more
// steps can be started after that time.
func (s *stepRunner) next() (open bool, steps []int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.journal.openSteps()
	wait = s.journal.executesLeft(s.nc.t.settings.ServicesWait)
	for i, step := range s.journal.Steps {
		if all[i] && (step.State == setup.Running || !s.journal.isBlocked(i, all, wait == 0)) {
			steps = append(steps, i)
		}
	}
	return slices.Contains(all, true), steps, wait
}

// isOutOfTime reports whether a step is an install that can no longer be started, because
// earlier installs have used up installsTime.
func (s *stepRunner) isOutOfTime(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := s.journal.Steps[i]
	return step.Kind == setup.Install && step.State == setup.Waiting && s.journal.Installing >= s.nc.t.installsTime
}

// runStep starts a step unless it was started, and waits for its end. If the step's stage is
// withdrawn, it ends the step.
func (s *stepRunner) runStep(ctx context.Context, i int, o setup.Assignment) {
	if s.isOutOfTime(i) {
		s.endStep(ctx, i, lostReport(fmt.Sprintf("it was not started, since the installs before it took the maximum of %.0f minutes; make them smaller, or download in an execute, in the background", installsTime.Minutes())), 0)
		return
	}
	begun := time.Now()
	end := func(r setup.Report) {
		took := time.Duration(0)
		if o.Kind == setup.Install {
			took = time.Since(begun)
		}
		s.endStep(ctx, i, r, took)
	}
	if s.step(i).State == setup.Waiting {
		if !s.updateJournal(ctx, func(j *stepJournal) {
			j.Steps[i].State = setup.Running
			if o.Kind == setup.Execute && j.Executes.IsZero() && j.Steps[i].inPlan() {
				j.Executes = time.Now()
			}
		}) {
			return
		}
		s.nc.wake() // the time of executes counts from now on
	}
	if !s.step(i).Begun && !s.startStep(ctx, i, o, end) {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		last := setup.Report{State: setup.Running}
		call, args, cancel := s.waitCall(ctx, i)
		err := s.nc.t.runSetup(call, s.nc.id, args, nil, func(r setup.Report) {
			last, n = r, 1
			s.setProgress(i, r)
			if !r.Ended() {
				sleep(call, reportPause)
			}
		})
		withdrawn := call.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case last.Ended():
			end(last)
			return
		case withdrawn:
			continue
		case err == nil && last.State == setup.Waiting:
			end(lostReport("the node lost its state of the step"))
			return
		case n >= maxWaitAttempts:
			end(lostReport("the node does not report the step's result"))
			return
		}
		s.nc.t.log.Info("a node does not report the result of a step of its setup; retrying", "node", s.nc.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.nc.t.pause)
	}
}

// waitCall returns the arguments of the program in the node that waits for the end of the step, or
// ends it. The context ends with ctx, and when a waiting call must become an ending one.
func (s *stepRunner) waitCall(ctx context.Context, i int) (call context.Context, args []string, cancel context.CancelFunc) {
	call, cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal.Steps[i].Ending {
		return call, setup.EndArgs(i + 1), cancel
	}
	s.live[i].endWait = cancel
	return call, setup.WaitArgs(i + 1), cancel
}

// startStep reports whether the step runs. It returns false when ctx ends, and after it has
// called end for a step that failed or has already ended.
func (s *stepRunner) startStep(ctx context.Context, i int, o setup.Assignment, end func(setup.Report)) bool {
	o.Attempt = s.step(i).Attempt
	order, err := json.Marshal(o)
	if err != nil {
		end(lostReport(err.Error()))
		return false
	}
	slow := 0
	for n := 1; ctx.Err() == nil; n++ {
		last, late, err := s.requestStart(ctx, i, order, slow > 0)
		switch {
		case ctx.Err() != nil:
			return false
		case last.Ended():
			end(last)
			return false
		case last.State == setup.Running:
			return s.updateJournal(ctx, func(j *stepJournal) {
				j.Steps[i].Begun, j.Steps[i].Interruption, j.Steps[i].BeganAt = true, "", last.BeganAt
			})
		case late: // attempts with a slow node do not count
			slow++
			n--
		case n >= maxStartAttempts:
			end(lostReport(strings.TrimSpace(fmt.Sprintf("it cannot be started in the node: %v", err))))
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
func (nc *nodeController) saveSteps(steps []setup.Step, stage int) error {
	if len(steps) == 0 {
		return nil
	}
	if err := nc.t.write(nc.dir(), stepsFile, steps); err != nil {
		return err
	}
	nc.steps = newStepRunner(nc, steps, stage)
	return nil
}

// recordInterruption does not replace a recorded interruption, since that one has already ended
// the step. It does not retry a failed save, since nodes must be able to stop on a full disk.
// The parameter interruption says how the node ends, or ended.
func (s *stepRunner) recordInterruption(interruption string) {
	if s == nil {
		return
	}
	running := func(step stepState) bool { return step.State == setup.Running && step.Interruption == "" }
	if !slices.ContainsFunc(s.journal.Steps, running) {
		return
	}
	err := s.saveJournal(func(j *stepJournal) {
		for i := range j.Steps {
			if running(j.Steps[i]) {
				j.Steps[i].Interruption = interruption
			}
		}
	})
	if err != nil {
		s.nc.t.log.Error("cannot save how the steps of a node ended", "node", s.nc.id, "error", err)
	}
	s.showProgress()
}
