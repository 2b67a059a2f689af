package work

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

const (
	// maxOrphans limits the orphans that are recorded for one provider. maxOrphansLogged
	// limits the orphans that are logged at once.
	maxOrphans       = 10_000
	maxOrphansLogged = 20
)

// Orphan is a resource that a provider has and that no sliver's record names.
type Orphan struct {
	Provider string
	Name     string
	// Component is the component's name and Sliver the sliver's URN, as the provider reports
	// them. They may be empty or wrong.
	Component, Sliver string
	// Since is the time when this runner first saw the resource.
	Since time.Time
	// Released means that the resource belonged to a sliver of this site that was deleted or
	// has expired, according to the store's journal. Only such orphans are removed
	// automatically.
	Released bool
	// RemovalRequested is the time when the removal of the orphan was last requested; zero if
	// never.
	RemovalRequested time.Time
}

// HasSliverName reports whether the orphan's name has the form of a sliver's name.
func (o *Orphan) HasSliverName() bool { return isUUID(o.Name) }

type orphanSet struct {
	mu      sync.Mutex
	found   map[string]map[string]*Orphan // by provider and name
	removed []time.Time                   // times of automatic removals in the last hour
	locks   sync.Map                      // by provider: a channel that holds a value while the provider is locked
	recheck chan struct{}                 // holds a value after a removal request: list again soon
}

// lock prevents other goroutines from listing or removing the provider's orphans until unlock is
// called. It fails if ctx ends first.
func (s *orphanSet) lock(ctx context.Context, name string) (unlock func(), err error) {
	c, _ := s.locks.LoadOrStore(name, make(chan struct{}, 1))
	held := c.(chan struct{})
	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Orphans returns the orphans that were found when providers were last listed, sorted by
// provider and name.
func (r *Runner) Orphans() []Orphan {
	r.orphans.mu.Lock()
	defer r.orphans.mu.Unlock()
	var all []Orphan
	for _, found := range r.orphans.found {
		for _, o := range found {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// CountOrphans counts the orphans of each provider that has listed its resources.
func (r *Runner) CountOrphans() map[string]int {
	r.orphans.mu.Lock()
	defer r.orphans.mu.Unlock()
	n := map[string]int{}
	for name, found := range r.orphans.found {
		n[name] = len(found)
	}
	return n
}

// watchOrphans lists the resources of all providers periodically, and finds their orphans, until ctx ends.
func (r *Runner) watchOrphans(ctx context.Context) {
	var listing sync.WaitGroup
	defer listing.Wait()
	var busy, lastError sync.Map // keys are provider names: busy has the providers that are being listed, lastError the last logged errors
	for wait, next := time.Duration(0), r.limits.FirstList; r.waitForList(ctx, wait); wait, next = next, r.limits.List {
		for _, name := range r.providerNames() {
			if _, still := busy.LoadOrStore(name, true); still {
				continue // a provider that hangs must not delay the others
			}
			listing.Go(func() {
				defer busy.Delete(name)
				p, err := r.cfg.Providers(name)
				if err != nil {
					return // the loop logs this error
				}
				unlock, err := r.orphans.lock(ctx, name)
				if err == nil {
					_, err = r.findOrphans(ctx, name, p)
					unlock()
				}
				if err == nil || ctx.Err() != nil {
					lastError.Delete(name)
				} else if was, _ := lastError.Swap(name, err.Error()); was != err.Error() {
					r.cfg.Log.Warn("a provider does not list its resources, so its orphans are unknown", "provider", name, "error", err)
				}
			})
		}
	}
}

// waitForList waits until providers must be listed again: after wait, or sooner after a removal request. It returns false
// if ctx has ended.
func (r *Runner) waitForList(ctx context.Context, wait time.Duration) bool {
	end := time.Now().Add(wait)
	for {
		if r.isRemoving() {
			end = earlier(end, time.Now().Add(r.limits.Sweep))
		}
		if !sleepUntil(ctx, time.Until(end), r.orphans.recheck) {
			return ctx.Err() == nil
		}
	}
}

// isRemoving reports whether the removal of an orphan that still exists was requested recently.
func (r *Runner) isRemoving() bool {
	for _, o := range r.Orphans() {
		if !o.RemovalRequested.IsZero() && time.Since(o.RemovalRequested) < recheckFor {
			return true
		}
	}
	return false
}

// recheckFor is the time after a removal request during which providers are listed more often.
const recheckFor = 3 * time.Minute

func (r *Runner) noteRemoval(name, resource string) {
	r.orphans.mu.Lock()
	if o := r.orphans.found[name][resource]; o != nil {
		o.RemovalRequested = time.Now()
	}
	r.orphans.mu.Unlock()
	wake(r.orphans.recheck)
}

// providerNames returns the providers that the inventory or a sliver names, sorted.
func (r *Runner) providerNames() []string {
	names := map[string]bool{}
	if r.cfg.ProviderNames != nil {
		for _, name := range r.cfg.ProviderNames() {
			names[name] = true
		}
	}
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			if _, name, ok := r.placeOf(&s); ok {
				names[name] = true
			}
			return true
		})
	})
	if err != nil {
		r.cfg.Log.Error("cannot read the providers of slivers", "error", err)
	}
	return slices.Sorted(maps.Keys(names))
}

