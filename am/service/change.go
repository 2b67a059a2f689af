package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// sortByCreation sorts by time of allocation, then place in the request, then client_id.
func sortByCreation(all []am.Sliver) {
	slices.SortStableFunc(all, func(a, b am.Sliver) int {
		return cmp.Or(a.Created.Compare(b.Created), a.Ordinal-b.Ordinal, strings.Compare(a.ClientID, b.ClientID))
	})
}

// change describes a method that changes slivers: all or nothing, unless best effort was
// requested.
type change struct {
	event string
	// waitEvent is the event for slivers that have not begun; "" if it is the same.
	waitEvent string
	text      string // details of the event, for the journal
	// joins means that the journal joins the entry with an earlier one, see joinRepeated.
	joins   bool
	grant   credentials.Grant
	targets Targets
	call    Call
	// inDryRun allows changes of slivers that are in a dry run. Otherwise such a change fails
	// with Busy, because the end of the dry run may remove what the change has created.
	inDryRun bool
	isUrgent bool // see commitUrgent
	// onlyState and errNone are for calls that name a whole slice. The method changes only
	// slivers in onlyState, and fails with errNone if the slice has no such sliver. If errNone is
	// nil, the method changes all slivers.
	onlyState am.AllocationState
	errNone   error
	// beforeAll runs before the first apply. It prepares data for apply, and checks the parts of
	// the call that do not depend on slivers. It may be nil.
	beforeAll func(v *store.View, slice urn.URN) error
	// apply changes one sliver and adds the change to the change set. It must add nothing if it
	// returns an error.
	apply func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error
	// afterAll runs after the last apply, and adds changes for the changed slivers; before has their
	// previous records. It may be nil.
	afterAll func(v *store.View, cs *store.ChangeSet, before []am.Sliver) error
}

// checkBusy returns a Busy error if a sliver is in a dry run, unless inDryRun is set.
func (c *change) checkBusy(v *store.View, slivers ...am.Sliver) error {
	for _, x := range slivers {
		if !c.inDryRun && v.Now().Before(x.ProbedUntil) {
			return am.Errorf(am.Busy, "the provider of sliver %s is still checking whether it can make the sliver; try again when the call that reserves the sliver has returned, or Delete the sliver", x.URN).About(x.URN)
		}
	}
	return nil
}

// run applies the change to each sliver that the call names, in one decision, and commits it with a journal entry
// if anything has changed. With best effort it fails only if no sliver could be changed, and the outcome has the
// reasons of the others. The outcome has a report for every sliver that the call names.
func (s *Service) run(ctx context.Context, c change) (Outcome, error) {
	var out Outcome
	decide := func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		out = Outcome{}
		r, err := resolve(v, c.grant, c.targets, c.call.BestEffort)
		if err != nil {
			return cs, err
		}
		if c.errNone != nil && !c.targets.Slice.IsZero() {
			all := r.slivers
			r.slivers = slices.DeleteFunc(slices.Clone(all), func(x am.Sliver) bool { return x.Status.Allocation != c.onlyState })
			if len(r.slivers) == 0 {
				return cs, cmp.Or(c.checkBusy(v, all...), c.errNone)
			}
		}
		if c.beforeAll != nil {
			if err := c.beforeAll(v, r.slice); err != nil {
				return cs, err
			}
		}
		out = Outcome{Slice: r.slice}
		var before, changed []am.Sliver
		var firstRefusal error
		for _, x := range r.slivers {
			after := x
			err := c.checkBusy(v, x)
			if err == nil {
				err = c.apply(v, &cs, &r, &after)
			}
			if err != nil {
				if !c.call.BestEffort || am.CodeOf(err) == am.ErrorCode {
					if e, ok := errors.AsType[*am.Error](err); ok && !c.call.BestEffort && c.call.API == 3 && len(r.slivers) > 1 {
						hinted := *e
						hinted.Msg += "; nothing was changed: geni_best_effort=true changes the slivers that allow it"
						err = &hinted
					}
					return store.ChangeSet{}, err
				}
				if firstRefusal == nil {
					firstRefusal = err
				}
				out.Slivers = append(out.Slivers, Report{Sliver: x, Failed: err.Error()})
				continue
			}
			before, changed = append(before, x), append(changed, after)
			out.Slivers = append(out.Slivers, Report{Sliver: after})
		}
		if len(changed) == 0 && firstRefusal != nil {
			return store.ChangeSet{}, firstRefusal
		}
		out.Slivers = append(out.Slivers, r.absent(v.Now())...)
		if cs.Empty() && c.afterAll == nil {
			return cs, nil
		}
		if err := countChange(&cs, v, r.slice); err != nil {
			return store.ChangeSet{}, err
		}
		if c.afterAll != nil {
			if err := c.afterAll(v, &cs, before); err != nil {
				return store.ChangeSet{}, err
			}
		}
		c.log(&cs, v, r.slice, changed)
		if c.joins {
			err = joinRepeated(&cs, v)
		}
		return cs, err
	}
	return out, s.withHistory(s.commitChange(ctx, &c, decide))
}

// log adds the journal entries about the changed slivers.
func (c *change) log(cs *store.ChangeSet, v *store.View, slice urn.URN, changed []am.Sliver) {
	var waiting, others []am.Sliver
	for _, x := range changed {
		if c.waitEvent != "" && x.Waits() {
			waiting = append(waiting, x)
		} else {
			others = append(others, x)
		}
	}
	if len(waiting) > 0 {
		journal(cs, v, c.grant, c.call, c.waitEvent, c.text, slice, waiting)
	}
	if len(others) > 0 || len(waiting) == 0 {
		journal(cs, v, c.grant, c.call, c.event, c.text, slice, others)
	}
}

func (s *Service) commitChange(ctx context.Context, c *change, d store.Decision) error {
	if c.isUrgent {
		return s.commitUrgent(ctx, c.grant, c.targets.Slice, d)
	}
	return s.commit(ctx, c.grant, false, d)
}
