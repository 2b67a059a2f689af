package lxd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/rspec/step"
)

const (
	executesTime  = 30 * time.Second // in which executes keep a node from being ready
	startStepTime = time.Minute
	slowStartTime = 3 * time.Minute
	endStepTime   = time.Minute
)

// steps are the steps of an instance, as its node's setup requires them.
type steps struct {
	journal steprunner.Journal
	items   []string // of all steps in the journal, also of those that the setup has no more
	// changed is the node of the instance with the new setup; nil if the instance has these steps.
	changed *node
}

// values returns what must be recorded together.
func (s *steps) values() map[string]any {
	values := map[string]any{keySteps: s.journal}
	if s.changed != nil {
		values[keyEver], values[keyNode] = s.items, s.changed
	}
	return values
}

// maxEver bounds the steps that an instance ever had, in bytes.
const maxEver = 2 * steprunner.MaxStepBytes

// stepsFor returns the steps of the instance after a change to the setup of n. They are new if the server
// does not have the instance, or not yet with the requested disk. If the setup cannot change so, the steps are
// those of the instance.
func stepsFor(n *node, i *instance) (steps, error) {
	known := i.node()
	if known == nil || known.lost || i.facts().Reloads != n.ReloadSerial {
		return steps{journal: newJournal(n), items: n.Setup}, nil
	}
	s, ok := i.recordedSteps(known)
	if !ok { // rather than run a step twice
		return steps{journal: steprunner.DamagedJournal(len(n.Setup), n.stage()), items: n.Setup}, nil
	}
	var before []string
	for _, k := range s.journal.Current() {
		before = append(before, s.items[k])
	}
	if slices.Equal(before, n.Setup) {
		return s, nil
	}
	was, is := plainItems(before), plainItems(n.Setup)
	if slices.Equal(was, is) { // only the spacing differs
		return s, nil
	}
	from := step.Keep(was, is)
	var added []setup.Step
	all, size := slices.Clone(s.items), 0
	for k, was := range from {
		if was >= 0 {
			continue
		}
		parsed, err := setup.ParseStep(n.Setup[k])
		if err != nil {
			return s, err
		}
		added, all = append(added, parsed), append(all, n.Setup[k])
	}
	for _, item := range all {
		size += len(item)
	}
	if size > maxEver {
		return s, fmt.Errorf("the setup of the node has changed too often: its steps would have had %d bytes, and %d are possible", size, maxEver)
	}
	j := s.journal
	j.Steps = slices.Clone(j.Steps)
	if err := j.ChangeSteps(from, added, n.stage()); err != nil {
		return s, err
	}
	next := *known
	next.Setup, next.SetupStage = n.Setup, n.SetupStage
	return steps{journal: j, items: all, changed: &next}, nil
}

// recordedSteps returns the steps that the instance has recorded; known is its node. ok is false if the record is
// damaged.
func (i *instance) recordedSteps(known *node) (s steps, ok bool) {
	s.items = known.Setup
	var err error
	if text := i.Config[keyEver]; text != "" {
		err = json.Unmarshal([]byte(text), &s.items)
	}
	if text := i.Config[keySteps]; text != "" {
		err = errors.Join(err, json.Unmarshal([]byte(text), &s.journal))
	} else if len(s.items) > 0 {
		s.journal = newJournal(known)
	}
	return s, err == nil && len(s.journal.Steps) == len(s.items)
}

// plainItems returns the items in one form, in which equal steps are equal texts.
func plainItems(items []string) (list []string) {
	for _, item := range items {
		var o any
		if json.Unmarshal([]byte(item), &o) == nil {
			b, _ := json.Marshal(o) // cannot fail: it was JSON
			item = string(b)
		}
		list = append(list, item)
	}
	return list
}

func newJournal(n *node) steprunner.Journal {
	list, err := steprunner.ParseSteps(n.Setup)
	if err != nil {
		return steprunner.DamagedJournal(len(n.Setup), n.stage())
	}
	return steprunner.NewJournal(list, n.stage())
}

// journal returns the journal of the steps that stepsFor returns.
func journal(n *node, i *instance) steprunner.Journal {
	s, _ := stepsFor(n, i) // the worker fails with the error
	return s.journal
}

// stage returns the highest stage of steps that may run; 0 without the attribute.
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

// stepRunner returns the runner of the node's steps; nil if it has none.
func (w *worker) stepRunner(n *node, i *instance) *steprunner.Runner {
	s, _ := stepsFor(n, i) // the steps of the instance, if they cannot change
	if len(s.items) == 0 {
		return nil
	}
	return steprunner.New(&setupNode{w, n, i.Name, s}, s.journal, steprunner.Options{
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
	w     *worker
	n     *node
	name  string // of the instance
	steps steps
}

func (s *setupNode) ShowProgress() {}
func (s *setupNode) Wake()         {}

// Save records the journal in the instance. It tries again, since the cluster may just choose another leader.
func (s *setupNode) Save(j steprunner.Journal) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for n := range 3 {
		pause(ctx, time.Duration(n)*time.Second)
		s.steps.journal = j
		if err = s.w.recordChanges(ctx, &instance{Name: s.name}, s.steps.values()); err == nil {
			s.steps.changed = nil
			return nil
		}
	}
	return err
}

// Assignments gives steps to the first account, and to root if the node has no account.
func (s *setupNode) Assignments() ([]setup.Assignment, error) {
	accounts, err := s.n.accounts()
	if err != nil {
		return nil, err
	}
	all := make([]setup.Assignment, len(s.steps.items))
	for k, item := range s.steps.items {
		if all[k].Step, err = setup.ParseStep(item); err != nil {
			return nil, err
		}
		if len(accounts) > 0 {
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

// call runs a command in the node, and calls handle with each report of the program.
func (s *setupNode) call(ctx context.Context, c command, handle func(setup.Report)) error {
	c.output = func(r io.Reader) error { return setup.ReadReports(r, handle) }
	return s.w.client.exec(ctx, s.name, c)
}

// hasUninstall reports whether the removal of the node runs steps.
func (n *node) hasUninstall() bool {
	steps, _ := steprunner.ParseSteps(n.Setup) // checked when it was requested
	return slices.ContainsFunc(steps, func(s setup.Step) bool { return s.Operation == step.Uninstall })
}