// findOrphans finds the orphans of a provider, records and logs them, and removes released ones if
// Config.RemoveOrphans is set. It returns the orphans by name. The caller holds the provider's lock.
//
// A sliver's record is written before its resource is created, and deleted after the resource is
// removed. The records are read after the provider's answer, so a resource without a record is an
// orphan or has been removed meanwhile. A second get by name finds out which.
func (r *Runner) findOrphans(ctx context.Context, name string, p Provider) (found map[string]provider.Resource, err error) {
	known := r.knownOrphans(name)
	all, err := r.listResources(ctx, p, nil, known)
	if err != nil {
		return nil, err
	}
	for n := range known { // an orphan that the list omits may still exist
		if _, listed := all[n]; !listed {
			all[n] = provider.Resource{provider.AttrName: n}
		}
	}
	suspects, err := r.withoutRecord(all)
	if err != nil {
		return nil, err
	}
	found = map[string]provider.Resource{}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(suspects)), r.limits.Names) {
		again, err := r.listResources(ctx, p, some, known)
		if err != nil {
			return nil, err
		}
		for _, n := range some {
			if res, still := again[n]; still {
				found[n] = res
			}
		}
	}
	if len(found) > 0 {
		if found, err = r.withoutRecord(found); err != nil {
			return nil, err
		}
	}
	fresh := r.recordOrphans(name, found)
	if err := r.markReleased(name, fresh); err != nil {
		return nil, err
	}
	for i, o := range fresh {
		if i == maxOrphansLogged {
			r.cfg.Log.Warn("a provider has more orphans", "provider", name, "more", len(fresh)-i)
			break
		}
		r.cfg.Log.Warn("a provider has an orphan: a resource that belongs to no sliver", "provider", name, "resource", o.Name, "component", o.Component, "reported_sliver", o.Sliver, "released_here", o.Released)
	}
	if r.cfg.OrphansListed != nil {
		r.cfg.OrphansListed(ctx)
	}
	if r.cfg.RemoveOrphans {
		r.removeReleased(ctx, name, p, found)
	}
	return found, nil
}

func (r *Runner) knownOrphans(name string) map[string]bool {
	r.orphans.mu.Lock()
	defer r.orphans.mu.Unlock()
	known := map[string]bool{}
	for n := range r.orphans.found[name] {
		known[n] = true
	}
	return known
}

// listResources returns a provider's resources by name. If names is not nil, it reads only these
// resources. The parameter orphans has the names of the orphans from the last list. Such an orphan
// exists until the provider has finished removing it. An orphan for which the provider returns an
// error also exists, unless the error is of kind Unknown.
func (r *Runner) listResources(ctx context.Context, p Provider, names []string, orphans map[string]bool) (map[string]provider.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit(p, "get", r.limits.Get))
	defer cancel()
	results, err := p.Get(ctx, names)
	if err != nil {
		return nil, err
	}
	exists := map[string]provider.Resource{}
	for n, res := range results {
		switch {
		case res.Err != nil:
			if orphans[n] && res.Err.Kind != provider.Unknown {
				exists[n] = provider.Resource{provider.AttrName: n}
			}
		case res.Resource.Text(provider.AttrEnsure) == provider.Present, orphans[n] && res.Resource.Text(provider.AttrState) == provider.StateChanging:
			exists[n] = res.Resource
		}
	}
	return exists, nil
}

// withoutRecord returns the resources without a sliver's record of the same name. The provider
// in the record does not matter.
func (r *Runner) withoutRecord(resources map[string]provider.Resource) (map[string]provider.Resource, error) {
	left := maps.Clone(resources)
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			delete(left, s.URN.Name)
			return len(left) > 0
		})
	})
	return left, err
}

