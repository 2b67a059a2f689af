package service

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// sortByCreation sorts slivers by the time of their allocation, then by their place in
// the request, then by client_id.
func sortByCreation(all []am.Sliver) {
	slices.SortStableFunc(all, func(a, b am.Sliver) int {
		return cmp.Or(a.Created.Compare(b.Created), a.Ordinal-b.Ordinal, strings.Compare(a.ClientID, b.ClientID))
	})
}

// change describes a method that changes slivers. run resolves the targets, then calls
// apply for each sliver: all or nothing, unless best effort was requested.
type change struct {
	event string
	text  string // more about the event, for the journal
	// settled is the revision up to which journal entries may be joined with the one
	// of this change; 0 for none.
	settled store.Rev
	grant   credentials.Grant
	targets Targets
	call    Call
	// inDryRun allows changes of slivers that are in a dry run. Other methods answer
	// Busy: a sliver that was created meanwhile would look as if the dry run had created
	// it, and the end of the dry run would undo another caller's change.
	inDryRun bool
	// only selects slivers by state in a call for the whole slice, and none is the error
	// if there are none; a nil none selects all.
	only am.AllocationState
	none error
	// prepare computes the data that apply needs, once for all slivers, and checks the
	// parts of the call that do not depend on slivers; nil if there is nothing to do.
	prepare func(v *store.View, slice urn.URN) error
	// apply changes one sliver and adds the change to the change set. If it returns an
	// error, it must not have added anything.
	apply func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error
	// finish adds changes for all slivers that apply accepted, given as they were before
	// it; nil if there is nothing to add.
	finish func(v *store.View, cs *store.ChangeSet, before []am.Sliver) error
}

// checkBusy returns a Busy error for slivers in a dry run.
func (c *change) checkBusy(v *store.View, slivers ...am.Sliver) error {
	for _, x := range slivers {
		if !c.inDryRun && v.Now().Before(x.ProbedUntil) {
			return am.Errorf(am.Busy, "the provider of sliver %s is still checking whether it can make it; try again when the call that reserves it has returned, or Delete it", x.URN).About(x.URN)
		}
	}
	return nil
}

// run commits the change. Its outcome has a report for every named sliver. The journal gets
// an entry if anything has changed.
func (s *Service) run(ctx context.Context, c change) (Outcome, error) {
	var out Outcome
	err := s.commit(ctx, c.grant, c.targets, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		r, err := resolve(v, c.grant, c.targets, c.call.BestEffort)
		if err != nil {
			return cs, err
		}
		if c.none != nil && !c.targets.Slice.IsZero() {
			all := r.slivers
			r.slivers = slices.DeleteFunc(slices.Clone(all), func(x am.Sliver) bool { return x.Status.Allocation != c.only })
			if len(r.slivers) == 0 {
				return cs, cmp.Or(c.checkBusy(v, all...), c.none)
			}
		}
		if c.prepare != nil {
			if err := c.prepare(v, r.slice); err != nil {
				return cs, err
			}
		}
		out = Outcome{Slice: r.slice}
		var before, changed []am.Sliver
		var refusal error
		for _, x := range r.slivers {
			after := x
			err := c.checkBusy(v, x)
			if err == nil {
				err = c.apply(v, &cs, &r, &after)
			}
			if err != nil {
				if !c.call.BestEffort || am.CodeOf(err) == am.ErrorCode {
					return store.ChangeSet{}, err
				}
				if refusal == nil {
					refusal = err
				}
				out.Slivers = append(out.Slivers, Report{Sliver: x, Failed: err.Error()})
				continue
			}
			before, changed = append(before, x), append(changed, after)
			out.Slivers = append(out.Slivers, Report{Sliver: after})
		}
		if len(changed) == 0 && refusal != nil {
			return store.ChangeSet{}, refusal
		}
		out.Slivers = append(out.Slivers, r.absent(v.Now())...)
		if cs.Empty() && c.finish == nil {
			return cs, nil
		}
		if err := countChange(&cs, v, r.slice); err != nil {
			return store.ChangeSet{}, err
		}
		if c.finish != nil {
			if err := c.finish(v, &cs, before); err != nil {
				return store.ChangeSet{}, err
			}
		}
		journal(&cs, v, c.grant, c.call, c.event, c.text, r.slice, changed)
		if c.settled > 0 {
			err = joinRepeated(&cs, v, c.settled)
		}
		return cs, err
	})
	return out, s.withHistory(err)
}
