package service

import (
	"cmp"
	"context"
	"slices"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// Status returns the states of slivers (AM API v3, Status). It reads the store and calls no
// provider.
//
// Errors: those of resolve.
func (s *Service) Status(_ context.Context, g credentials.Grant, t Targets, c Call) (Outcome, error) {
	var out Outcome
	err := s.cfg.Store.Read(func(v *store.View) error {
		r, err := resolve(v, g, t, c.BestEffort)
		if err != nil {
			return err
		}
		out = Outcome{Slice: r.slice, Slivers: reportsOf(r.slivers)}
		err = s.setRenewable(v, out.Slivers, r.until, s.cfg.Policy.For(g.Caller(), r.slice))
		out.Slivers = append(out.Slivers, r.absent(v.Now())...)
		return err
	})
	s.addObserved(out.Slivers)
	return out, s.withHistory(err)
}

// SliverStatus returns the states of all slivers of a slice, even if the slice was shut
// down (AM API v2, SliverStatus).
//
// Errors: Forbidden, SearchFailed for a slice without slivers.
func (s *Service) SliverStatus(_ context.Context, g credentials.Grant, slice urn.URN) (Outcome, error) {
	out := Outcome{Slice: slice}
	err := s.cfg.Store.Read(func(v *store.View) error {
		if _, err := g.Over(slice); err != nil {
			return err
		}
		live, err := liveSlivers(v, slice)
		if err != nil {
			return err
		}
		if len(live) == 0 {
			return noSlivers(slice)
		}
		rec, _, err := v.Slice(slice)
		out.Slivers, out.Shutdown = reportsOf(live), !rec.Shutdown.IsZero()
		return err
	})
	s.addObserved(out.Slivers)
	return out, s.withHistory(err)
}

// Describe returns the states and the manifest of slivers (AM API v3, Describe). A slice
// without slivers has an empty manifest, unless EmptyDescribeNotFound is set.
//
// Errors: those of resolve and of manifest.
func (s *Service) Describe(ctx context.Context, g credentials.Grant, t Targets, c Call) (Outcome, error) {
	var out Outcome
	var absent []Report
	var empty error // the reason for an empty manifest
	manifest, err := s.manifest(ctx, func(v *store.View) (urn.URN, []Report, error) {
		r, err := resolve(v, g, t, c.BestEffort)
		if empty = nil; s.isEmptyDescribe(t, err) {
			empty, err = err, nil
		}
		out, absent = Outcome{Slice: r.slice, Slivers: reportsOf(r.slivers)}, r.absent(v.Now())
		if err == nil {
			err = s.setRenewable(v, out.Slivers, r.until, s.cfg.Policy.For(g.Caller(), r.slice))
		}
		return g.Caller(), out.Slivers, err
	})
	if err != nil {
		return Outcome{}, s.withHistory(err)
	}
	if empty != nil {
		out.Notices = []string{s.withHistory(empty).Error()}
	}
	out.Manifest, out.Slivers = manifest, append(out.Slivers, absent...)
	s.addObserved(out.Slivers)
	return out, nil
}

// addObserved adds what the records do not have: the stage of the plan of each sliver, the outputs of
// running steps, and errors for slivers whose provider does not answer.
func (s *Service) addObserved(all []Report) {
	addPlans(all)
	for i := range all {
		x := &all[i].Sliver
		x.Error = cmp.Or(x.Error, lease.LateText(x, s.plan.Load(), s.cfg.Store.Now()))
		if len(x.Setup) == 0 {
			continue
		}
		x.Observed.Services = slices.Clone(x.Observed.Services)
		for n := range x.Observed.Services {
			if r := &x.Observed.Services[n]; r.State == am.StepRunning {
				r.Output = s.cfg.Runner.LiveOutput(x.URN, n)
			}
		}
	}
	s.noteSilentProviders(all)
}

// addPlans describes the stage of each sliver's plan. If the reports lack slivers of a document, the
// text counts only those that they have.
func addPlans(all []Report) {
	documents := map[string][]am.Sliver{}
	for i := range all {
		if x := &all[i].Sliver; len(x.Setup) > 0 {
			documents[x.Document] = append(documents[x.Document], *x)
		}
	}
	plans := map[string]am.SetupPlan{}
	for id, slivers := range documents {
		if slices.ContainsFunc(slivers, func(x am.Sliver) bool { return x.HasStages() }) {
			plans[id] = am.PlanOf(slivers)
		}
	}
	for i := range all {
		if p, ok := plans[all[i].Sliver.Document]; ok && all[i].Sliver.SetupOpen() {
			all[i].Plan = p.Text()
		}
	}
}

// noteSilentProviders sets an error for slivers whose provider does not answer, unless they have
// an error already.
func (s *Service) noteSilentProviders(all []Report) {
	for i := range all {
		x := &all[i].Sliver
		if since, silent := s.cfg.Runner.Silent(x.Provider); silent && x.Error == "" {
			x.Error = am.SilentText(x.Provider, since)
		}
	}
}

func reportsOf(all []am.Sliver) []Report {
	out := make([]Report, len(all))
	for i := range all {
		out[i] = Report{Sliver: all[i]}
	}
	return out
}
