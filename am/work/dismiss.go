package work

import (
	"context"
	"fmt"
	"slices"

	"patchbay/inventory/provider"
)

// Dismiss has a provider remove some of what nobody was promised, by their names, and
// waits until it tells that they are gone, or ctx ends: then they are looked after until
// they are. One that a sliver's record names is never touched. What was told to go before
// an error stays told.
//
// left are the names of those that were still there at the last look, sorted; wrong says
// what the provider has against the removal of some. Errors: why the provider cannot be
// asked, or why the store cannot be read.
func (r *Runner) Dismiss(ctx context.Context, name string, resources []string) (left []string, wrong map[string]error, err error) {
	p, err := r.cfg.Providers(name)
	if err != nil {
		return nil, nil, err
	}
	if !p.Reports(provider.AttrEnsure) {
		return nil, nil, fmt.Errorf("provider %s makes nothing that it could remove", name)
	}
	done, err := r.stock.take(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	known := map[string]bool{}
	for _, n := range resources {
		known[n] = true
	}
	there, err := r.strangers(ctx, p, resources, known)
	if err != nil {
		return nil, nil, err
	}
	wrong = map[string]error{}
	for _, n := range resources {
		if is, ok := there[n]; ok && ctx.Err() == nil {
			if err := r.remove(ctx, p, n, is); err != nil {
				wrong[n] = err
			} else {
				r.order(name, n)
			}
			r.cfg.Log.Warn("removes what nobody was promised, by an operator's word", "provider", name, "resource", n, "error", wrong[n])
		}
	}
	for wait := r.limits.PollMin; ; wait = min(2*wait, r.limits.PollMax) {
		now, failed := r.strangers(ctx, p, resources, known)
		if err = failed; err != nil {
			break // what there was before is the last word
		}
		there = now
		going := 0
		for n := range there {
			if wrong[n] == nil {
				going++
			}
		}
		if going == 0 || pause(ctx, wait) != nil {
			break
		}
	}
	still := func(n string) bool { return there[n] != nil }
	if err == nil && ctx.Err() == nil {
		if err = r.stockOf(ctx, name, p); err == nil { // it looks twice
			known = r.known(name)
			still = func(n string) bool { return known[n] }
		}
	}
	if ctx.Err() != nil {
		err = nil // the next look tells
	}
	for _, n := range resources {
		if still(n) && !slices.Contains(left, n) {
			left = append(left, n)
		}
	}
	slices.Sort(left)
	return left, wrong, err
}

// strangers are those of some names that the provider has and no sliver's record names.
func (r *Runner) strangers(ctx context.Context, p Provider, names []string, known map[string]bool) (map[string]provider.Resource, error) {
	there, err := r.everything(ctx, p, names, known)
	if err != nil {
		return nil, err
	}
	return r.withoutRecord(there)
}
