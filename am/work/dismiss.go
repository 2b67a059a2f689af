package work

import (
	"context"
	"fmt"
	"maps"
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
	there, err := r.stockOf(ctx, name, p)
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
		now, failed := r.stockOf(ctx, name, p)
		if failed == nil {
			there = now
		} else if ctx.Err() == nil { // else the next look tells
			err = failed
		}
		left = slices.DeleteFunc(slices.Sorted(maps.Keys(there)), func(n string) bool { return !slices.Contains(resources, n) })
		isGoing := func(n string) bool { return wrong[n] == nil }
		if failed != nil || !slices.ContainsFunc(left, isGoing) || pause(ctx, wait) != nil {
			return left, wrong, err
		}
	}
}
