package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// planInterval is the interval at which open plans are compared with their times and with slivers
// that have left them. Everything else wakes the plans at once.
const planInterval = time.Second

// plans are the plans of documents that have not ended or may have changed.
type plans struct {
	mu   sync.Mutex
	open map[plan]int // how often a sliver of the plan has changed
	wake chan struct{}
	live map[string]map[int]string // outputs of running steps, by sliver
}

// plan names the plan of one request document.
type plan struct {
	slice    urn.URN
	document string
}

// notePlan makes runPlans look at the plan of a sliver. Call it after the commit of a change of the sliver.
func (r *Runner) notePlan(s *am.Sliver) {
	p := plan{s.Slice, s.Document}
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	if s.HasStages() || r.plans.open[p] > 0 {
		r.plans.open[p]++
		wake(r.plans.wake)
	}
}

// noteOpenPlan makes runPlans look at the plan of a sliver until the plan ends. Call it while the sliver waits for steps,
// even if nothing else has changed.
func (r *Runner) noteOpenPlan(s *am.Sliver) {
	p := plan{s.Slice, s.Document}
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	if r.plans.open[p] == 0 {
		r.plans.open[p] = 1
		wake(r.plans.wake)
	}
}

func (r *Runner) openPlans() map[plan]int {
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	return maps.Clone(r.plans.open)
}

// closePlan removes a plan that has ended from the open ones, unless a sliver of it has changed since openPlans returned
// changes.
func (r *Runner) closePlan(p plan, changes int) {
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	if r.plans.open[p] == changes {
		delete(r.plans.open, p)
	}
}

// runPlans advances the plans of documents until ctx ends. All state is in the store: at its start it
// reads every sliver once.
func (r *Runner) runPlans(ctx context.Context) {
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool { r.notePlan(&s); return ctx.Err() == nil })
	})
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Error("cannot read the plans of setups", "error", err)
	}
	seen := map[plan]planSeen{} // the states in which advancePlan has left the open plans
	for ctx.Err() == nil {
		pause := time.Minute
		open := r.openPlans()
		maps.DeleteFunc(seen, func(p plan, _ planSeen) bool { return open[p] == 0 })
		for p, changes := range open {
			now, err := r.lookAtPlan(p, changes)
			if was, ok := seen[p]; err == nil && ok && was.same(now) {
				pause = planInterval
				continue
			}
			isOpen := true
			if err == nil {
				isOpen, now.deadline, err = r.advancePlan(ctx, p)
			}
			switch {
			case err != nil && ctx.Err() == nil:
				r.cfg.Log.Error("cannot continue the plan of a setup", "document", p.document, "error", err)
				delete(seen, p)
			case !isOpen:
				r.closePlan(p, changes)
				delete(seen, p) // the number of changes may begin again
				continue
			default:
				seen[p] = now
			}
			pause = planInterval
		}
		sleepUntil(ctx, pause, r.plans.wake)
	}
}

// planSeen identifies the state of a plan. The slivers, whose records may be large, are read again
// only after it has changed.
type planSeen struct {
	changes  int   // as in plans.open
	serial   int64 // of the slice, which grows when slivers leave it
	at       time.Time
	deadline time.Time // zero if the plan has not begun
}

func (was planSeen) same(now planSeen) bool {
	return was.changes == now.changes && was.serial == now.serial && (was.deadline.IsZero() || now.at.Before(was.deadline))
}

func (r *Runner) lookAtPlan(p plan, changes int) (planSeen, error) {
	now := planSeen{changes: changes}
	err := r.cfg.Store.Read(func(v *store.View) error {
		s, _, err := v.Slice(p.slice)
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		now.serial, now.at = s.Serial, v.Now()
		return err
	})
	return now, err
}

// advancePlan starts the next stage if the last one has ended on all nodes, or stops a plan that
// has failed or takes too long. It reports whether the plan continues, and until when.
func (r *Runner) advancePlan(ctx context.Context, p plan) (isOpen bool, deadline time.Time, err error) {
	var cs store.ChangeSet
	decide := func(v *store.View) (store.ChangeSet, error) {
		cs, isOpen, deadline, err = nextStage(v, p)
		return cs, err
	}
	err = r.cfg.Store.Read(func(v *store.View) error { _, err := decide(v); return err })
	if err != nil || cs.Empty() {
		return isOpen, deadline, err
	}
	if err = r.cfg.Store.Commit(ctx, decide); err == nil {
		wake(r.tasks)
	}
	return isOpen, deadline, err
}

// nextStage returns the changes that begin, continue, stop or end a plan, and whether slivers wait for its steps. The
// plan must be looked at again at the deadline even without a change; zero means never.
func nextStage(v *store.View, p plan) (cs store.ChangeSet, isOpen bool, deadline time.Time, err error) {
	var slivers []am.Sliver
	stages := false
	err = v.EachOf(p.slice, nil, func(s am.Sliver) bool {
		if s.Document == p.document {
			slivers = append(slivers, s)
			stages = stages || s.HasStages()
		}
		return true
	})
	if err != nil || !stages {
		return cs, false, deadline, err
	}
	now := v.Now().UTC()
	state := am.PlanOf(slivers)
	if state.HasEnded() {
		endPlan(v, &cs, p.slice, slivers, state)
		return cs, false, deadline, nil
	}
	isOpen = slices.ContainsFunc(slivers, func(s am.Sliver) bool { return s.SetupOpen() })
	waitsForProvision := slices.ContainsFunc(slivers, func(s am.Sliver) bool { return s.Added && s.Status.Allocation == am.Allocated })
	if waitsForProvision {
		return cs, isOpen, deadline, nil
	}
	if state.Began.IsZero() {
		if !slices.ContainsFunc(slivers, func(s am.Sliver) bool { return s.ReadyForSteps() }) {
			return cs, isOpen, deadline, nil
		}
		state.Began = now
		beginPlan(&cs, slivers, now)
	}
	deadline = state.Began.Add(state.Limit)
	if isLate := now.After(deadline); isLate || state.Failure != "" {
		err = stopPlan(v, &cs, slivers, state, isLate)
	} else {
		err = raiseStage(v, &cs, p.slice, slivers, state)
	}
	return cs, isOpen, deadline, err
}

