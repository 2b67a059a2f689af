package work

import (
	"context"
	"errors"
	"reflect"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// record notes the live outputs and open plans of all items. If an outcome changes a record or a task, record
// writes all outcomes in one decision, and then logs them. It drops an outcome whose generation is out of date: it
// neither writes nor logs it.
func (r *Runner) record(ctx context.Context, items []*item, outcomes []outcome) error {
	changed := false
	for n, i := range items {
		if outcomes[n].is != nil {
			r.noteLive(i.sliver.URN, outcomes[n].live)
		}
		if outcomes[n].open {
			r.noteOpenPlan(&i.sliver)
		}
		changed = changed || changesRecord(i, outcomes[n])
	}
	if !changed {
		return nil
	}
	foundNew := false
	var dropped map[int]bool
	err := r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
		var removed []am.Sliver
		foundNew, dropped = false, map[int]bool{} // the decision may run again
		for n, i := range items {
			s, t, err := current(v, i.task)
			switch {
			case errors.Is(err, store.ErrNotFound): // the sliver is gone, or has a newer generation
				dropped[n] = true
			case err != nil:
				return cs, err
			case outcomes[n].verdict == gone && t.Goal == am.GoalRemove:
				removed = append(removed, s)
			case changesRecord(i, outcomes[n]):
				if clearsError(&s, outcomes[n]) {
					s.Error = ""
				}
				applyOutcome(v, &cs, s, t, outcomes[n])
				isNew, err := recordFound(v, &cs, &s, outcomes[n].observed.Capabilities)
				if err != nil {
					return cs, err
				}
				foundNew = foundNew || isNew
			}
		}
		return cs, lease.Forget(v, &cs, removed)
	})
	if err == nil {
		for n, i := range items {
			if !dropped[n] {
				r.logOutcome(i, outcomes[n])
			}
			r.notePlan(&i.sliver)
		}
		r.reportFound(foundNew)
	}
	return err
}

// recordFound records the capabilities that a node reports for its component. It returns
// false if the record has them already, and for a node that may share its component.
func recordFound(v *store.View, cs *store.ChangeSet, s *am.Sliver, capabilities []string) (isNew bool, err error) {
	if !s.Exclusive || s.Provider == "" || len(capabilities) == 0 {
		return false, nil
	}
	now := am.FoundComponent{URN: s.Component, Name: s.ComponentName, Provider: s.Provider, Capabilities: capabilities}
	was, _, err := v.Component(s.Component)
	if err != nil && !errors.Is(err, store.ErrNotFound) || reflect.DeepEqual(was, now) {
		return false, err
	}
	cs.PutComponent(now)
	return true, nil
}

func (r *Runner) reportFound(isNew bool) {
	if isNew && r.cfg.Found != nil {
		r.cfg.Found()
	}
}

// changesRecord reports whether the outcome changes the record or the task of the sliver.
func changesRecord(i *item, o outcome) bool {
	switch o.verdict {
	case wait:
		return clearsError(&i.sliver, o) || !reflect.DeepEqual(o.observed, i.sliver.Observed) || o.open && i.task.Goal == am.GoalMake
	case needSet:
		return !reflect.DeepEqual(o.observed, i.sliver.Observed)
	case unavailable:
		return o.text != i.sliver.Error && i.task.Goal != am.GoalUndo
	case setAccepted:
		return clearsError(&i.sliver, o)
	}
	return true
}

// clearsError reports whether a sliver's error text is obsolete. It is obsolete if the provider
// has accepted a set, or has reported a resource that is changing. A sliver that has failed
// permanently keeps its error.
func clearsError(s *am.Sliver, o outcome) bool {
	return s.Error != "" && s.Status.Operational != am.Failed && (o.verdict == setAccepted || o.verdict == wait && !o.vanished)
}

// current returns the stored sliver and task of t. It fails with store.ErrNotFound if the generation of the sliver or of the stored task
// differs from that of t.
func current(v *store.View, t am.Task) (am.Sliver, am.Task, error) {
	s, _, err := v.Sliver(t.Sliver)
	if err != nil {
		return s, t, err
	}
	now, _, err := v.Task(t.Sliver)
	if err == nil && (s.Generation != t.Generation || now.Generation != t.Generation) {
		err = store.ErrNotFound
	}
	return s, now, err
}

