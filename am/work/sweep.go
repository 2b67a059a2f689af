package work

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// sweepCalls limits the additional gets in one sweep of a provider. After a failed get, they
// find the resources that make the get fail.
const sweepCalls = 32

// settled is a sliver that has a resource and no task. The resource should match the sliver's
// record.
type settled struct {
	urn        urn.URN
	generation int64
}

// sweep periodically compares the slivers without tasks with their resources, and deletes definitions that have ended,
// until ctx ends.
func (r *Runner) sweep(ctx context.Context) {
	// Wait before the first sweep, too: providers may still be starting, like this server.
	t := time.NewTicker(r.limits.Sweep)
	defer t.Stop()
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	var sweeping sync.Map // providers whose sweep still runs
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-r.sweepRequests:
		}
		if err := r.forgetDefinitions(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Error("cannot delete definitions that have ended", "error", err)
		}
		all, err := r.settledSlivers()
		if err != nil {
			r.cfg.Log.Error("cannot read the slivers to compare", "error", err)
		}
		for name, slivers := range all {
			if _, busy := sweeping.LoadOrStore(name, true); busy {
				continue // a provider that hangs must not delay the others
			}
			sweeps.Go(func() {
				defer sweeping.Delete(name)
				if p, err := r.cfg.Providers(name); err == nil {
					r.sweepProvider(ctx, name, p, slivers)
				}
			})
		}
	}
}

// forgetDefinitions deletes the definitions of slices without slivers that have ended, in batches.
func (r *Runner) forgetDefinitions(ctx context.Context) error {
	for {
		var due []urn.URN
		find := func(v *store.View) (err error) { due, err = lease.EndedDefinitions(v, r.limits.Expire); return err }
		if err := r.cfg.Store.Read(find); err != nil || len(due) == 0 {
			return err
		}
		err := r.cfg.Store.Commit(ctx, func(v *store.View) (cs store.ChangeSet, err error) {
			if err := find(v); err != nil {
				return cs, err
			}
			for _, u := range due {
				if err := lease.DropDefinitions(v, &cs, u); err != nil {
					return cs, err
				}
			}
			return cs, nil
		})
		if err != nil {
			return err
		}
	}
}

// settledSlivers returns the settled slivers of each provider.
func (r *Runner) settledSlivers() (map[string][]settled, error) {
	all := map[string][]settled{}
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			if isSettled(v, &s) {
				if _, name, ok := r.placeOf(&s); ok {
					all[name] = append(all[name], settled{s.URN, s.Generation})
				}
			}
			return true
		})
	})
	return all, err
}

func isSettled(v *store.View, s *am.Sliver) bool {
	o := s.Status.Operational
	return s.Status.Allocation == am.Provisioned && (o == am.Ready || o == am.NotReady) && v.Rev(store.TaskKey(s.URN)) == 0
}

func (r *Runner) sweepProvider(ctx context.Context, name string, p Provider, slivers []settled) {
	calls := sweepCalls
	for batch := range slices.Chunk(slivers, r.limits.Names) {
		if err := r.sweepSome(ctx, p, batch, &calls); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("cannot compare slivers with their resources", "provider", name, "slivers", len(batch), "error", OperatorText(err))
		}
	}
}

// sweepSome reads the resources of the batch with one get. calls is the number of additional gets
// that are left. If the get fails and two more are left, sweepSome sweeps the two halves of the
// batch separately.
func (r *Runner) sweepSome(ctx context.Context, p Provider, batch []settled, calls *int) error {
	found, err := r.get(ctx, p, batch)
	if err != nil {
		if len(batch) == 1 || *calls < 2 || ctx.Err() != nil {
			return err
		}
		*calls -= 2
		half := len(batch) / 2
		return errors.Join(r.sweepSome(ctx, p, batch[:half], calls), r.sweepSome(ctx, p, batch[half:], calls))
	}
	bad, err := r.findDeviations(p, batch, found)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		// Require a second answer.
		if err := sleep(ctx, r.limits.PollMax); err != nil {
			return err
		}
		again, err := r.get(ctx, p, bad)
		for _, s := range bad {
			delete(found, s.urn.Name)
			if res, ok := again[s.urn.Name]; ok && err == nil {
				found[s.urn.Name] = res
			}
		}
	}
	for _, x := range batch {
		if res, ok := found[x.urn.Name]; ok && res.Err == nil {
			r.noteLive(x.urn, provider.LiveOutputs(res.Resource))
		}
	}
	return r.recordObserved(ctx, p, batch, found)
}

// findDeviations returns those of the batch whose resource is lost or has drifted.
func (r *Runner) findDeviations(p Provider, batch []settled, found map[string]provider.Result) (bad []settled, err error) {
	err = r.cfg.Store.Read(func(v *store.View) error {
		for _, x := range batch {
			s, _, err := v.Sliver(x.urn)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			res := found[x.urn.Name]
			if err == nil && s.Generation == x.generation && (lossOf(res) != "" || len(driftOf(p, &s, res)) > 0) {
				bad = append(bad, x)
			}
		}
		return nil
	})
	return bad, err
}

