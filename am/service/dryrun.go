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
	"patchbay/rspec"
)

// Prober asks providers by a dry run whether they can create or change slivers, before that is
// confirmed. Its methods may be called concurrently.
type Prober interface {
	// WantsProbe reports whether the provider of a component wants dry runs. Decisions call it,
	// so it does not wait.
	WantsProbe(component urn.URN) bool
	// Probe returns one error for each sliver, in the order of slivers. The error is nil if the
	// provider can create the sliver or, if it exists, change it. SearchFailed, Refused, Unsupported,
	// TooBig and ErrorCode are the provider's answers. ServerError and TimedOut mean that the provider did not answer.
	// Probe treats the slivers in beingRemoved as if they were removed already. If isChanged
	// returns true for a sliver, another call may have created the sliver's resource, so Probe
	// must not remove that resource.
	Probe(ctx context.Context, slivers, beingRemoved []am.Sliver, isChanged func(am.Sliver) bool) []*am.Error
	// Unanswering returns the components whose providers currently do not answer dry runs.
	Unanswering() []urn.URN
	// Timeout returns the maximum duration of Probe.
	Timeout() time.Duration
}

const (
	// maxProbes is the maximum number of dry runs for one request. Each further dry run tries
	// other components for the refused nodes.
	maxProbes = 4
	// probeMargin is the time from the latest end of a dry run to the end of the lease that
	// slivers have during the dry run. After a crash, the end of that lease releases them.
	probeMargin = 30 * time.Second
)

func (s *Service) mustProbe(slivers []am.Sliver) bool {
	return s.cfg.Prober != nil && slices.ContainsFunc(slivers, func(x am.Sliver) bool { return s.cfg.Prober.WantsProbe(x.Component) })
}

// refusal is a provider's refusal of a node on the chosen component; kept means that the node exists.
type refusal struct {
	node *binder.Bound
	kept bool
	err  *am.Error
}

// isFinal reports whether the node exists or the request names the component, so that no other can be
// tried.
func (r refusal) isFinal() bool { return r.node.Asked || r.kept }

// probing are the steps around the dry runs of one request. Preview reserves nothing, so its steps
// read and write nothing.
type probing struct {
	bind         func(reservation) (reserved, error)
	confirm      func(reservation, *reserved) error
	release      func(reservation, reserved)
	beingRemoved func() ([]am.Sliver, error)
	isChanged    func(am.Sliver) bool
}

// previewing are steps that confirm and release nothing.
func previewing(bind func(reservation) (reserved, error), beingRemoved func() ([]am.Sliver, error)) probing {
	return probing{
		bind:         bind,
		confirm:      func(reservation, *reserved) error { return nil },
		release:      func(reservation, reserved) {},
		beingRemoved: beingRemoved,
		isChanged:    func(am.Sliver) bool { return false },
	}
}

// reserving returns the steps of Allocate.
func (s *Service) reserving(ctx context.Context, r reservation) probing {
	bind := func(r reservation) (reserved, error) { return s.bindSlivers(ctx, r) }
	beingRemoved := func() ([]am.Sliver, error) { return s.beingRemoved(&r) }
	if r.options.Preview {
		return previewing(bind, beingRemoved)
	}
	return probing{
		bind:         bind,
		confirm:      func(r reservation, t *reserved) error { return s.confirm(ctx, r, t) },
		release:      func(r reservation, t reserved) { s.release(ctx, r, t) },
		beingRemoved: beingRemoved,
		isChanged:    s.isChanged,
	}
}

