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
	"patchbay/am/service/binder"
	"patchbay/am/service/lease"
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

// refusal is a provider's refusal of a node on the chosen component; kept means that the node exists.
type refusal struct {
	node *binder.Bound
	kept bool
	err  *am.Error
}

// isFinal reports whether the node exists or the request names the component, so that no other can be
// tried.
func (r refusal) isFinal() bool { return r.node.Asked || r.kept }

// probe runs a dry run for the reserved slivers and confirms or releases them. If nodes
// were refused, it binds the request again without the refused components and repeats the dry
// run. During the dry runs, other calls can delete or freeze the reservation, but not change it.
func (a *attempt) probe(ctx context.Context) error {
	probing, cancel := context.WithTimeout(ctx, a.cfg.Prober.Timeout()) // for all dry runs together
	defer cancel()
	for n := 1; ; n++ {
		refused, err := a.refusals(probing)
		if len(refused) == 0 {
			if err == nil {
				err = a.confirm(ctx)
			}
			if err != nil {
				a.release(ctx)
			}
			return err
		}
		a.release(ctx)
		if n == maxProbes || probing.Err() != nil || slices.ContainsFunc(refused, refusal.isFinal) {
			return binder.Unsatisfied(reasons(a.request, refused))
		}
		// Avoid a refused component for all nodes. Otherwise the next dry run might bind another
		// node to the same broken machine.
		for _, x := range refused {
			a.avoid = append(a.avoid, x.node.Component.URN)
		}
		a.avoid = append(a.avoid, a.cfg.Prober.Unanswering()...)
		err = a.reserve(ctx)
		if _, ok := errors.AsType[*binder.UnsatisfiedError](err); ok {
			return binder.Unsatisfied(reasons(a.request, refused)) // the provider's reasons explain more than the binder's
		}
		if err != nil || !a.mustProbe {
			return err
		}
	}
}

// refusals runs one dry run for the new and changed slivers (see probed), and returns what providers have refused. It
// fails if the store cannot be read.
func (a *attempt) refusals(ctx context.Context) (refused []refusal, err error) {
	beingRemoved, err := a.beingRemoved()
	if err != nil {
		return nil, err
	}
	b, slivers := a.probed()
	for i, err := range a.cfg.Prober.Probe(ctx, slivers, beingRemoved, a.isChanged) {
		if err != nil {
			refused = append(refused, refusal{&b.Nodes[i], a.kept[slivers[i].ClientID] != nil, err})
		}
	}
	return refused, nil
}

// beingRemoved returns the slivers of the slice that are released or expired, but not yet removed
// by their providers, and those that a preview leaves out. New slivers may have the same names.
func (a *attempt) beingRemoved() (beingRemoved []am.Sliver, err error) {
	if a.emptySite {
		return nil, nil
	}
	err = a.cfg.Store.Read(func(v *store.View) error {
		all, err := v.SliversOf(a.slice)
		beingRemoved = slices.DeleteFunc(all, func(x am.Sliver) bool { return x.Live(v.Now()) && !a.without[x.URN.Key()] })
		return err
	})
	return beingRemoved, err
}

// isChanged reports whether a sliver differs from its reserved record (the parameter was). It
// returns true if the store cannot be read, and false if the sliver no longer exists.
func (a *attempt) isChanged(was am.Sliver) bool {
	if a.options.Preview { // nothing was reserved
		return false
	}
	isChanged := false
	err := a.cfg.Store.Read(func(v *store.View) error {
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
// dry run. A preview confirms nothing.
func (a *attempt) confirm(ctx context.Context) error {
	if a.options.Preview {
		return nil
	}
	var next attempt
	err := a.commit(ctx, a.grant, false, func(v *store.View) (cs store.ChangeSet, err error) {
		next = *a // a stays as it is, since the decision may run again
		if err := next.check(v, false); err != nil {
			return cs, err
		}
		now, requested := v.Now().UTC(), a.options.EndTime
		if a.unsaved {
			next.document.Received = now
			cs.PutDocument(next.document)
		}
		if !requested.IsZero() && !requested.After(now) {
			return cs, am.Errorf(am.BadArgs, "geni_end_time %s has passed while providers checked the request; give a later one", requested.Format(time.RFC3339)).With(am.OutOfRange)
		}
		if err := next.bindAgain(v, a); err != nil {
			return cs, err
		}
		for i, was := range a.slivers {
			if next.kept[was.ClientID] != nil {
				continue
			}
			x, _, err := v.Sliver(was.URN)
			if errors.Is(err, store.ErrNotFound) || err == nil && (!x.Live(now) || !isUnchanged(&x, &was)) {
				return cs, am.Errorf(am.SearchFailed, "the slivers were deleted while their providers checked the request; nothing is reserved").About(a.slice)
			}
			if err != nil {
				return cs, err
			}
			if err := a.checkInService(&x); err != nil {
				return cs, err
			}
			if err := next.setLease(now, &x, next.windowOf(i)); err != nil {
				return cs, err
			}
			x.ProbedUntil = time.Time{}
			next.slivers[i] = x
		}
		return cs, next.addChanges(v, &cs)
	})
	if err == nil {
		*a = next
	}
	return err
}

// bindAgain sets the slivers of a for the confirmation: those that was has reserved. A change is bound again, since
// the slice and the site may have changed during the dry run. Then decide counts the reserved slivers as kept, so
// bindAgain removes them from a.kept; if the order of the slivers differs now, it fails with Busy.
func (a *attempt) bindAgain(v *store.View, was *attempt) error {
	if len(was.kept) == 0 {
		a.slivers = slices.Clone(was.slivers)
		return nil
	}
	document := a.document
	a.document.Bytes, a.document.Elements = 0, 0 // the limits of the slice have counted them
	err := a.decide(v)
	if a.document = document; err != nil {
		return err
	}
	for i := range a.slivers {
		if !a.slivers[i].URN.Equal(was.slivers[i].URN) {
			return am.Errorf(am.Busy, "the slice changed while providers checked the request; try again").About(a.slice)
		}
	}
	for name := range a.kept {
		if was.kept[name] == nil {
			delete(a.kept, name)
		}
	}
	return nil
}

// release releases the slivers that the dry run was about, even if the caller has disconnected. Slivers that Shutdown has frozen stay for
// inspection. If the commit fails, the slivers stay until their short lease ends. A preview has
// nothing to release.
func (a *attempt) release(ctx context.Context) {
	if a.options.Preview {
		return
	}
	_ = a.commitUrgent(context.WithoutCancel(ctx), a.grant, a.slice, func(v *store.View) (cs store.ChangeSet, err error) {
		var unused []am.Sliver
		for _, was := range a.added() {
			x, _, err := v.Sliver(was.URN)
			if err == nil && isUnchanged(&x, &was) && !x.Frozen {
				unused = append(unused, x)
			}
		}
		return cs, lease.Release(v, &cs, unused, am.EventDelete, a.options.Request)
	})
}

// reasons returns the reasons of the refusals without duplicates: a refused link causes the same reason for each of
// its nodes.
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
	reason := binder.Reason{Kind: "node", ClientID: n.ClientID, Line: n.Line, Code: r.err.Code}
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
			reason.Code = am.TooBig
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
