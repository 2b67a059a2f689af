package steprunner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/node/setup"
)

// InstallsTime bounds the total time of a node's installs since steps were allowed last; after it,
// no further install is started. The manager counts the node as failed after an hour. Until then,
// the last install can still end and the executes can run.
const InstallsTime = 30 * time.Minute

// Limits of attempts for one step.
const (
	MaxStartAttempts = 5  // to start the step; an attempt without an answer in time does not count
	maxWaitAttempts  = 20 // in a row without a report of the started step
)

// maxPause bounds the pauses between attempts, in units of Options.Pause.
const maxPause = 30

const lostDescription = "the description of the step is lost; the testbed's operators can see why in the log"

// Node is a node whose steps are run. Steps are numbered from 1.
type Node interface {
	// Assignments returns what the node must do, by step.
	Assignments() ([]setup.Assignment, error)
	// Save saves the journal. It may not be lost once Save has succeeded.
	Save(Journal) error
	// Start starts step n, unless it was started, and returns its first report. The result late means
	// that the node did not answer in time. The parameter slow means that an earlier attempt was late;
	// the node should then get more time.
	Start(ctx context.Context, n int, order []byte, slow bool) (r setup.Report, late bool, err error)
	// Follow calls handle for each report of step n until the step has ended. It may return earlier.
	Follow(ctx context.Context, n int, handle func(setup.Report)) error
	// End ends step n if it runs, and calls handle with its result.
	End(ctx context.Context, n int, handle func(setup.Report)) error
	// ShowProgress is called when the progress of a step may have changed.
	ShowProgress()
	// Wake is called when a step has begun or ended.
	Wake()
}

// Options are the limits of a Runner.
type Options struct {
	// ExecutesTime is how long executes of stage 0 keep a node from being ready.
	ExecutesTime time.Duration
	InstallsTime time.Duration
	EventTime    time.Duration
	// EndTime bounds the call that ends a late step.
	EndTime time.Duration
	// Pause is the pause after the first failed attempt; later ones are longer.
	Pause time.Duration
	// SaveProgress keeps the progress and the output of running steps in the journal, too: at
	// first every 2 seconds, and then less and less often.
	SaveProgress bool
	Log          *slog.Logger
}

// Runner runs the steps of a node while the node runs: those of a stage one after the other, beside
// those of earlier stages that still run.
type Runner struct {
	Options
	Node Node

	changed chan struct{} // capacity 1: another stage is allowed
	saving  sync.Mutex    // held while the journal is changed and written

	mu      sync.Mutex // guards the fields below; locked after saving
	journal Journal    // as saved
	live    []live     // by step
}

// live is the state of a running step that is not in the journal.
type live struct {
	report  setup.Report       // its progress and output
	saved   time.Time          // when they were saved
	endWait context.CancelFunc // ends the call that waits for the step; nil: there is none
}

// New returns a Runner that runs nothing yet.
func New(n Node, j Journal, o Options) *Runner {
	return &Runner{Options: o, Node: n, journal: j, live: make([]live, len(j.Steps)), changed: make(chan struct{}, 1)}
}

// Journal returns the journal, with the progress and the output of running steps.
func (r *Runner) Journal() *Journal {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.journal
	j.Steps = slices.Clone(j.Steps)
	for i := range j.Steps {
		if s := &j.Steps[i]; s.State == setup.Running && r.live[i].report.State != "" {
			s.Progress, s.Output = r.live[i].report.Progress, r.live[i].report.Output
		}
	}
	return &j
}

// step returns the current state of a step.
func (r *Runner) step(i int) Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.Steps[i]
}

// setProgress keeps the progress and the output of a running step.
func (r *Runner) setProgress(i int, report setup.Report) {
	r.mu.Lock()
	l, step := &r.live[i], r.journal.Steps[i]
	l.report = report
	pause := min(max(time.Since(step.BeganAt)/2, 2*time.Second), 10*time.Minute)
	save := r.SaveProgress && report.State == setup.Running && time.Since(l.saved) > pause && (step.Progress != report.Progress || step.Output != report.Output)
	if save {
		l.saved = time.Now()
	}
	r.mu.Unlock()
	if save { // if that fails, the next report is saved
		_ = r.save(func(j *Journal) { j.Steps[i].Progress, j.Steps[i].Output = report.Progress, report.Output })
	}
	r.Node.ShowProgress()
}