// probeProviders runs a dry run for the reserved slivers and confirms or releases them. If nodes
// were refused, it binds the request again without the refused components and repeats the dry
// run. During the dry runs, other calls can delete or freeze the reservation, but not change it.
func (s *Service) probeProviders(ctx context.Context, r reservation, t reserved, p probing) (reserved, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Prober.Timeout()) // for all dry runs together
	defer cancel()
	for n := 1; ; n++ {
		beingRemoved, err := p.beingRemoved()
		if err != nil {
			p.release(r, t)
			return t, err
		}
		refused := probe(ctx, s.cfg.Prober, &t, beingRemoved, p.isChanged)
		if len(refused) == 0 {
			err := p.confirm(r, &t)
			if err != nil {
				p.release(r, t)
			}
			return t, err
		}
		p.release(r, t)
		if n == maxProbes || ctx.Err() != nil || slices.ContainsFunc(refused, refusal.isFinal) {
			return t, binder.Unsatisfied(reasons(r.request, refused))
		}
		// Avoid a refused component for all nodes. Otherwise the next dry run might bind another
		// node to the same broken machine.
		for _, x := range refused {
			r.avoid = append(r.avoid, x.node.Component.URN)
		}
		r.avoid = append(r.avoid, s.cfg.Prober.Unanswering()...)
		next, err := p.bind(r)
		if _, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
			return t, binder.Unsatisfied(reasons(r.request, refused)) // the provider's reasons explain more than the binder's
		}
		if t = next; err != nil || !t.mustProbe {
			return t, err
		}
	}
}

func probe(ctx context.Context, p Prober, t *reserved, beingRemoved []am.Sliver, isChanged func(am.Sliver) bool) (refused []refusal) {
	b, slivers := t.probed()
	for i, err := range p.Probe(ctx, slivers, beingRemoved, isChanged) {
		if err != nil {
			refused = append(refused, refusal{&b.Nodes[i], t.kept[slivers[i].ClientID] != nil, err})
		}
	}
	return refused
}

// beingRemoved returns the slivers of the slice that are released or expired, but not yet removed
// by their providers, and those that a preview leaves out. New slivers may have the same names.
func (s *Service) beingRemoved(r *reservation) (beingRemoved []am.Sliver, err error) {
	err = s.cfg.Store.Read(func(v *store.View) error {
		all, err := v.SliversOf(r.slice)
		beingRemoved = slices.DeleteFunc(all, func(x am.Sliver) bool { return x.Live(v.Now()) && !r.without[x.URN.Key()] })
		return err
	})
	return beingRemoved, err
}

// isChanged reports whether a sliver differs from its reserved record (the parameter was). It
// returns true if the store cannot be read, and false if the sliver no longer exists.
func (s *Service) isChanged(was am.Sliver) bool {
	isChanged := false
	err := s.cfg.Store.Read(func(v *store.View) error {
		x, _, err := v.Sliver(was.URN)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		isChanged = !isUnchanged(&x, &was)
		return err
	})
	return isChanged || err != nil
}

func isUnchanged(x, was *am.Sliver) bool {
	return x.Status.Allocation == am.Allocated && x.Generation == was.Generation && x.ProbedUntil.Equal(was.ProbedUntil)
}

// confirm gives the slivers their leases. It fails if a sliver was changed or removed during the
// dry run.
func (s *Service) confirm(ctx context.Context, r reservation, t *reserved) error {
	var confirmed reserved
	err := s.commit(ctx, r.grant, Targets{Slice: r.slice}, func(v *store.View) (store.ChangeSet, error) {
		var cs store.ChangeSet
		by, err := s.checkReservation(v, &r, false)
		if err != nil {
			return cs, err
		}
		now, requested := v.Now().UTC(), r.options.EndTime
		if t.unsaved != nil {
			doc := *t.unsaved
			doc.Received = now
			cs.PutDocument(doc)
		}
		if !requested.IsZero() && !requested.After(now) {
			return cs, am.Errorf(am.BadArgs, "geni_end_time %s has passed while providers checked the request; give a later one", requested.Format(time.RFC3339)).With(am.OutOfRange)
		}
		if confirmed, err = s.bindAgain(v, r, by, t); err != nil {
			return cs, err
		}
		for i, was := range t.slivers {
			if confirmed.kept[was.ClientID] != nil {
				continue
			}
			x, _, err := v.Sliver(was.URN)
			if errors.Is(err, store.ErrNotFound) || err == nil && (!x.Live(now) || !isUnchanged(&x, &was)) {
				return cs, am.Errorf(am.SearchFailed, "the slivers were deleted while their providers checked the request; nothing is reserved").About(r.slice)
			}
			if err != nil {
				return cs, err
			}
			if err := s.checkInService(&x); err != nil {
				return cs, err
			}
			if err := s.setReservationLease(now, by, requested, &x); err != nil {
				return cs, err
			}
			x.ProbedUntil = time.Time{}
			confirmed.slivers[i] = x
		}
		return cs, s.store(v, &cs, r, by, &confirmed)
	})
	if err == nil {
		*t = confirmed
	}
	return err
}