// get reads the resources of the slivers. The result has an entry for each.
func (r *Runner) get(ctx context.Context, p Provider, batch []settled) (map[string]provider.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit(p, "get", r.limits.Get))
	defer cancel()
	names := make([]string, len(batch))
	for n, s := range batch {
		names[n] = s.urn.Name
	}
	found, err := p.Get(ctx, names)
	if err != nil {
		return nil, err
	}
	found = maps.Clone(found)
	for _, name := range names {
		if _, ok := found[name]; !ok {
			found[name] = provider.Result{}
		}
	}
	return found, nil
}

// lossOf returns "" if the resource is not lost, or if the result does not show whether it is lost.
func lossOf(res provider.Result) string {
	switch {
	case res.Err != nil && res.Err.Kind == provider.Unknown:
		return vanishedText
	case res.Err != nil:
		return ""
	case provider.Gone(res.Resource):
		return vanishedText
	case res.Resource.Text(provider.AttrState) == provider.StateFailed:
		return cmp.Or(provider.ObservedNode(res.Resource).Message, failedText)
	}
	return ""
}

// recordObserved records what has changed of the resources in found: their state, losses and drift, which it repairs. It
// keeps the last recorded state while a resource is changing, for example during a restart by the provider.
func (r *Runner) recordObserved(ctx context.Context, p Provider, batch []settled, found map[string]provider.Result) error {
	foundNew := false
	changes := func(v *store.View) (cs store.ChangeSet, err error) {
		foundNew = false
		for _, x := range batch {
			res, ok := found[x.urn.Name]
			s, _, err := v.Sliver(x.urn)
			switch {
			case errors.Is(err, store.ErrNotFound) || err == nil && (!ok || s.Generation != x.generation || !isSettled(v, &s)):
				continue
			case err != nil:
				return cs, err
			}
			was, now := s, observed(&s, res.Resource)
			if text := lossOf(res); text != "" {
				s.Observed = now
				fail(v, &cs, &s, am.EventLost, text, "")
			} else if res.Err == nil && now.State == provider.StateReady {
				r.recordReady(v, &cs, p, &s, now)
				if drift := driftOf(p, &s, res); len(drift) > 0 && s.Status == was.Status {
					r.repair(v, &cs, &s, drift, missingParts(p, &s))
				}
			}
			if !reflect.DeepEqual(was, s) {
				cs.PutSliver(s)
				isNew, err := recordFound(v, &cs, &s, s.Observed.Capabilities)
				if err != nil {
					return cs, err
				}
				foundNew = foundNew || isNew
			}
		}
		return cs, nil
	}
	// Usually nothing has changed; then do not commit.
	var cs store.ChangeSet
	err := r.cfg.Store.Read(func(v *store.View) (err error) { cs, err = changes(v); return err })
	if err != nil || cs.Empty() {
		return err
	}
	err = r.cfg.Store.Commit(ctx, func(v *store.View) (store.ChangeSet, error) { cs, err = changes(v); return cs, err })
	if err != nil {
		return err
	}
	r.reportFound(foundNew)
	r.reportSwept(cs.Slivers)
	return nil
}

// reportSwept logs and notes the slivers that a sweep has changed.
func (r *Runner) reportSwept(slivers []am.Sliver) {
	for i := range slivers {
		s := &slivers[i]
		r.notePlan(s)
		switch {
		case s.Error == "":
		case isDrift(s.Error):
			r.cfg.Log.Warn("a sliver differs from its desired state", "slice", s.Slice.String(), "sliver", s.URN.String(), "error", s.Error)
			if !r.repairs.isRecent(s.URN) {
				r.repairs.note(s.URN)
				wake(r.tasks)
			}
		case s.Status.Operational == am.Failed:
			text := "resource lost"
			if s.StepFailure() == s.Error {
				text = "a service of a sliver failed"
			}
			r.cfg.Log.Warn(text, "slice", s.Slice.String(), "sliver", s.URN.String(), "error", s.Error)
		}
	}
}

// recordReady records the state of a ready resource. The state may have new results of services
// that were still running when the sliver became ready.
func (r *Runner) recordReady(v *store.View, cs *store.ChangeSet, p Provider, s *am.Sliver, state am.Observed) {
	before := missingParts(p, s)
	logFailedSteps(v, cs, s, state, "")
	s.Observed = state
	failed := s.StepFailure()
	switch {
	case r.cfg.ServicesMustSucceed && failed != "":
		fail(v, cs, s, am.EventLost, failed, "")
	case s.Error == before, isDrift(s.Error):
		s.Error = missingParts(p, s)
	}
}

// sleep fails if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	sleepUntil(ctx, d, nil)
	return ctx.Err()
}

// sleepUntil returns early if ctx ends or wake has a value. woken reports whether wake had a value.
func sleepUntil(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
		return true
	}
	return false
}