// save makes one attempt to save a changed journal, and fails if it is not saved.
func (r *Runner) save(change func(j *Journal)) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	next := r.journal
	next.Steps = slices.Clone(next.Steps)
	change(&next)
	next.shrinkOutputs()
	if err := r.Node.Save(next); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journal = next
	for len(r.live) < len(next.Steps) {
		r.live = append(r.live, live{})
	}
	return nil
}

// update retries until the journal is saved. It returns false if ctx ends first.
func (r *Runner) update(ctx context.Context, change func(j *Journal)) bool {
	for n := 1; ; n++ {
		err := r.save(change)
		if err == nil {
			r.Node.ShowProgress()
			return true
		}
		r.Log.Error("cannot save the journal of a node's setup; retrying", "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*r.Pause)
		if ctx.Err() != nil {
			return false
		}
	}
}

// Change makes one attempt to save the journal after change, if change reports that there is
// something to save. It is not retried, since nodes must be able to stop on a full disk.
func (r *Runner) Change(change func(j *Journal) bool) error {
	if !change(r.Journal()) {
		return nil
	}
	defer r.Node.ShowProgress()
	return r.save(func(j *Journal) { change(j) })
}

// SetStage allows the steps up to another stage.
func (r *Runner) SetStage(stage int) error {
	return r.allow(func(j *Journal) { j.SetStage(stage) })
}

// allow saves a change of the steps that may run.
func (r *Runner) allow(change func(j *Journal)) error {
	if err := r.save(change); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, step := range r.journal.Steps {
		if end := r.live[i].endWait; step.Ending && end != nil {
			end()
		}
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return nil
}

// endStep returns false if ctx ended before the result was saved. The parameter took is the
// duration of an install.
func (r *Runner) endStep(ctx context.Context, i int, report setup.Report, took time.Duration) bool {
	ok := r.update(ctx, func(j *Journal) {
		j.Steps[i].end(report)
		j.Installing += took
	})
	r.setProgress(i, setup.Report{})
	if step := r.step(i); ok && step.State == setup.Failed {
		r.Log.Info("a step of a node's setup failed", "step", i+1, "status", step.Exit, "message", step.Message)
	}
	r.Node.Wake()
	return ok
}

// Run starts the steps that can run, until no step is left that can.
func (r *Runner) Run(ctx context.Context) {
	orders, err := r.Node.Assignments()
	if err != nil {
		r.Log.Error("the setup of a node cannot be read", "error", err)
		orders = nil
	}
	ended, active := make(chan int, MaxEver), map[int]bool{}
	var workers sync.WaitGroup
	defer workers.Wait()
	for ctx.Err() == nil {
		j := r.Journal()
		if orders != nil && len(orders) < len(j.Steps) { // the setup has changed
			if orders, err = r.Node.Assignments(); err != nil {
				r.Log.Error("the setup of a node cannot be read", "error", err)
				orders = nil
			}
		}
		startable, wait := j.startable(r.ExecutesTime)
		for _, i := range startable {
			if active[i] {
				continue
			}
			active[i] = true
			workers.Go(func() {
				if i >= len(orders) {
					r.endStep(ctx, i, lostReport(lostDescription), 0)
				} else {
					r.runStep(ctx, i, orders[i])
				}
				ended <- i // never blocks: a step has one worker at a time
			})
		}
		if !j.IsOpen() {
			return
		}
		var later <-chan time.Time
		if wait > 0 {
			later = time.After(wait)
		}
		select {
		case i := <-ended:
			delete(active, i)
		case <-r.changed:
		case <-later:
		case <-ctx.Done():
		}
	}
}

// isOutOfTime reports whether a step is an install that can no longer be started, because
// earlier installs have used up InstallsTime.
func (r *Runner) isOutOfTime(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	step := r.journal.Steps[i]
	return step.Kind == setup.Install && step.State == setup.Waiting && r.journal.Installing >= r.InstallsTime
}

// runStep starts a step unless it was started, and waits for its end. If the step's stage is
// withdrawn, it ends the step.
func (r *Runner) runStep(ctx context.Context, i int, o setup.Assignment) {
	if r.isOutOfTime(i) {
		r.endStep(ctx, i, lostReport(fmt.Sprintf("it was not started, since the installs before it took the maximum of %.0f minutes; make them smaller, or download in an execute, in the background", InstallsTime.Minutes())), 0)
		return
	}
	begun := time.Now()
	end := func(report setup.Report) {
		took := time.Duration(0)
		if o.Kind == setup.Install {
			took = time.Since(begun)
		}
		r.endStep(ctx, i, report, took)
	}
	if r.step(i).State == setup.Waiting {
		if !r.update(ctx, func(j *Journal) {
			j.Steps[i].State = setup.Running
			if o.Kind == setup.Execute && j.Executes.IsZero() && j.Steps[i].inPlan() {
				j.Executes = time.Now()
			}
		}) {
			return
		}
		r.Node.Wake() // the time of executes counts from now on
	}
	if !r.step(i).Begun && !r.startStep(ctx, i, o, end) {
		return
	}
	// silent counts the calls since the last report.
	for silent, calls := 1, 1; ctx.Err() == nil; silent, calls = silent+1, calls+1 {
		last := setup.Report{State: setup.Running}
		call, follow, cancel := r.waitCall(ctx, i)
		err := follow(call, i+1, func(report setup.Report) {
			last, silent = report, 1
			r.setProgress(i, report)
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
		case silent >= maxWaitAttempts:
			end(lostReport("the node does not report the step's result"))
			return
		}
		r.Log.Info("a node does not report the result of a step of its setup; retrying", "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(calls, maxPause))*r.Pause) // also if the node reports something each time
	}
}

// waitCall returns the function that waits for the end of the step, or ends it. The context ends with
// ctx, and when a waiting call must become an ending one.
func (r *Runner) waitCall(ctx context.Context, i int) (call context.Context, follow func(context.Context, int, func(setup.Report)) error, cancel context.CancelFunc) {
	call, cancel = context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.journal.Steps[i].Ending {
		return call, r.Node.End, cancel
	}
	r.live[i].endWait = cancel
	return call, r.Node.Follow, cancel
}

// startStep starts a step in the node, and retries if that fails. It reports whether the step runs. It
// returns false when ctx ends, and after it has called end for a step that failed or has already ended.
func (r *Runner) startStep(ctx context.Context, i int, o setup.Assignment, end func(setup.Report)) bool {
	o.Attempt = r.step(i).Attempt
	order, err := json.Marshal(o)
	if err != nil {
		end(lostReport(err.Error()))
		return false
	}
	slow := 0
	for n := 1; ctx.Err() == nil; n++ {
		last, late, err := r.Node.Start(ctx, i+1, order, slow > 0)
		switch {
		case ctx.Err() != nil:
			return false
		case last.Ended():
			end(last)
			return false
		case last.State == setup.Running:
			return r.update(ctx, func(j *Journal) {
				j.Steps[i].Begun, j.Steps[i].Interruption, j.Steps[i].BeganAt = true, "", last.BeganAt
				if now := time.Now(); last.BeganAt.After(now) { // the node's clock is wrong
					j.Steps[i].BeganAt = now
				}
			})
		case late: // attempts with a slow node do not count
			slow++
			n--
		case n >= MaxStartAttempts:
			end(lostReport(strings.TrimSpace(fmt.Sprintf("it cannot be started in the node: %v", err))))
			return false
		}
		r.Log.Info("a step of a node's setup cannot be started yet; retrying", "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n+slow, maxPause))*r.Pause)
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
