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

// installsTime is how long the installs of a node may take together: none begins
// after that. With the one that runs then, and the executes, a node is ready before
// the manager gives it up, which is after an hour.
const installsTime = 30 * time.Minute

// How often it is tried to begin a step, and to learn what came of one, when the
// node answers and yet cannot.
const (
	maxStartAttempts = 5
	maxWaitAttempts  = 20
)

// reportPause is how long a report of a step that goes on is the last one: a node
// may write as many as it likes.
const reportPause = 100 * time.Millisecond

func newStepRunner(nc *nodeController, steps []setup.Step) *stepRunner {
	s := &stepRunner{nc: nc}
	for _, step := range steps {
		s.journal.Steps = append(s.journal.Steps, stepState{Kind: step.Kind, Report: setup.Report{State: setup.Waiting}})
	}
	return s
}

// loadStepRunner finds what came of the steps of a node that was made before.
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
		err = fmt.Errorf("%d steps are noted, and the node has %d", len(s.journal.Steps), rec.Steps)
	}
	if err != nil { // better none than one twice
		nc.t.log.Error("what was noted of the setup of a node is spoilt; nothing more of it is done", "node", nc.id, "error", err)
		s.journal = stepJournal{Steps: make([]stepState, rec.Steps)}
		for i := range s.journal.Steps {
			s.journal.Steps[i] = stepState{Kind: setup.Execute, Report: lostReport("what was noted of it is spoilt; nothing more is done")}
		}
	}
	s.allEnded = s.journal.allEnded()
	return s
}

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

// startSteps lets the steps of a node go on whose logins are proven. It tells whether
// they keep it from being ready, and if so, how long at most; 0 is not known.
func (nc *nodeController) startSteps(rec record) (held bool, wait time.Duration) {
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
	return since >= 0 && wait > 0, wait // a clock that was set back must not hold it up
}

// stopSteps ends the goroutine: the node stops. The steps in it may go on.
func (nc *nodeController) stopSteps() {
	s := nc.steps
	if s == nil || s.stop == nil {
		return
	}
	s.stop()
	<-s.done
	s.stop, s.done = nil, nil
}

// reportSteps reports how far the steps are, unless more was asked since change.
func (nc *nodeController) reportSteps(change uint64) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.rec.Change == change {
		nc.setState(provider.StateChanging, nc.steps.progressText())
		nc.showsSteps = true
	}
}

// progressText describes the step that runs.
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

// setProgress notes how far a step is.
func (s *stepRunner) setProgress(progress string) {
	s.mu.Lock()
	s.progress = progress
	s.mu.Unlock()
	s.showProgress()
}

func (s *stepRunner) showProgress() {
	s.nc.mu.Lock()
	defer s.nc.mu.Unlock()
	if s.nc.showsSteps {
		s.nc.message = s.progressText()
	}
}

// updateJournal changes the journal, on the disk first. It is tried until ctx ends; then
// it is false.
func (s *stepRunner) updateJournal(ctx context.Context, f func(j *stepJournal)) bool {
	next := s.journal // which this goroutine alone changes
	next.Steps = append([]stepState(nil), next.Steps...)
	f(&next)
	next.shrinkOutputs()
	for n := 1; ; n++ {
		err := s.nc.t.write(s.nc.dir(), journalFile, next)
		if err == nil {
			break
		}
		s.nc.t.log.Error("cannot note what came of the setup of a node; that is tried again", "node", s.nc.id, "error", err)
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

// endStep notes what came of a step.
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
		s.nc.t.log.Info("a step of the setup of a node has failed", "node", s.nc.id, "step", i+1, "status", r.Exit, "message", r.Message)
	}
	s.nc.wake()
	return ok
}

