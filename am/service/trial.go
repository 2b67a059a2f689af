package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// Prober asks providers before slivers are promised. Its methods may be called
// at the same time.
type Prober interface {
	// Asks tells whether the provider of a component wants to be asked. It is
	// called within decisions, so it waits for nothing.
	Asks(component urn.URN) bool
	// Probe gives an error for each sliver, in their order, nil for one that can
	// be had. SearchFailed, Refused and ErrorCode are about that sliver on its
	// component, and every other code about the provider.
	Probe(ctx context.Context, slivers []am.Sliver) []*am.Error
	// Longest is how long Probe takes at most.
	Longest() time.Duration
}

const (
	// trials is how often providers are asked for one request: once, and again
	// with other components for the nodes that were refused.
	trials = 4
	// trialMargin is how long after a probe's last moment its reservation ends by
	// itself, so that a crash in between needs no other record.
	trialMargin = 30 * time.Second
)

func (s *Service) wantsTrial(slivers []am.Sliver) bool {
	return s.cfg.Prober != nil && slices.ContainsFunc(slivers, func(x am.Sliver) bool { return s.cfg.Prober.Asks(x.Component) })
}

// trialEnd is the lease of slivers that are being asked about.
func (s *Service) trialEnd(now, credential time.Time) time.Time {
	return earliest(now.Add(s.cfg.Prober.Longest()+trialMargin), credential)
}

// refusal is a node that cannot be had where it was bound.
type refusal struct {
	node *binder.Bound
	err  *am.Error
}

// final tells whether no other component would help.
func (r refusal) final() bool {
	switch r.err.Code {
	case am.SearchFailed, am.Refused, am.ErrorCode:
		return r.node.Asked
	}
	return true
}

// try asks the providers of what was taken and confirms it, or gives it back.
// For nodes that do not ask for their component it then takes another, a few
// times at most. Nothing is held meanwhile but the reservation itself, which
// may be deleted, frozen and renewed, but not provisioned.
func (s *Service) try(ctx context.Context, r reservation, t taken) (taken, error) {
	asking, cancel := context.WithTimeout(ctx, s.cfg.Prober.Longest()) // for all trials together
	defer cancel()
	r.avoid = binder.Avoid{}
	for n := 1; ; n++ {
		refused := s.ask(asking, t)
		if len(refused) == 0 {
			err := s.confirm(ctx, r, &t)
			if err != nil {
				s.giveBack(ctx, r, t)
			}
			return t, err
		}
		s.giveBack(ctx, r, t)
		if n == trials || slices.ContainsFunc(refused, refusal.final) {
			return t, refusedBy(refused)
		}
		// Not by its neighbours either: a machine that is out of order would go from
		// one node to the next.
		for _, x := range refused {
			for i := range r.request.Nodes {
				r.avoid.Add(r.request.Nodes[i].ClientID, x.node.Component)
			}
		}
		next, err := s.take(ctx, r)
		if _, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
			return t, refusedBy(refused) // which says more
		}
		if t = next; err != nil || !t.trial {
			return t, err
		}
	}
}

func (s *Service) ask(ctx context.Context, t taken) (refused []refusal) {
	for i, err := range s.cfg.Prober.Probe(ctx, t.slivers) {
		if err != nil {
			refused = append(refused, refusal{&t.binding.Nodes[i], err})
		}
	}
	return refused
}

// confirm promises what its providers can make, if it is still there.
func (s *Service) confirm(ctx context.Context, r reservation, t *taken) error {
	return s.commit(ctx, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		until, err := over(v, r.grant, r.slice)
		if err != nil {
			return cs, err
		}
		if r.prepare != nil {
			if err := r.prepare(v); err != nil {
				return cs, err
			}
		}
		now := v.Now().UTC()
		for i := range t.slivers {
			x, _, err := v.Sliver(t.slivers[i].URN)
			if errors.Is(err, store.ErrNotFound) || err == nil && !x.Live(now) {
				return cs, am.Errorf(am.SearchFailed, "the slivers were deleted while their providers were asked whether they can make them; nothing is reserved").About(r.slice)
			}
			if err != nil {
				return cs, err
			}
			if x.Expires.Equal(t.slivers[i].Expires) { // nobody has renewed it meanwhile
				x.Expires = s.reservationEnd(now, until, r.options.EndTime)
			}
			x.AskedUntil = time.Time{}
			t.slivers[i] = x
		}
		return cs, s.promiseTaken(v, &cs, r, until, t.slivers)
	})
}

// giveBack releases what was taken, also if the caller has gone. What a Shutdown
// has frozen stays for inspection. If that cannot be written, the lease ends it.
func (s *Service) giveBack(ctx context.Context, r reservation, t taken) {
	_ = s.commit(context.WithoutCancel(ctx), func(v *store.View) (cs store.ChangeSet, err error) {
		var left []am.Sliver
		for _, x := range t.slivers {
			x, _, err := v.Sliver(x.URN)
			if err == nil && x.Status.Allocation != am.Unallocated && !x.Frozen {
				left = append(left, x)
			}
		}
		return cs, lease.Release(v, &cs, left, am.EventDelete, r.options.Request)
	})
}

// refusedBy is the answer to a request that providers will not serve.
func refusedBy(refused []refusal) error {
	reasons := make([]binder.Reason, len(refused))
	for i, r := range refused {
		n := r.node.Node
		reason := binder.Reason{Kind: "node", ClientID: n.ClientID, Line: n.Line, Code: r.err.Code, Detail: r.err.Detail}
		switch {
		case r.err.Code == am.ServerError || r.err.Code == am.TimedOut:
			reason.Text = "it cannot be promised now: " + r.err.Msg
		case r.node.Asked:
			reason.Text = fmt.Sprintf("%s cannot be had: %s", r.node.Component.Name, r.err.Msg)
		default:
			reason.Text = fmt.Sprintf("none that is free can be had; of %s its provider says: %s", r.node.Component.Name, r.err.Msg)
			if reason.Code == am.SearchFailed {
				reason.Code, reason.Detail = am.TooBig, am.InsufficientNodes
			}
		}
		reasons[i] = reason
	}
	return binder.Unsatisfied(reasons)
}
