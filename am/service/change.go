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

// sortByCreation orders slivers as they were allocated; those of one Allocate
// by their place in the request, which their URNs do not show, so by client_id.
func sortByCreation(all []am.Sliver) {
	slices.SortStableFunc(all, func(a, b am.Sliver) int {
		return cmp.Or(a.Created.Compare(b.Created), a.Ordinal-b.Ordinal, strings.Compare(a.ClientID, b.ClientID))
	})
}

// change is the shape of every method that moves slivers: resolve, then step
// for each sliver, all or nothing unless best effort.
type change struct {
	event string
	text  string // what the journal says beside it
	// settled is the revision up to which the journal's entries may be joined with
	// that of this change; 0 for none.
	settled store.Rev
	grant   credentials.Grant
	targets Targets
	call    Call
	// asked says that slivers may be changed, too, whose providers are being asked
	// whether they can make them. All else answers Busy: a sliver that were made
	// meanwhile would look as if the dry run had made it, and what Allocate then
	// does with its slivers would undo what somebody else was promised.
	asked bool
	// only is the state of the slivers that a call for the whole slice is about, and
	// none the refusal when there are none; nil keeps all.
	only am.AllocationState
	none error
	// prepare finds out, once for all slivers, what step needs, and refuses what
	// is wrong with the call whatever the slivers' states; nil for nothing.
	prepare func(v *store.View, slice urn.URN) error
	// step changes one sliver and adds what follows to the change set. A sliver
	// it refuses must not have added anything.
	step func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error
	// finish adds what concerns the slivers that step let through, as they were
	// before it, all at once; nil for nothing.
	finish func(v *store.View, cs *store.ChangeSet, before []am.Sliver) error
}

// busy refuses slivers whose providers are being asked.
func (c *change) busy(v *store.View, slivers ...am.Sliver) error {
	for _, x := range slivers {
		if !c.asked && v.Now().Before(x.AskedUntil) {
			return am.Errorf(am.Busy, "the provider of sliver %s is still being asked whether it can make it; try again when the call that reserves it has been answered, or Delete it", x.URN).About(x.URN)
		}
	}
	return nil
}

// run commits the change and reports every sliver named.
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
				return cs, cmp.Or(c.busy(v, all...), c.none)
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
			err := c.busy(v, x)
			if err == nil {
				err = c.step(v, &cs, &r, &after)
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
		if err := touch(&cs, v, r.slice); err != nil {
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