func beginPlan(cs *store.ChangeSet, slivers []am.Sliver, now time.Time) {
	for i := range slivers {
		if s := &slivers[i]; s.InPlan() {
			s.SetupBegan = now
			cs.PutSliver(*s)
		}
	}
}

// stopPlan lets running steps end, unless the plan is late.
func stopPlan(v *store.View, cs *store.ChangeSet, slivers []am.Sliver, state am.SetupPlan, isLate bool) error {
	text := "not run: " + state.Failure
	if state.Failure == "" {
		text = fmt.Sprintf("the deadline of %v passed in %s", state.Limit, state.Text())
	}
	for i := range slivers {
		s := &slivers[i]
		if !s.SetupOpen() || !isLate && s.StageRuns() {
			continue
		}
		s.SetupStopped = text
		if isLate { // the provider ends the running steps
			s.Desired.Stage = min(s.Desired.Stage, s.OpenStage()-1)
		}
		if err := changeStage(v, cs, s); err != nil {
			return err
		}
	}
	return nil
}

// raiseStage starts the stage of state on the nodes that may run it, and logs the end of the one
// before if they are the first.
func raiseStage(v *store.View, cs *store.ChangeSet, slice urn.URN, slivers []am.Sliver, state am.SetupPlan) error {
	isFirst := !slices.ContainsFunc(slivers, func(s am.Sliver) bool { return s.InStage(state.Stage) })
	raised := false
	for i := range slivers {
		s := &slivers[i]
		if s.Desired.Stage >= state.Stage || !s.MayRaise(state.Stage) {
			continue
		}
		s.Desired.Stage, raised = state.Stage, true
		if err := changeStage(v, cs, s); err != nil {
			return err
		}
	}
	if raised && isFirst && state.Before >= 0 {
		logStage(v, cs, slice, slivers, state.Before)
	}
	return nil
}

// endPlan records the end of a plan, and logs the first one.
func endPlan(v *store.View, cs *store.ChangeSet, slice urn.URN, slivers []am.Sliver, state am.SetupPlan) {
	isFirst := false
	for i := range slivers {
		if s := &slivers[i]; s.InPlan() && !(s.SetupDone && s.SetupBegan.IsZero()) {
			isFirst = isFirst || !s.SetupDone
			s.SetupDone, s.SetupBegan = true, time.Time{}
			cs.PutSliver(*s)
		}
	}
	if isFirst {
		logStage(v, cs, slice, slivers, state.Last)
	}
}

// changeStage stores the sliver, and makes the runner send its new stage if the sliver is on.
func changeStage(v *store.View, cs *store.ChangeSet, s *am.Sliver) error {
	t, _, err := v.Task(s.URN)
	if errors.Is(err, store.ErrNotFound) {
		t, err = am.Task{Sliver: s.URN, Goal: am.GoalSetup, Since: v.Now()}, nil
		if !s.Desired.On { // geni_start will send it
			cs.PutSliver(*s)
			return nil
		}
	}
	if err != nil {
		return err
	}
	s.Generation++
	t.Generation, t.Attempt, t.NotBefore = s.Generation, 0, time.Time{}
	cs.PutSliver(*s)
	cs.PutTask(t)
	return nil
}

func logStage(v *store.View, cs *store.ChangeSet, slice urn.URN, slivers []am.Sliver, stage int) {
	var ended []urn.URN
	for i := range slivers {
		if s := &slivers[i]; s.InStage(stage) {
			ended = append(ended, s.URN)
		}
	}
	cs.Log(am.JournalEntry{At: v.Now(), Event: am.EventStageEnded, Slice: slice, Slivers: ended, Text: fmt.Sprintf("stage %d", stage+1)})
}

// logFailedSteps adds a journal entry for each step that has failed since the last observation.
func logFailedSteps(v *store.View, cs *store.ChangeSet, s *am.Sliver, now am.Observed, request string) {
	was := s.Observed.Services
	for i := range min(len(s.Setup), len(now.Services)) {
		if now.Services[i].State != am.StepFailed || i < len(was) && was[i].State == am.StepFailed {
			continue
		}
		after := *s
		after.Observed = now
		cs.Log(am.JournalEntry{At: v.Now(), Event: am.EventStepFailed, Request: request, Slice: s.Slice, Slivers: []urn.URN{s.URN}, Text: after.StepFailureText(i)})
	}
}

// noteLive keeps the outputs of a sliver's running steps.
func (r *Runner) noteLive(sliver urn.URN, live map[int]string) {
	key := sliver.Key()
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	if live == nil {
		delete(r.plans.live, key)
	} else {
		r.plans.live[key] = live
	}
}

// LiveOutput returns the last output of a running step of a sliver; "" if it is unknown.
func (r *Runner) LiveOutput(sliver urn.URN, step int) string {
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	return r.plans.live[sliver.Key()][step]
}
