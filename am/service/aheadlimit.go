package service

import (
	"time"

	"patchbay/am"
	"patchbay/am/service/policy"
	"patchbay/am/store"
)

// maxAhead is the maximum number of slivers of a site that have not begun. Decisions about other projects at the same
// time may exceed it by their own slivers.
const maxAhead = 20_000

// checkAhead checks the limits of the site, of the project and of the policy for slivers that have not begun, if a.slivers has any.
//
// Errors: TooBig for the limits of the site and of the project, Refused for those of the policy.
func (a *attempt) checkAhead(v *store.View) error {
	var added []am.Hold
	for i := range a.slivers {
		if x := &a.slivers[i]; x.Waits() && a.kept[x.ClientID] == nil {
			added = append(added, am.HoldOf(x))
		}
	}
	if len(added) == 0 {
		return nil
	}
	user, project := added[0].User, added[0].Project
	held := policy.AheadOf(a.grant.Caller())
	inSite, inProject := len(added), len(added)
	err := a.calendar(v, time.Time{}, func(h *am.Hold) bool { return !h.From.IsZero() && (h.User == user || h.Project == project) })(func(h *am.Hold) bool {
		if !h.From.IsZero() {
			inSite++
			if h.Project == project {
				inProject++
			}
			held.Add(h)
		}
		return true
	})
	const remedy = "delete some, or wait until they begin"
	switch most := a.cfg.Leases.AheadEntries; {
	case err != nil:
		return err
	case inProject > most:
		return am.Errorf(am.TooBig, "project %s would have %d slivers that have not begun; this aggregate allows a project %d: %s", am.ProjectOf(a.slice), inProject, most, remedy).About(a.slice)
	case inSite > maxAhead:
		return am.Errorf(am.TooBig, "all projects together would have %d slivers that have not begun; an aggregate allows %d: try again later, or without geni_start_time", inSite, maxAhead).About(a.slice)
	}
	return a.permit.WithinAhead(held, added)
}
