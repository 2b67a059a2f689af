package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/rspec/step"
)

const journalFile = "journal.json"

// reportPause is the pause between two progress reports of a step. It limits the work for a node
// that sends many reports.
const reportPause = 100 * time.Millisecond

func (nc *nodeController) newRunner(j steprunner.Journal) *steprunner.Runner {
	t := nc.t
	return steprunner.New(setupNode{nc}, j, steprunner.Options{
		ExecutesTime: t.settings.ServicesWait, InstallsTime: t.installsTime, EventTime: t.eventTime, EndTime: t.agentTime, Pause: t.pause,
		Log: t.log.With("node", nc.id),
	})
}

// loadSteps returns the runner of the node's steps with the saved journal. If no journal was saved yet, it
// makes one from the saved steps. A damaged journal is replaced by one that runs no further step.
func (nc *nodeController) loadSteps(rec record) *steprunner.Runner {
	if rec.Steps == 0 {
		return nc.newRunner(steprunner.NewJournal(nil, rec.Desired.stage()))
	}
	var j steprunner.Journal
	err := readJSON(nc.dir(), journalFile, &j)
	if errors.Is(err, fs.ErrNotExist) {
		var steps []setup.Step
		if err = readJSON(nc.dir(), stepsFile, &steps); err == nil {
			j = steprunner.NewJournal(steps, rec.Desired.stage())
		}
	}
	if err == nil && len(j.Steps) < rec.Steps { // more after a change that was interrupted
		err = fmt.Errorf("the journal has %d steps, and the node has %d", len(j.Steps), rec.Steps)
	}
	if err != nil { // rather skip all steps than run one twice
		nc.t.log.Error("the journal of a node's setup is damaged; no further step is run", "node", nc.id, "error", err)
		j = steprunner.DamagedJournal(rec.Steps, rec.Desired.stage())
	}
	return nc.newRunner(j)
}

// saveSteps must be called before the record of the new node is saved.
func (nc *nodeController) saveSteps(steps []setup.Step, stage int) error {
	if len(steps) > 0 {
		if err := nc.t.write(nc.dir(), stepsFile, steps); err != nil {
			return err
		}
	}
	nc.steps = nc.newRunner(steprunner.NewJournal(steps, stage))
	return nil
}

// stepsRun is a goroutine that runs steps.
type stepsRun struct {
	stop context.CancelFunc
	done chan struct{}
}

// startSteps runs the open steps of the setup in the background, unless they run. It must be called after
// the logins are proven. The result mustWait means that the node is not ready until steps end. If wait is
// 0, the node waits until a step ends; otherwise at most for that time.
func (nc *nodeController) startSteps() (mustWait bool, wait time.Duration) {
	if nc.steps == nil {
		return false, 0
	}
	j := nc.steps.Journal()
	if !j.IsOpen() {
		return false, 0
	}
	if nc.stepsRun != nil && isClosed(nc.stepsRun.done) { // it had no more to do
		nc.stopSteps()
	}
	if nc.stepsRun == nil {
		ctx, cancel := context.WithCancel(nc.t.ctx)
		run := &stepsRun{cancel, make(chan struct{})}
		nc.stepsRun = run
		nc.t.work.Go(func() {
			defer nc.wake() // a stage may have been allowed since the last look at the journal
			defer close(run.done)
			nc.steps.Run(ctx)
		})
	}
	return j.Wait(nc.t.settings.ServicesWait)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stopSteps waits for the end of the goroutines that run steps. Steps inside the node may continue.
func (nc *nodeController) stopSteps() {
	if run := nc.stepsRun; run != nil {
		run.stop()
		<-run.done
		nc.stepsRun = nil
	}
}

// reportSteps does nothing if the desired state has changed.
func (nc *nodeController) reportSteps(change uint64) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.rec.Change == change {
		nc.setState(provider.StateChanging, nc.steps.Journal().Progress())
		nc.showsSteps = true
	}
}

// changeSteps saves a change of the journal. A failure does not keep the node from stopping.
func (nc *nodeController) changeSteps(change func(*steprunner.Journal) bool) {
	if nc.steps == nil {
		return
	}
	if err := nc.steps.Change(change); err != nil {
		nc.t.log.Error("cannot save how the steps of a node ended", "node", nc.id, "error", err)
	}
}

// interruptSteps records how the node ends, or ended.
func (nc *nodeController) interruptSteps(how string) {
	nc.changeSteps(func(j *steprunner.Journal) bool { return j.Interrupt(how) })
}

