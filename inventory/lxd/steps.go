package lxd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"patchbay/inventory/local/setup"
	"patchbay/inventory/local/steprunner"
	plan "patchbay/rspec/setup"
)

const (
	executesTime  = 30 * time.Second // in which executes keep a node from being ready
	startStepTime = time.Minute
	slowStartTime = 3 * time.Minute
	endStepTime   = time.Minute
)

// journal returns the journal of the instance's steps. It is new if the server does not have the
// instance, or not yet with the requested disk.
func journal(n *node, i *instance) steprunner.Journal {
	var j steprunner.Journal
	if i != nil && i.Config[keySteps] != "" && i.facts().Reloads == n.ReloadSerial {
		if err := json.Unmarshal([]byte(i.Config[keySteps]), &j); err != nil || len(j.Steps) != len(n.Setup) {
			return steprunner.DamagedJournal(len(n.Setup), n.stage()) // rather than run a step twice
		}
		return j
	}
	steps, err := steprunner.ParseSteps(n.Setup)
	if err != nil {
		return steprunner.DamagedJournal(len(n.Setup), n.stage())
	}
	return steprunner.NewJournal(steps, n.stage())
}

// stage is 0 without the attribute.
func (n *node) stage() int {
	stage, _ := strconv.Atoi(n.SetupStage) // checked when it was requested
	return stage
}

// hasOpenSteps reports whether steps run in the node, or can.
func (i *instance) hasOpenSteps() bool {
	n := i.node()
	if n == nil || i.Status != statusRunning || !i.isMade() {
		return false
	}
	j := journal(n, i)
	return j.IsOpen()
}

// stepRunner returns nil if the node has no steps.
func (w *worker) stepRunner(n *node, i *instance) *steprunner.Runner {
	if len(n.Setup) == 0 {
		return nil
	}
	return steprunner.New(&setupNode{w, n, i.Name}, journal(n, i), steprunner.Options{
		ExecutesTime: executesTime, InstallsTime: steprunner.InstallsTime, EventTime: steprunner.EventTime, EndTime: endStepTime,
		Pause: time.Second, SaveProgress: true, Log: slog.New(slog.NewTextHandler(w.log, nil)).With("node", n.Name),
	})
}

// runSteps runs the steps of a settled node that can run.
func (w *worker) runSteps(ctx context.Context, id string) {
	for ; ctx.Err() == nil; pause(ctx, time.Second) {
		i, err := w.client.instance(ctx, instanceName(id))
		switch {
		case err != nil:
			w.logf("%s: its steps are not continued yet: %v", id, err)
		case i == nil || !i.hasOpenSteps():
			return
		default:
			w.stepRunner(i.node(), i).Run(ctx)
			return
		}
	}
}

// setupNode is a node as its step runner sees it.
type setupNode struct {
	w    *worker
	n    *node
	name string // of the instance
}

func (s *setupNode) ShowProgress() {}
func (s *setupNode) Wake()         {}

// Save tries again, since the cluster may just choose another leader.
func (s *setupNode) Save(j steprunner.Journal) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for n := range 3 {
		pause(ctx, time.Duration(n)*time.Second)
		if err = s.w.record(ctx, s.name, map[string]any{keySteps: j}, nil); err == nil {
			return nil
		}
	}
	return err
}

// Assignments gives steps to the first account, and to root if the node has no account.
func (s *setupNode) Assignments() ([]setup.Assignment, error) {
	steps, err := steprunner.ParseSteps(s.n.Setup)
	if err != nil {
		return nil, err
	}
	accounts, err := s.n.accounts()
	if err != nil {
		return nil, err
	}
	all := make([]setup.Assignment, len(steps))
	for k, step := range steps {
		if all[k].Step = step; len(accounts) > 0 {
			all[k].Account = accounts[0].Login
		}
	}
	return all, nil
}

func (s *setupNode) Start(ctx context.Context, n int, order []byte, slow bool) (r setup.Report, late bool, err error) {
	limit := startStepTime
	if slow {
		limit = slowStartTime
	}
	r, err = steprunner.Deliver(s.w.folder.catalogue(), order, func(file io.Reader) (r setup.Report, err error) {
		err = s.call(ctx, command{words: []string{"deliver", strconv.Itoa(n)}, input: file, limit: steprunner.DeliveryTime}, func(got setup.Report) { r = got })
		return r, err
	})
	if err != nil || r.Ended() {
		return r, errors.Is(err, errLate) || isAway(err), err
	}
	err = s.call(ctx, command{words: []string{"run", strconv.Itoa(n)}, input: bytes.NewReader(order), limit: limit}, func(got setup.Report) { r = got })
	return r, errors.Is(err, errLate) || isAway(err), err
}

// isAway reports whether an attempt failed because the server, or the node's member, does not answer now.
func isAway(err error) bool {
	if _, ok := errors.AsType[commandError](err); ok || err == nil {
		return false
	}
	e, ok := errors.AsType[*apiError](err)
	return !ok || e.Status >= http.StatusInternalServerError || isBusy(e.Message)
}

func (s *setupNode) Follow(ctx context.Context, n int, handle func(setup.Report)) error {
	for {
		err := s.call(ctx, command{words: []string{"wait", strconv.Itoa(n)}, isOpen: true}, handle)
		if err == nil || !s.wasLost(ctx) {
			return err
		}
	}
}

// wasLost reports whether the node's member did not answer, and waits until it does.
func (s *setupNode) wasLost(ctx context.Context) (lost bool) {
	for ; ctx.Err() == nil; pause(ctx, 5*time.Second) {
		i, err := s.w.client.instance(ctx, s.name)
		if err == nil && (i == nil || i.Status != statusError) {
			return lost
		}
		lost = true
	}
	return false
}

func (s *setupNode) End(ctx context.Context, n int, handle func(setup.Report)) error {
	return s.call(ctx, command{words: []string{"end", strconv.Itoa(n)}, limit: endStepTime}, handle)
}

// call passes on what the program in the node reports.
func (s *setupNode) call(ctx context.Context, c command, handle func(setup.Report)) error {
	c.output = func(r io.Reader) error { return setup.ReadReports(r, handle) }
	return s.w.client.exec(ctx, s.name, c)
}

// hasUninstall reports whether the removal of the node runs steps.
func (n *node) hasUninstall() bool {
	steps, _ := steprunner.ParseSteps(n.Setup) // checked when it was requested
	return slices.ContainsFunc(steps, func(s setup.Step) bool { return s.Operation == plan.Uninstall })
}