// recordOrphans replaces the recorded orphans of the provider by found, and returns the new ones.
func (r *Runner) recordOrphans(name string, found map[string]provider.Resource) (fresh []*Orphan) {
	r.orphans.mu.Lock()
	defer r.orphans.mu.Unlock()
	before, now := r.orphans.found[name], map[string]*Orphan{}
	for _, n := range slices.Sorted(maps.Keys(found)) {
		if len(now) == maxOrphans {
			break
		}
		o := before[n]
		if o == nil {
			res := found[n]
			o = &Orphan{Provider: name, Name: n, Component: bounded(res.Text(provider.AttrComponent)), Sliver: bounded(res.Text(provider.AttrSliverURN)), Since: time.Now()}
			fresh = append(fresh, o)
		}
		now[n] = o
	}
	if r.orphans.found == nil {
		r.orphans.found = map[string]map[string]*Orphan{}
	}
	r.orphans.found[name] = now
	return fresh
}

// bounded returns at most 300 characters of a provider's text, as valid UTF-8.
func bounded(s string) string { return fmt.Sprintf("%.300s", strings.ToValidUTF8(s, "\uFFFD")) }

// markReleased sets Released in each new orphan for which the journal has the deletion or
// expiry of a sliver with the orphan's name. It reads the journal once for each orphan, because
// a later entry cannot make an orphan released. If it cannot read the journal, it forgets these
// orphans, so that the next list finds them again.
func (r *Runner) markReleased(name string, fresh []*Orphan) error {
	unknown := map[string]*Orphan{}
	for _, o := range fresh {
		if isUUID(o.Name) {
			unknown[o.Name] = o
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	released := map[string]bool{}
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			if e.Event == string(am.EventDelete) || e.Event == string(am.EventExpire) {
				for _, s := range e.Slivers {
					if s.Type == urn.Sliver && unknown[s.Name] != nil {
						released[s.Name] = true
					}
				}
			}
			return len(released) < len(unknown)
		})
	})
	r.orphans.mu.Lock()
	defer r.orphans.mu.Unlock()
	for n := range released {
		unknown[n].Released = true
	}
	if err != nil { // the next list reads the journal again
		for n := range unknown {
			delete(r.orphans.found[name], n)
		}
	}
	return err
}

// removeReleased removes released orphans, but only those that the runner first saw at least Limits.OrphansAfter ago.
// Limits.Removals limits the damage of a mistake.
func (r *Runner) removeReleased(ctx context.Context, name string, p Provider, found map[string]provider.Resource) {
	if !p.Reports(provider.AttrEnsure) {
		return
	}
	for _, o := range r.Orphans() {
		if ctx.Err() != nil || o.Provider != name || !o.Released || time.Since(o.Since) < r.limits.OrphansAfter {
			continue
		}
		if !o.RemovalRequested.IsZero() && time.Since(o.RemovalRequested) < r.limits.List {
			continue // repeating a slow removal must not use up the removals of the hour
		}
		if !r.countRemoval() {
			r.cfg.Log.Warn("the limit of automatic removals of orphans in an hour is reached", "provider", name, "removed", r.limits.Removals)
			return
		}
		err := r.remove(ctx, p, o.Name, found[o.Name])
		r.noteRemoval(name, o.Name)
		r.cfg.Log.Warn("removal of an orphan requested", "provider", name, "resource", o.Name, "component", o.Component, "error", err)
	}
}

// countRemoval returns false, and counts nothing, if the limit of the last hour is reached.
func (r *Runner) countRemoval() bool {
	r.orphans.mu.Lock()
	defer r.orphans.mu.Unlock()
	r.orphans.removed = slices.DeleteFunc(r.orphans.removed, func(t time.Time) bool { return time.Since(t) > time.Hour })
	if len(r.orphans.removed) >= r.limits.Removals {
		return false
	}
	r.orphans.removed = append(r.orphans.removed, time.Now())
	return true
}

// remove asks the provider to remove a resource, and returns its error. Only the next list shows whether the resource
// still exists.
func (r *Runner) remove(ctx context.Context, p Provider, name string, current provider.Resource) error {
	ctx, cancel := context.WithTimeout(ctx, timeLimit(p, "set", r.limits.Set))
	defer cancel()
	changes, err := p.Set(ctx, []provider.Update{{Name: name, Is: current, Should: provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent}}}, false)
	for _, c := range changes {
		if err == nil && c.Name == name && c.Err != nil {
			err = c.Err
		}
	}
	return err
}

// isUUID reports whether s is a random UUID in lower case, as the names of slivers are.
func isUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.Version() == 4 && id.String() == s
}