// applyOutcome adds to cs what the outcome changes: the observed state, status and error of s, its task t, and journal
// entries.
func applyOutcome(v *store.View, cs *store.ChangeSet, s am.Sliver, t am.Task, o outcome) {
	switch o.verdict {
	case unavailable:
		s.Error = o.text
		cs.PutSliver(s)
		return
	case setAccepted: // the outcome has no new observation
		cs.PutSliver(s)
		return
	}
	logFailedSteps(v, cs, &s, o.observed, t.Request)
	s.Observed = o.observed
	switch o.verdict {
	case wait:
		if o.open && t.Goal == am.GoalMake { // the node exists, so it is not undone if its plan fails
			s.Status, t.Goal = am.After(s.Status, am.EventDone, am.ActionStart), am.GoalStart
			cs.PutTask(t)
		}
	case done:
		s.Status = am.Done(s.Status, t.Goal, s.Desired.On)
		if s.Status.Operational != am.Failed { // a failed sliver keeps its error, even when it is switched off
			s.Error = o.text
		}
		cs.Remove(store.TaskKey(s.URN))
	case gone: // after GoalUndo the sliver stays, with its error
		cs.Remove(store.TaskKey(s.URN))
	case giveUp:
		event := am.EventGaveUp
		if _, err := am.Next(s.Status, event); err != nil && (t.Goal == am.GoalStart || t.Goal == am.GoalStop) {
			event = am.EventLost // a repair failed, so the resource existed before
		}
		fail(v, cs, &s, event, o.text, t.Request)
		if t.Goal == am.GoalMake && !o.keep {
			undo(v, cs, &s, t.Request)
		}
	case lost:
		event := am.EventLost
		if _, err := am.Next(s.Status, event); err != nil {
			event = am.EventGaveUp
		}
		fail(v, cs, &s, event, o.text, t.Request)
	case retry:
		if t.Goal != am.GoalUndo { // a sliver that is undone keeps its first error
			s.Error = o.text
		}
		t.Attempt++
		t.NotBefore = v.Now().Add(o.delay)
		cs.PutTask(t)
	}
	cs.PutSliver(s)
}

// fail changes the status of s by the event e, which is a failure with this text. It deletes the task and adds a journal
// entry. The caller stores s.
func fail(v *store.View, cs *store.ChangeSet, s *am.Sliver, e am.Event, text, request string) {
	if s.Status.Operational != am.Failed || s.Error == "" { // the first error stays
		s.Error = text
	}
	s.Status = am.After(s.Status, e)
	cs.Remove(store.TaskKey(s.URN))
	cs.Log(am.JournalEntry{At: v.Now(), Event: string(e), Request: request, Slice: s.Slice, Slivers: []urn.URN{s.URN}, Text: text})
}

// undo adds a task that removes the remains of a sliver that has failed. The caller stores the sliver, whose record holds
// the component until the sliver is deleted or its lease ends.
func undo(v *store.View, cs *store.ChangeSet, s *am.Sliver, request string) {
	s.Desired.Present, s.Desired.On = false, false
	s.Generation++
	cs.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation, Goal: am.GoalUndo, Since: v.Now(), Request: request})
}

// logOutcome logs what an operator must know about an outcome, and counts failed attempts.
func (r *Runner) logOutcome(i *item, o outcome) {
	log := r.cfg.Log.With("request", i.task.Request, "slice", i.sliver.Slice.String(), "sliver", i.sliver.URN.String(),
		"goal", string(i.task.Goal), "generation", i.task.Generation)
	if o.verdict == giveUp || o.verdict == lost || o.verdict == retry {
		r.failures.Add(1)
	}
	switch o.verdict {
	case done, gone:
		log.Info("task done", "attempt", i.task.Attempt+1)
		if o.text != "" {
			log.Warn("parts of the desired state are missing", "error", o.text)
		}
	case giveUp:
		log.Warn("task failed permanently", "attempt", i.task.Attempt+1, "error", o.text)
	case lost:
		log.Warn("resource lost", "error", o.text)
	case retry:
		log.Warn("task failed and will be retried", "attempt", i.task.Attempt+1, "after", o.delay, "error", o.text)
	case unavailable:
		if o.text != i.sliver.Error {
			log.Warn("task is waiting for its provider or component", "error", o.text)
		}
	}
}