// bindAgain returns the reservation t for its confirmation. It binds a change again, with the new
// slivers where they are, since the slice and the site may have changed during the dry run.
func (s *Service) bindAgain(v *store.View, r reservation, by conditions, t *reserved) (reserved, error) {
	if len(t.kept) == 0 {
		next := *t
		next.slivers = slices.Clone(t.slivers)
		return next, nil
	}
	next, err := s.bind(v, r, by, am.Document{ID: t.document})
	if err != nil {
		return next, err
	}
	for i := range next.slivers {
		if was := t.slivers[i].URN; !next.slivers[i].URN.Equal(was) {
			return next, am.Errorf(am.Busy, "the slice changed while providers checked the request; try again").About(r.slice)
		}
	}
	for name := range next.kept {
		if t.kept[name] == nil {
			delete(next.kept, name)
		}
	}
	return next, nil
}

// release works even if the caller has disconnected. Slivers that Shutdown has frozen stay for
// inspection. If the commit fails, the slivers stay until their short lease ends.
func (s *Service) release(ctx context.Context, r reservation, t reserved) {
	_ = s.commit(context.WithoutCancel(ctx), r.grant, Targets{Slice: r.slice}, func(v *store.View) (cs store.ChangeSet, err error) {
		var unused []am.Sliver
		for _, was := range t.added() {
			x, _, err := v.Sliver(was.URN)
			if err == nil && isUnchanged(&x, &was) && !x.Frozen {
				unused = append(unused, x)
			}
		}
		return cs, lease.Release(v, &cs, unused, am.EventDelete, r.options.Request)
	})
}

// reasons omits duplicates: a refused link causes the same reason for each of its nodes.
func reasons(req *rspec.Request, refused []refusal) (out []binder.Reason) {
	for _, r := range refused {
		if reason := r.reason(req); !slices.Contains(out, reason) {
			out = append(out, reason)
		}
	}
	return out
}

// reason is about a link if the provider's message begins with the name of the link.
func (r refusal) reason(req *rspec.Request) binder.Reason {
	n := r.node.Node
	reason := binder.Reason{Kind: "node", ClientID: n.ClientID, Line: n.Line, Code: r.err.Code, Detail: r.err.Detail}
	link, words := r.refusedLink(req)
	switch {
	case r.err.Code == am.ServerError || r.err.Code == am.TimedOut:
		reason.Text = "it cannot be reserved now: " + r.err.Msg
	case r.err.Code == am.Unsupported && link != nil:
		reason.Kind, reason.ClientID, reason.Line, reason.Text = "link", link.ClientID, link.Line, words
	case r.kept:
		reason.Text = fmt.Sprintf("on %s it cannot be changed so: %s", r.node.Component.Name, r.err.Msg)
	case r.err.Code == am.Unsupported:
		reason.Text = fmt.Sprintf("on %s it cannot be made: %s", r.node.Component.Name, r.err.Msg)
	case r.node.Asked:
		reason.Text = fmt.Sprintf("%s is not available: %s", r.node.Component.Name, r.err.Msg)
	default:
		reason.Text = fmt.Sprintf("no free component is available; the provider of %s reports: %s", r.node.Component.Name, r.err.Msg)
		if reason.Code == am.SearchFailed {
			reason.Code, reason.Detail = am.TooBig, am.InsufficientNodes
		}
	}
	return reason
}

// refusedLink returns the link that the provider's message is about, and the rest of the message.
// Such a message begins with the name of one of the node's links: "link lan asks for latency".
// For any other message, link is nil.
func (r refusal) refusedLink(req *rspec.Request) (link *rspec.Link, words string) {
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
