package dryrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// probeBatch makes the dry run of one provider: it gets the resources, makes a set call that must change nothing, and gets
// them again, to remove what the call has created nevertheless. It returns an error for each sliver, in the order of the
// batch; nil if the sliver can be created or changed.
func (p *Prober) probeBatch(ctx context.Context, b *batch) []*am.Error {
	out := make([]*am.Error, len(b.slivers))
	failAll := func(err error) []*am.Error {
		for i := range out {
			out[i] = failedCall(b.name, err)
		}
		return out
	}
	if p.refuseSilent(b, out) { // one refused sliver is enough: the request fails
		return out
	}
	line := p.line(b.name)
	select {
	case line.probes <- struct{}{}:
		defer func() { <-line.probes }()
	case <-ctx.Done():
		return failAll(ctx.Err())
	}
	names := make([]string, len(b.slivers))
	for i := range b.slivers {
		names[i] = b.slivers[i].URN.Name
	}
	before, err := b.provider.Get(ctx, slices.Concat(names, b.leaving))
	if err != nil {
		return failAll(err)
	}
	var updates []provider.Update
	var asked []int // the index in out of each sliver in updates
	for i := range b.slivers {
		if res := before[names[i]]; res.Err != nil {
			out[i] = refused(res.Err)
			continue
		}
		s := b.slivers[i]
		s.Desired.Present = true // as Provision will set it
		is, should := before[names[i]].Resource, provider.DesiredNode(&s, b.components[i], cmp.Or(s.DNSName, s.Hostname), p.cfg.Interfaces)
		if provider.Gone(is) {
			maps.Copy(should, provider.NewNode(&s))
		} else {
			should = provider.Diff(is, should)
			should[provider.AttrSetup] = provider.NewNode(&s).List(provider.AttrSetup)
		}
		updates = append(updates, provider.Update{Name: names[i], Is: is, Should: should})
		asked = append(asked, i)
	}
	if len(updates) == 0 {
		return out
	}
	for _, name := range b.leaving {
		if is := before[name]; is.Err == nil && !provider.Gone(is.Resource) {
			updates = append(updates, provider.Update{Name: name, Is: is.Resource, Should: provider.Resource{provider.AttrEnsure: provider.Absent}})
		}
	}
	failed := p.dryRun(ctx, b, updates, asked, out)
	// The provider may have created the resources, even if it did not answer.
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), clearing)
		defer cancel()
	}
	after, err := b.provider.Get(ctx, names)
	p.removeCreated(ctx, b, before, after)
	switch {
	case err != nil:
		p.cfg.Log.Error("after a dry run, a provider did not report whether it has created the nodes; check that, and remove them by hand", "provider", b.name, "nodes", names, "error", err)
		return failAll(err)
	case failed != nil:
		return failAll(failed)
	}
	return out
}

// dryRun waits for its turn and makes one set call that must change nothing. updates[n] is for
// the sliver b.slivers[indexes[n]]. dryRun stores the error of each refused sliver in errs. It
// returns an error if the call failed as a whole. It makes no call if a component is no longer
// probed after the wait.
func (p *Prober) dryRun(ctx context.Context, b *batch, updates []provider.Update, indexes []int, errs []*am.Error) error {
	turn := p.line(b.name).turn
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return fmt.Errorf("dry run %w: %w", provider.ErrNoPlace, ctx.Err())
	}
	if p.refuseSilent(b, errs) {
		return nil
	}
	begun := time.Now()
	changes, err := b.provider.Set(ctx, updates, true)
	if err != nil {
		if !errors.Is(err, provider.ErrNoPlace) && isSilence(ctx, err, time.Since(begun)) {
			p.recordSilence(b, indexes, err)
		}
		return err
	}
	for n, i := range indexes {
		if e := changes[n].Err; e != nil {
			errs[i] = refused(e)
		}
	}
	return nil
}

// removeCreated finds resources that a dry run has really created, and removes them. Such a
// provider gets no more dry runs.
func (p *Prober) removeCreated(ctx context.Context, b *batch, before, after map[string]provider.Result) {
	var made []string
	for _, s := range b.slivers {
		name := s.URN.Name
		was, is := before[name], after[name]
		if was.Err == nil && provider.Gone(was.Resource) && is.Err == nil && !provider.Gone(is.Resource) && !b.isChanged(s) {
			made = append(made, name)
		}
	}
	if len(made) == 0 {
		return
	}
	slices.Sort(made)
	p.mu.Lock()
	p.ignoreNoop[b.name] = true
	p.mu.Unlock()
	updates := make([]provider.Update, len(made))
	for i, name := range made {
		updates[i] = provider.Update{Name: name, Is: after[name].Resource, Should: provider.Resource{provider.AttrEnsure: provider.Absent}}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearing)
	defer cancel()
	changes, err := b.provider.Set(ctx, updates, false)
	for _, c := range changes {
		if err == nil && c.Err != nil {
			err = c.Err
		}
	}
	log := p.cfg.Log.With("provider", b.name, "nodes", made)
	if err != nil {
		log.Error("a dry run has created nodes, and they cannot be removed; remove them by hand, and fix the provider. The provider gets no more dry runs until the next start", "error", err)
		return
	}
	log.Error("a dry run has created nodes, which are being removed; fix the provider. The provider gets no more dry runs until the next start")
}
