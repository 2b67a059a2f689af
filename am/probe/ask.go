package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// ask asks one provider about all slivers of a batch.
func (p *Prober) ask(ctx context.Context, b *batch) []*am.Error {
	out := make([]*am.Error, len(b.slivers))
	all := func(err error) []*am.Error {
		for i := range out {
			out[i] = unanswered(b.name, err)
		}
		return out
	}
	every := make([]int, len(out))
	for i := range every {
		every[i] = i
	}
	if i, s := p.silent(b, every); s != nil { // the request cannot be served as it is, whatever is said of the others
		out[i] = unanswered(b.name, s)
		return out
	}
	line := p.line(b.name)
	select {
	case line.probes <- struct{}{}:
		defer func() { <-line.probes }()
	case <-ctx.Done():
		return all(ctx.Err())
	}
	names := make([]string, len(b.slivers))
	for i := range b.slivers {
		names[i] = b.slivers[i].URN.Name
	}
	before, err := b.provider.Get(ctx, names)
	if err != nil {
		return all(err)
	}
	var updates []provider.Update
	var asked []int // places in out
	for i := range b.slivers {
		if res := before[names[i]]; res.Err != nil {
			out[i] = refused(res.Err)
			continue
		}
		s := b.slivers[i]
		s.Desired.Present = true // as Provision will promise
		should := provider.DesiredNode(&s, b.components[i], s.Hostname, p.cfg.Interfaces)
		if steps := provider.Setup(&s); len(steps) > 0 {
			should[provider.AttrSetup] = steps
		}
		updates = append(updates, provider.Update{Name: names[i], Is: before[names[i]].Resource, Should: should})
		asked = append(asked, i)
	}
	if len(updates) == 0 {
		return out
	}
	refusals, failed := p.dryRun(ctx, b, updates, asked)
	var broke map[int]error // by place in updates
	if failed != nil && len(updates) > 1 && ctx.Err() == nil {
		refusals, broke, failed = p.oneByOne(ctx, b, updates, asked, failed)
	}
	// Whatever it answers, and also if it does not, it may have done it.
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), clearing)
		defer cancel()
	}
	after, err := b.provider.Get(ctx, names)
	p.catch(ctx, b, before, after)
	switch {
	case err != nil:
		p.cfg.Log.Error("a provider does not tell what is there after a dry run; see whether it has really made nodes, and remove them by hand", "provider", b.name, "nodes", names, "error", err)
		return all(err)
	case failed != nil:
		return all(failed)
	}
	for n, e := range broke {
		out[asked[n]] = unanswered(b.name, e)
	}
	for n, e := range refusals {
		if e != nil {
			out[asked[n]] = refused(e)
		}
	}
	return out
}

// dryRun is one set that changes nothing: what is said of each update, or why
// there is no answer. They are of the slivers asked. It waits for its turn, and
// for nothing when there was no answer meanwhile about one of them.
func (p *Prober) dryRun(ctx context.Context, b *batch, updates []provider.Update, asked []int) ([]*provider.Error, error) {
	turn := p.line(b.name).turn
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("dry run %w: %w", provider.ErrNoPlace, ctx.Err())
	}
	if _, s := p.silent(b, asked); s != nil {
		return nil, s
	}
	begun := time.Now()
	changes, err := b.provider.Set(ctx, updates, true)
	if err != nil {
		if len(asked) == 1 && !errors.Is(err, provider.ErrNoPlace) && isSilence(ctx, err, time.Since(begun)) {
			p.remember(b, b.components[asked[0]], err)
		}
		return nil, err
	}
	refusals := make([]*provider.Error, len(updates))
	for n := range updates {
		refusals[n] = changes[n].Err
	}
	return refusals, nil
}

// oneByOne asks for each update alone when all together had no answer: broken
// components must not keep those beside them from being had. It ends when the time
// is over, or when two have broken it; those that were not asked then have
// nothing against them. Before two are taken for all, the last is asked, too:
// when none had an answer the provider itself is broken, and failed is what it
// was before.
func (p *Prober) oneByOne(ctx context.Context, b *batch, updates []provider.Update, asked []int, before error) (refusals []*provider.Error, broke map[int]error, failed error) {
	refusals, broke = make([]*provider.Error, len(updates)), map[int]error{}
	answered := false
	for n := 0; n < len(updates); n++ {
		if len(broke) == 2 {
			if answered {
				break
			}
			n = len(updates) - 1
		}
		one, err := p.dryRun(ctx, b, updates[n:n+1], asked[n:n+1])
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			broke[n] = err
			continue
		}
		answered, refusals[n] = true, one[0]
	}
	// When the time is over, nothing is known of those that were not asked.
	if over := ctx.Err() != nil; len(broke) == 0 && over || !answered && !over {
		return nil, nil, before
	}
	return refusals, broke, nil
}

// catch notices what a dry run has really made, and takes it away.
func (p *Prober) catch(ctx context.Context, b *batch, before, after map[string]provider.Result) {
	var made []string
	for _, s := range b.slivers {
		name := s.URN.Name
		was, is := before[name], after[name]
		if was.Err == nil && provider.Gone(was.Resource) && is.Err == nil && !provider.Gone(is.Resource) && !b.moved(s) {
			made = append(made, name)
		}
	}
	if len(made) == 0 {
		return
	}
	slices.Sort(made)
	p.mu.Lock()
	p.deaf[b.name] = true
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
		log.Error("a dry run has really made nodes, and they cannot be removed; remove them by hand, and mend the provider. It is not probed any more until the next start", "error", err)
		return
	}
	log.Error("a dry run has really made nodes, which are being removed; mend the provider. It is not probed any more until the next start")
}
