package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Prober asks providers before slivers are promised. Its methods may be called
// at the same time.
type Prober interface {
	// Asks tells whether the provider of a component wants to be asked. It is
	// called within decisions, so it waits for nothing.
	Asks(component urn.URN) bool
	// Probe gives an error for each sliver, in their order, nil for one against
	// which nothing is known. SearchFailed, Refused, Unsupported, TooBig and ErrorCode are
	// what its provider says of it. ServerError and TimedOut mean that the provider gave no
	// answer. Leaving are slivers of the slice that are still being removed: they are
	// asked about as if they were gone. What moved tells of a sliver may have been made
	// by others meanwhile, and must be left alone.
	Probe(ctx context.Context, slivers, leaving []am.Sliver, moved func(am.Sliver) bool) []*am.Error
	// Silent are components about which Probe has no answer for now.
	Silent() []urn.URN
	// Longest is how long Probe takes at most.
	Longest() time.Duration
}

const (
	// maxAsks is how often providers are asked for one request: once, and again
	// with other components for the nodes that were refused.
	maxAsks = 4
	// askMargin is how long after the last moment of a dry run its reservation ends by
	// itself, so that a crash in between needs no other record.
	askMargin = 30 * time.Second
)

// mustAsk tells whether providers want to be asked before slivers are promised.
func (s *Service) mustAsk(slivers []am.Sliver) bool {
	return s.cfg.Prober != nil && slices.ContainsFunc(slivers, func(x am.Sliver) bool { return s.cfg.Prober.Asks(x.Component) })
}

// refusal is a node that cannot be had where it was bound.
type refusal struct {
	node *binder.Bound
	err  *am.Error
}

// final tells whether no other component would help.
func (r refusal) final() bool { return r.node.Asked }

// askProviders asks the providers of what was reserved and confirms it, or releases it.
// For nodes that do not ask for their component it then binds others, a few
// times at most. Nothing is held meanwhile but the reservation itself, which
// may be deleted and frozen, and nothing else.
func (s *Service) askProviders(ctx context.Context, r reservation, t reserved) (reserved, error) {
	asking, cancel := context.WithTimeout(ctx, s.cfg.Prober.Longest()) // each time together
	defer cancel()
	for n := 1; ; n++ {
		leaving, err := s.leaving(r.slice)
		if err != nil {
			s.release(ctx, r, t)
			return t, err
		}
		refused := ask(asking, s.cfg.Prober, t.binding, t.slivers, leaving, s.moved)
		if len(refused) == 0 {
			err := s.confirm(ctx, r, &t)
			if err != nil {
				s.release(ctx, r, t)
			}
			return t, err
		}
		s.release(ctx, r, t)
		if n == maxAsks || asking.Err() != nil || slices.ContainsFunc(refused, refusal.final) {
			return t, binder.Unsatisfied(reasons(r.request, refused))
		}
		// Not by its neighbours either: a machine that is out of order would go from
		// one node to the next.
		for _, x := range refused {
			r.avoid = append(r.avoid, x.node.Component.URN)
		}
		r.avoid = append(r.avoid, s.cfg.Prober.Silent()...)
		next, err := s.bindSlivers(ctx, r)
		if _, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
			return t, binder.Unsatisfied(reasons(r.request, refused)) // which says more
		}
		if t = next; err != nil || !t.asking {
			return t, err
		}
	}
}

func ask(ctx context.Context, p Prober, b binder.Binding, slivers, leaving []am.Sliver, moved func(am.Sliver) bool) (refused []refusal) {
	for i, err := range p.Probe(ctx, slivers, leaving, moved) {
		if err != nil {
			refused = append(refused, refusal{&b.Nodes[i], err})
		}
	}
	return refused
}

// leaving returns the slivers of a slice that providers still have to remove. Their names
// are free again.
func (s *Service) leaving(slice urn.URN) (leaving []am.Sliver, err error) {
	err = s.cfg.Store.Read(func(v *store.View) error {
		all, err := v.SliversOf(slice)
		leaving = slices.DeleteFunc(all, func(x am.Sliver) bool { return x.Live(v.Now()) })
		return err
	})
	return leaving, err
}

// moved tells whether a sliver is more by now than the reservation that it was.
// When the store cannot be read it may be.
func (s *Service) moved(was am.Sliver) bool {
	moved := false
	err := s.cfg.Store.Read(func(v *store.View) error {
		x, _, err := v.Sliver(was.URN)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		moved = !onlyAsked(&x, &was)
		return err
	})
	return moved || err != nil
}

// onlyAsked tells whether a sliver is still what was reserved: nobody has been
// promised anything of it.
func onlyAsked(x, was *am.Sliver) bool {
	return x.Status.Allocation == am.Allocated && x.Generation == was.Generation && x.AskedUntil.Equal(was.AskedUntil)
}