// run does the steps that have not ended.
func (s *stepRunner) run(ctx context.Context, account string) {
	steps, err := s.nc.readSteps()
	for i := range s.journal.Steps {
		switch {
		case s.journal.Steps[i].Ended():
		case err != nil:
			s.nc.t.log.Error("the setup of a node cannot be read", "node", s.nc.id, "error", err)
			s.endStep(ctx, i, lostReport("what is to be done is not known any more; the testbed's operators can see why in the log"))
		case s.isOutOfTime(i):
			s.endStep(ctx, i, lostReport(fmt.Sprintf("it was not begun, for the installs before it took %.0f minutes, which is the most; make them smaller, or fetch in an execute, in the background", installsTime.Minutes())))
		default:
			if s.journal.Steps[i].Kind == setup.Install {
				s.installStarted = time.Now()
			}
			s.runStep(ctx, i, setup.Order{Step: steps[i], Account: account, Inside: !s.nc.t.settings.Outbound})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// isOutOfTime tells whether a step is an install for which no time is left.
func (s *stepRunner) isOutOfTime(i int) bool {
	step := s.journal.Steps[i]
	return step.Kind == setup.Install && step.State == setup.Waiting && s.journal.Installing >= s.nc.t.installsTime
}

// runStep begins a step unless it has begun, and waits for its end.
func (s *stepRunner) runStep(ctx context.Context, i int, o setup.Order) {
	if s.journal.Steps[i].State == setup.Waiting {
		if !s.updateJournal(ctx, func(j *stepJournal) {
			j.Steps[i].State = setup.Running
			if o.Kind == setup.Execute && j.Executes.IsZero() {
				j.Executes = time.Now()
			}
		}) {
			return
		}
		s.nc.wake() // from now on time counts
	}
	if !s.journal.Steps[i].Begun && !s.startStep(ctx, i, o) {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		last := setup.Report{State: setup.Running}
		err := s.nc.t.runSetup(ctx, s.nc.id, setup.WaitWords(i+1), nil, func(r setup.Report) {
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
			s.endStep(ctx, i, lostReport("what was known of it in the node is gone"))
			return
		case n >= maxWaitAttempts:
			s.endStep(ctx, i, lostReport("the node does not tell what came of it"))
			return
		}
		s.nc.t.log.Info("a node does not tell of a step of its setup; it is asked again", "node", s.nc.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.nc.t.pause)
	}
}

// startStep begins a step, and tells whether it is to be waited for.
func (s *stepRunner) startStep(ctx context.Context, i int, o setup.Order) bool {
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
		case late: // a node is not given up for being slow
			slow++
			n--
		case n >= maxStartAttempts:
			s.endStep(ctx, i, lostReport(strings.TrimSpace(fmt.Sprintf("it cannot be begun in the node: %v", err))))
			return false
		}
		s.nc.t.log.Info("a step of the setup of a node cannot be begun yet; that is tried again", "node", s.nc.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n+slow, maxPause))*s.nc.t.pause)
	}
	return false
}

// requestStart asks the node to begin a step, in its turn, and takes the first report.
// late tells that the node did not answer in time, as it had not before if it is
// slow.
func (s *stepRunner) requestStart(ctx context.Context, i int, order []byte, slow bool) (first setup.Report, late bool, err error) {
	t := s.nc.t
	turns, within := t.agentCalls, t.agentTime
	if slow {
		turns, within = t.slowAgentCalls, t.slowAgentTime
	}
	if err := t.pingAgent(ctx, s.nc.id, within); err != nil {
		return first, true, err
	}
	if err := turns.acquire(ctx); err != nil {
		return first, false, err
	}
	defer turns.release()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	late = true
	err = t.runSetup(ctx, s.nc.id, setup.RunWords(i+1), order, func(r setup.Report) {
		if late {
			first, late = r, false
			cancel() // what else it writes, nobody reads
		}
	})
	return first, late && ctx.Err() != nil, err
}

// saveSteps writes down the steps of a new node, before its record.
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

// shrinkOutputs cuts the outputs to half, again and again, until they are no more together
// than is ever told of them.
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

// How a node may end while a step runs in it.
const (
	byRestart    = "restarted" // as asked
	byPowerOff   = "stopped"   // as asked
	byDeath      = "died"
	whileStopped = "away"
)

// recordInterruption notes how the node ends, or has ended, with the step that runs in it. The
// first word stands: what ends later does not end the step. It is not tried
// again, for nodes must stop also on a full disk.
func (s *stepRunner) recordInterruption(how string) {
	if s == nil {
		return
	}
	for i, step := range s.journal.Steps {
		if step.State == setup.Running && step.Interruption == "" {
			once, cancel := context.WithCancel(context.Background())
			cancel()
			s.updateJournal(once, func(j *stepJournal) { j.Steps[i].Interruption = how })
			return
		}
	}
}

// outcome is what came of the step, by the report of the node. There, all ends of
// nodes look alike.
func (s stepState) outcome(r setup.Report) setup.Report {
	asked := s.Interruption == byRestart || s.Interruption == byPowerOff
	// Its shell may have been faster than the node.
	halted := asked && (r.Exit == 128+int(unix.SIGTERM) || r.Exit == 128+int(unix.SIGKILL))
	if r.State != setup.Failed || r.Message != setup.Interrupted && !halted {
		return r
	}
	switch {
	case asked && s.Kind == setup.Execute:
		r.State, r.Exit, r.Message = setup.Done, 0, fmt.Sprintf("it ended with the node, which was %s", s.Interruption)
	case asked:
		r.Message = fmt.Sprintf("interrupted: the node was %s while it ran", s.Interruption)
	case s.Interruption == byDeath:
		r.Message = "interrupted: the system of the node ended while it ran, and nobody had asked the testbed for that"
	case s.Interruption == whileStopped:
		r.Message = "interrupted: the node ended while the testbed did not look, as when its host boots"
	}
	return r
}

// waitReason says what a step waits for, if it waits for one that runs.
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

// maxStepReport bounds the report of the steps of a node, in bytes, before it is
// encoded once more.
const maxStepReport = 32 << 10