// runStopSteps runs the steps for Stop before a running node is switched off.
func (nc *nodeController) runStopSteps(r *round) result {
	return nc.runEventSteps(r, step.Stop, "running the steps before it is switched off")
}

// runUninstallSteps runs the steps for Uninstall before a running node is removed.
func (nc *nodeController) runUninstallSteps(r *round) result {
	return nc.runEventSteps(r, step.Uninstall, removing)
}

func (nc *nodeController) runEventSteps(r *round, operation, progress string) result {
	if nc.steps == nil || r.rec.Desired.stage() < 0 {
		return result{}
	}
	nc.steps.RunEvent(r.ctx, operation, nc.run != nil, func() {
		nc.reportProgress(progress)
		nc.stopSteps()
	})
	return resultOf(r.ctx.Err())
}

// repeatStartSteps runs before a node is started that was switched off, and makes its steps for
// Start wait again.
func (nc *nodeController) repeatStartSteps(r *round) result {
	if nc.steps == nil {
		return result{}
	}
	j := nc.steps.Journal()
	if !j.IsSwitchedOff() {
		return result{}
	}
	if j.Off { // an earlier program may have been killed before it could end the node
		if end := nc.shutDown(r.ctx, "shutting down", steprunner.ByPowerOff); end.outcome != done {
			return end
		}
	}
	err := nc.steps.Change(func(j *steprunner.Journal) bool { j.SwitchOn(); return true })
	return resultOf(asUserError("its setup cannot be saved on the disk of the host", err))
}

// setupNode is the node as its step runner sees it.
type setupNode struct{ nc *nodeController }

func (n setupNode) Wake() { n.nc.wake() }

// ShowProgress updates the node's message only if that message is the progress of steps.
func (n setupNode) ShowProgress() {
	nc := n.nc
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.showsSteps {
		nc.message = nc.steps.Journal().Progress()
	}
}

func (n setupNode) Save(j steprunner.Journal) error {
	return n.nc.t.write(n.nc.dir(), journalFile, j)
}

// Assignments returns what the node gets of each step. Steps run for the first account, or for root if the
// node has no account.
func (n setupNode) Assignments() ([]setup.Assignment, error) {
	steps, err := n.nc.readSteps()
	if err != nil {
		return nil, err
	}
	account := ""
	if users, err := parseUsers(n.nc.snapshot().Desired.Users); err == nil && len(users) > 0 {
		account = users[0].Login
	}
	all := make([]setup.Assignment, len(steps))
	for i, s := range steps {
		all[i] = setup.Assignment{Step: s, Account: account, NoEgress: !n.nc.t.settings.Outbound}
	}
	return all, nil
}

// Start delivers the files of step number to the node, and starts the step there. order is its assignment.
// It returns the first report. The result late means that the node did not answer in time. slow gives the
// node more time.
func (n setupNode) Start(ctx context.Context, number int, order []byte, slow bool) (report setup.Report, late bool, err error) {
	t, id := n.nc.t, n.nc.id
	turns, within := t.agentCalls, t.agentTime
	if slow {
		turns, within = t.slowAgentCalls, t.slowAgentTime
	}
	if err := t.pingAgent(ctx, id, within); err != nil {
		return report, true, err
	}
	report, err = steprunner.Deliver(t.o.Catalogue, order, func(file io.Reader) (report setup.Report, err error) {
		ctx, cancel := context.WithTimeout(ctx, steprunner.DeliveryTime)
		defer cancel()
		err = t.runSetup(ctx, id, setup.DeliverArgs(number), file, func(r setup.Report) { report = r })
		return report, err
	})
	if err != nil || report.Ended() {
		return report, false, err
	}
	if err := turns.acquire(ctx); err != nil {
		return report, false, err
	}
	defer turns.release()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	late = true
	err = t.runSetup(ctx, id, setup.RunArgs(number), bytes.NewReader(order), func(r setup.Report) {
		if late {
			report, late = r, false
			cancel() // nothing reads the rest of the program's output
		}
	})
	return report, late && ctx.Err() != nil, err
}

func (n setupNode) Follow(ctx context.Context, number int, handle func(setup.Report)) error {
	return n.nc.t.runSetup(ctx, n.nc.id, setup.WaitArgs(number), nil, func(r setup.Report) {
		if handle(r); !r.Ended() {
			sleep(ctx, reportPause)
		}
	})
}

func (n setupNode) End(ctx context.Context, number int, handle func(setup.Report)) error {
	return n.nc.t.runSetup(ctx, n.nc.id, setup.EndArgs(number), nil, handle)
}
