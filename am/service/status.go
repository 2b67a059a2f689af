package service

import (
	"context"

	"patchbay/am"
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
		out = Outcome{Slice: r.slice, Slivers: append(reportsOf(r.slivers), r.absent(v.Now())...)}
		return nil
	})
	s.noteSilentProviders(out.Slivers)
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
	s.noteSilentProviders(out.Slivers)
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
		return g.Caller(), out.Slivers, err
	})
	if err != nil {
		return Outcome{}, s.withHistory(err)
	}
	if empty != nil {
		out.Notices = []string{s.withHistory(empty).Error()}
	}
	out.Manifest, out.Slivers = manifest, append(out.Slivers, absent...)
	s.noteSilentProviders(out.Slivers)
	return out, nil
}

// noteSilentProviders sets an error for slivers whose provider does not answer, unless they have
// an error already.
func (s *Service) noteSilentProviders(all []Report) {
	if s.cfg.Silent == nil {
		return
	}
	for i := range all {
		x := &all[i].Sliver
		if since, silent := s.cfg.Silent(x.Provider); silent && x.Error == "" {
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