// confirm promises what its providers can make, if it is still there.
func (s *Service) confirm(ctx context.Context, r reservation, t *reserved) error {
	var promised []am.Sliver
	err := s.commit(ctx, r.grant, Targets{Slice: r.slice}, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		by, err := s.begin(v, &r, false)
		if err != nil {
			return cs, err
		}
		now, wish := v.Now().UTC(), r.options.EndTime
		if !wish.IsZero() && !wish.After(now) {
			return cs, am.Errorf(am.BadArgs, "geni_end_time %s has passed while providers were asked; give a later one", wish.Format(time.RFC3339)).With(am.OutOfRange)
		}
		promised = nil
		for _, was := range t.slivers {
			x, _, err := v.Sliver(was.URN)
			if errors.Is(err, store.ErrNotFound) || err == nil && (!x.Live(now) || !onlyAsked(&x, &was)) {
				return cs, am.Errorf(am.SearchFailed, "the slivers were deleted while their providers were asked whether they can make them; nothing is reserved").About(r.slice)
			}
			if err != nil {
				return cs, err
			}
			if err := s.stillOffered(&x); err != nil {
				return cs, err
			}
			if err := s.lend(now, by, wish, &x); err != nil {
				return cs, err
			}
			x.AskedUntil = time.Time{}
			promised = append(promised, x)
		}
		return cs, s.finish(v, &cs, r, by, promised)
	})
	if err == nil {
		t.slivers = promised
	}
	return err
}

// release ends what was reserved, also if the caller has gone. What a Shutdown
// has frozen stays for inspection. If that cannot be written, the lease ends it.
func (s *Service) release(ctx context.Context, r reservation, t reserved) {
	_ = s.commit(context.WithoutCancel(ctx), r.grant, Targets{Slice: r.slice}, func(v *store.View) (cs store.ChangeSet, err error) {
		var left []am.Sliver
		for _, was := range t.slivers {
			x, _, err := v.Sliver(was.URN)
			if err == nil && onlyAsked(&x, &was) && !x.Frozen {
				left = append(left, x)
			}
		}
		return cs, lease.Release(v, &cs, left, am.EventDelete, r.options.Request)
	})
}

// Ask is what providers say of a request that nobody has made, by dry runs, as
// Allocate would ask them when nobody else were there: why each node, or a link of
// it, cannot be had. Those that did not answer have ServerError or TimedOut. b is
// how the request is bound; nothing is promised or kept.
func Ask(ctx context.Context, p Prober, inv *inventory.Inventory, req *rspec.Request, slice urn.URN, b binder.Binding) []binder.Reason {
	ctx, cancel := context.WithTimeout(ctx, p.Longest())
	defer cancel()
	var avoid []*inventory.Component
	for n := 1; ; n++ {
		var names am.Hostnames
		slivers := make([]am.Sliver, len(b.Nodes))
		for i := range b.Nodes {
			slivers[i] = bound(inv, slice, &b.Nodes[i], &names)
		}
		refused := ask(ctx, p, b, slivers, nil, func(am.Sliver) bool { return false })
		if len(refused) == 0 {
			return nil
		}
		for _, x := range refused {
			avoid = append(avoid, x.node.Component)
		}
		var err error
		if b, err = binder.BindAvoiding(avoid, req, binder.NewIndex(inv), slice); err != nil || n == maxAsks || ctx.Err() != nil || slices.ContainsFunc(refused, refusal.final) {
			return reasons(req, refused)
		}
	}
}

// reasons tells each reason once: that of a link is the same at all of its nodes.
func reasons(req *rspec.Request, refused []refusal) (all []binder.Reason) {
	for _, r := range refused {
		if reason := r.reason(req); !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	return all
}

// reason says why a request cannot be had: of the link that its provider's words
// begin with, or else of the node.
func (r refusal) reason(req *rspec.Request) binder.Reason {
	n := r.node.Node
	reason := binder.Reason{Kind: "node", ClientID: n.ClientID, Line: n.Line, Code: r.err.Code, Detail: r.err.Detail}
	switch {
	case r.err.Code == am.ServerError || r.err.Code == am.TimedOut:
		reason.Text = "it cannot be promised now: " + r.err.Msg
	case r.err.Code == am.Unsupported:
		if link, words := r.blamed(req); link != nil {
			reason.Kind, reason.ClientID, reason.Line, reason.Text = "link", link.ClientID, link.Line, words
			break
		}
		reason.Text = fmt.Sprintf("on %s it cannot be made: %s", r.node.Component.Name, r.err.Msg)
	case r.node.Asked:
		reason.Text = fmt.Sprintf("%s cannot be had: %s", r.node.Component.Name, r.err.Msg)
	default:
		reason.Text = fmt.Sprintf("none that is free can be had; of %s its provider says: %s", r.node.Component.Name, r.err.Msg)
		if reason.Code == am.SearchFailed {
			reason.Code, reason.Detail = am.TooBig, am.InsufficientNodes
		}
	}
	return reason
}

// blamed is the link of the node that its provider's words begin with, as in
// "link lan asks for latency", and what they say of it; nil for none.
func (r refusal) blamed(req *rspec.Request) (link *rspec.Link, words string) {
	rest, ok := strings.CutPrefix(r.err.Msg, "link ")
	if !ok {
		return nil, ""
	}
	for _, in := range r.node.Interfaces {
		for _, name := range []string{in.Link, strconv.Quote(in.Link)} {
			words, ok := strings.CutPrefix(rest, name+" ")
			i := slices.IndexFunc(req.Links, func(l rspec.Link) bool { return l.ClientID == in.Link })
			if ok && in.Link != "" && i >= 0 {
				return &req.Links[i], "it " + words
			}
		}
	}
	return nil, ""
}
