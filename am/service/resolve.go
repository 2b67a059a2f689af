package service

import (
	"errors"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

type resolved struct {
	slice urn.URN
	// slivers are the live slivers, in the order of the call. For a whole slice, they are in the
	// order of creation.
	slivers []am.Sliver
	// missing are the named slivers that do not exist. Calls without best effort have none.
	missing []urn.URN
	until   time.Time
}

// resolve finds the slivers that targets name, and checks that the grant covers their slice.
// Every method of the API that acts on slivers must get them from resolve.
//
// Errors, in this order: Forbidden for a slice that the grant does not cover or that is shut
// down; SearchFailed for a sliver that does not exist (with best effort, only if no sliver
// exists); BadArgs for slivers of two slices; SearchFailed for a slice without slivers.
func resolve(v *store.View, g credentials.Grant, t Targets, bestEffort bool) (resolved, error) {
	if t.Slice.IsZero() {
		return resolveSlivers(v, g, t.Slivers, bestEffort)
	}
	r := resolved{slice: t.Slice}
	var err error
	if r.until, err = checkRight(v, g, t.Slice); err != nil {
		return r, err
	}
	all, err := liveSlivers(v, t.Slice)
	if err != nil {
		return r, err
	}
	if len(all) == 0 {
		return r, noSlivers(t.Slice)
	}
	r.slivers = all
	return r, nil
}

// resolveSlivers does what resolve does, for named slivers. A sliver that is named twice counts once.
func resolveSlivers(v *store.View, g credentials.Grant, named []urn.URN, bestEffort bool) (resolved, error) {
	var r resolved
	seen, checked := map[string]bool{}, map[string]bool{}
	var other urn.URN
	for _, u := range named {
		if seen[u.Key()] {
			continue
		}
		seen[u.Key()] = true
		x, _, err := v.Sliver(u)
		if errors.Is(err, store.ErrNotFound) || err == nil && !x.Live(v.Now()) {
			r.missing = append(r.missing, u)
			continue
		}
		if err != nil {
			return r, err
		}
		if k := x.Slice.Key(); !checked[k] {
			checked[k] = true
			// Check the right before any other error, even for a second slice in the call. A
			// caller without a right to a slice must not learn its name.
			until, err := checkRight(v, g, x.Slice)
			if denied, ok := errors.AsType[*credentials.DeniedError](err); ok {
				return r, am.Errorf(am.Forbidden, "sliver %s belongs to a slice for which no presented credential gives the right to %s; present that slice's credential", u, g.Right()).About(u).With(denied.Detail())
			}
			if err != nil {
				return r, err
			}
			if len(checked) == 1 {
				r.slice, r.until = x.Slice, until
			} else {
				other = u
			}
		}
		r.slivers = append(r.slivers, x)
	}
	switch {
	case len(r.missing) > 0 && (!bestEffort || len(r.slivers) == 0):
		return r, am.Errorf(am.SearchFailed, "there is no sliver %s at this aggregate; it may be deleted or expired", r.missing[0]).About(r.missing[0])
	case !other.IsZero():
		return r, am.Errorf(am.BadArgs, "sliver %s belongs to another slice than %s; name slivers of one slice", other, r.slivers[0].URN).About(other)
	}
	return r, nil
}

// checkRight returns the end of the credential that covers a slice. It fails if no credential
// covers the slice, or if the slice is shut down.
func checkRight(v *store.View, g credentials.Grant, slice urn.URN) (time.Time, error) {
	until, err := g.Over(slice)
	if err != nil {
		return until, err
	}
	return until, checkNotShutDown(v, slice)
}

func checkNotShutDown(v *store.View, slice urn.URN) error {
	switch rec, _, err := v.Slice(slice); {
	case err == nil && !rec.Shutdown.IsZero():
		return am.Errorf(am.Forbidden, "slice %s was shut down at %s; only the operators of this aggregate can end the shutdown", slice, rec.Shutdown.Format(time.RFC3339)).About(slice)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	return nil
}

// liveSlivers returns the slivers that are neither released nor expired, in the order of
// creation.
func liveSlivers(v *store.View, slice urn.URN) ([]am.Sliver, error) {
	all, err := v.SliversOf(slice)
	if err != nil {
		return nil, err
	}
	live := slices.DeleteFunc(all, func(x am.Sliver) bool { return !x.Live(v.Now()) })
	sortByCreation(live)
	return live, nil
}

// absent reports the named slivers that do not exist. So an answer lists all names of the call.
func (r *resolved) absent(now time.Time) []Report {
	var out []Report
	for _, u := range r.missing {
		out = append(out, Report{
			Sliver: am.Sliver{URN: u, Slice: r.slice, Expires: now.UTC(), Status: am.Status{Allocation: am.Unallocated, Operational: am.PendingAllocation}},
			Failed: "there is no such sliver at this aggregate; it may be deleted or expired",
		})
	}
	return out
}
