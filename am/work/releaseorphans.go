package work

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"patchbay/inventory/provider"
)

// ReleaseOrphans asks a provider to remove those of the named resources that are orphans. It
// waits until the provider has removed them or ctx ends. It never removes a resource that a
// sliver's record names. For a few minutes after each request, the runner lists the providers'
// resources more often.
//
// remaining has the sorted names of the requested orphans that still existed when the provider
// was last listed. failed has an error for each orphan whose removal the provider refused.
// ReleaseOrphans fails if the provider cannot be called or the store cannot be read; the
// provider may have removed some orphans by then.
func (r *Runner) ReleaseOrphans(ctx context.Context, name string, resources []string) (remaining []string, failed map[string]error, err error) {
	p, err := r.cfg.Providers(name)
	if err != nil {
		return nil, nil, err
	}
	if !p.Reports(provider.AttrEnsure) {
		return nil, nil, fmt.Errorf("provider %s creates no resources, so it cannot remove any", name)
	}
	unlock, err := r.orphans.lock(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	orphans, err := r.findOrphans(ctx, name, p)
	if err != nil {
		return nil, nil, err
	}
	failed = map[string]error{}
	for _, n := range resources {
		if is, ok := orphans[n]; ok && ctx.Err() == nil {
			if err := r.remove(ctx, p, n, is); err != nil {
				failed[n] = err
			} else {
				r.noteRemoval(name, n)
			}
			r.cfg.Log.Warn("removal of an orphan requested by an operator", "provider", name, "resource", n, "error", failed[n])
		}
	}
	for wait := r.limits.PollMin; ; wait = min(2*wait, r.limits.PollMax) {
		now, listErr := r.findOrphans(ctx, name, p)
		if listErr == nil {
			orphans = now
		} else if ctx.Err() == nil { // an ended ctx is no error: watchOrphans continues
			err = listErr
		}
		remaining = slices.DeleteFunc(slices.Sorted(maps.Keys(orphans)), func(n string) bool { return !slices.Contains(resources, n) })
		isBeingRemoved := func(n string) bool { return failed[n] == nil }
		if listErr != nil || !slices.ContainsFunc(remaining, isBeingRemoved) || sleep(ctx, wait) != nil {
			return remaining, failed, err
		}
	}
}
