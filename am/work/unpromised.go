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
	// unpromisedKept and unpromisedLogged bound what one provider can make us remember,
	// and write down at once.
	unpromisedKept   = 10_000
	unpromisedLogged = 20
)

// Unpromised is a resource that a provider has and that no sliver's record names.
type Unpromised struct {
	Provider string
	Name     string
	// Component and Sliver are what its provider tells of it: the component's name and
	// the sliver's URN. They may be empty, or wrong.
	Component, Sliver string
	// Since is when this runner first saw it.
	Since time.Time
	// Released says that the store's journal tells of its release: it was promised here
	// once, and its provider had said that nothing is left. Only such are removed.
	Released bool
	// Ordered is when it was last told to go; zero if it was not.
	Ordered time.Time
}

// LikeASliver tells whether its name is one as slivers get it.
func (u *Unpromised) LikeASliver() bool { return isUUID(u.Name) }

// stock is what is known of unpromised resources.
type stock struct {
	mu      sync.Mutex
	found   map[string]map[string]*Unpromised // by provider and name
	removed []time.Time                       // when something was removed, in the last hour
	turns   sync.Map                          // by provider: a channel that holds one who looks and removes
	again   chan struct{}                     // holds one while something was told to go, and is to be looked after
}

// take waits for the turn at a provider, no longer than ctx lasts.
func (s *stock) take(ctx context.Context, name string) (done func(), err error) {
	c, _ := s.turns.LoadOrStore(name, make(chan struct{}, 1))
	turn := c.(chan struct{})
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Unpromised lists what providers have and nobody was promised, by provider and name,
// as of the last time they were asked.
func (r *Runner) Unpromised() []Unpromised {
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	var all []Unpromised
	for _, found := range r.stock.found {
		for _, u := range found {
			all = append(all, *u)
		}
	}
	slices.SortFunc(all, func(a, b Unpromised) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// CountUnpromised counts them for each provider that has told of everything it has.
func (r *Runner) CountUnpromised() map[string]int {
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	n := map[string]int{}
	for name, found := range r.stock.found {
		n[name] = len(found)
	}
	return n
}

// takeStock asks each provider for everything, at once and from time to time, until ctx
// ends.
func (r *Runner) takeStock(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	var busy, trouble sync.Map // by provider: it has not answered yet; what was logged last
	for wait, next := time.Duration(0), r.limits.FirstList; r.untilList(ctx, wait); wait, next = next, r.limits.List {
		for _, name := range r.providerNames() {
			if _, still := busy.LoadOrStore(name, true); still {
				continue // one that hangs keeps no other waiting
			}
			asking.Go(func() {
				defer busy.Delete(name)
				p, err := r.cfg.Providers(name)
				if err != nil {
					return // its slivers tell
				}
				done, err := r.stock.take(ctx, name)
				if err == nil {
					_, err = r.stockOf(ctx, name, p)
					done()
				}
				if err == nil || ctx.Err() != nil {
					trouble.Delete(name)
				} else if was, _ := trouble.Swap(name, err.Error()); was != err.Error() {
					r.cfg.Log.Warn("a provider does not tell of everything it has, so what nobody was promised is not known", "provider", name, "error", err)
				}
			})
		}
	}
}

// untilList waits until providers are to be asked for everything again, and tells
// whether they are. While something was told to go and is there that is soon.
func (r *Runner) untilList(ctx context.Context, wait time.Duration) bool {
	end := time.Now().Add(wait)
	for {
		if r.ordered() {
			end = earlier(end, time.Now().Add(r.limits.Sweep))
		}
		if !until(ctx, time.Until(end), r.stock.again) {
			return ctx.Err() == nil
		}
	}
}

// ordered tells whether something is there that was told to go, not too long ago.
func (r *Runner) ordered() bool {
	for _, u := range r.Unpromised() {
		if !u.Ordered.IsZero() && time.Since(u.Ordered) < orderedFor {
			return true
		}
	}
	return false
}

// orderedFor is how long what was told to go is looked after closely.
const orderedFor = 3 * time.Minute

// order notes that something was told to go.
func (r *Runner) order(name, resource string) {
	r.stock.mu.Lock()
	if u := r.stock.found[name][resource]; u != nil {
		u.Ordered = time.Now()
	}
	r.stock.mu.Unlock()
	poke(r.stock.again)
}

// providerNames are the providers of the inventory and of slivers.
func (r *Runner) providerNames() []string {
	names := map[string]bool{}
	if r.cfg.ProviderNames != nil {
		for _, name := range r.cfg.ProviderNames() {
			names[name] = true
		}
	}
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			if _, name, ok := r.place(&s); ok {
				names[name] = true
			}
			return true
		})
	})
	if err != nil {
		r.cfg.Log.Error("cannot read who has made slivers", "error", err)
	}
	return slices.Sorted(maps.Keys(names))
}

// stockOf finds out what a provider has and nobody was promised, tells of what is new,
// and removes what is to be removed. Who calls it has the turn at the provider.
//
// A sliver's record is there before its resource, and longer. So who is not in the
// records that are read after the provider has told of it is nobody's, or was removed
// in between; then the provider does not tell of it any more when it is asked again.
func (r *Runner) stockOf(ctx context.Context, name string, p Provider) (found map[string]provider.Resource, err error) {
	known := r.known(name)
	all, err := r.everything(ctx, p, nil, known)
	if err != nil {
		return nil, err
	}
	for n := range known { // what was left out once may be there
		if _, told := all[n]; !told {
			all[n] = provider.Resource{provider.AttrName: n}
		}
	}
	suspects, err := r.withoutRecord(all)
	if err != nil {
		return nil, err
	}
	found = map[string]provider.Resource{}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(suspects)), r.limits.Names) {
		again, err := r.everything(ctx, p, some, known)
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
	fresh := r.note(name, found)
	if err := r.learnReleased(name, fresh); err != nil {
		return nil, err
	}
	for i, u := range fresh {
		if i == unpromisedLogged {
			r.cfg.Log.Warn("a provider has more that nobody was promised", "provider", name, "more", len(fresh)-i)
			break
		}
		r.cfg.Log.Warn("a provider has what nobody was promised", "provider", name, "resource", u.Name, "component", u.Component, "told_sliver", u.Sliver, "released_here", u.Released)
	}
	if r.cfg.Stocked != nil {
		r.cfg.Stocked(ctx)
	}
	if r.cfg.RemoveUnpromised {
		r.removeUnpromised(ctx, name, p, found)
	}
	return found, nil
}

// known are the names of what a provider had at the last look and nobody was promised.
func (r *Runner) known(name string) map[string]bool {
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	known := map[string]bool{}
	for n := range r.stock.found[name] {
		known[n] = true
	}
	return known
}

// everything is all that the provider has, or what there is of some names. What was
// known to be there is there until its provider has done with removing it, and while
// its provider cannot tell.
func (r *Runner) everything(ctx context.Context, p Provider, names []string, known map[string]bool) (map[string]provider.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit(p, "get", r.limits.Get))
	defer cancel()
	told, err := p.Get(ctx, names)
	if err != nil {
		return nil, err
	}
	there := map[string]provider.Resource{}
	for n, res := range told {
		switch {
		case res.Err != nil:
			if known[n] && res.Err.Kind != provider.Unknown {
				there[n] = provider.Resource{provider.AttrName: n}
			}
		case res.Resource.Text(provider.AttrEnsure) == provider.Present, known[n] && res.Resource.Text(provider.AttrState) == provider.StateChanging:
			there[n] = res.Resource
		}
	}
	return there, nil
}

// withoutRecord are the resources that no sliver's record names, whoever made it.
func (r *Runner) withoutRecord(all map[string]provider.Resource) (map[string]provider.Resource, error) {
	left := maps.Clone(all)
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Slivers(func(s am.Sliver) bool {
			delete(left, s.URN.Name)
			return len(left) > 0
		})
	})
	return left, err
}

// note remembers what a provider has now, and gives what it had not before.
func (r *Runner) note(name string, found map[string]provider.Resource) (fresh []*Unpromised) {
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	before, now := r.stock.found[name], map[string]*Unpromised{}
	for _, n := range slices.Sorted(maps.Keys(found)) {
		if len(now) == unpromisedKept {
			break
		}
		u := before[n]
		if u == nil {
			res := found[n]
			u = &Unpromised{Provider: name, Name: n, Component: line(res.Text(provider.AttrComponent)), Sliver: line(res.Text(provider.AttrSliverURN)), Since: time.Now()}
			fresh = append(fresh, u)
		}
		now[n] = u
	}
	if r.stock.found == nil {
		r.stock.found = map[string]map[string]*Unpromised{}
	}
	r.stock.found[name] = now
	return fresh
}

// line is what a provider tells, bounded.
func line(s string) string { return fmt.Sprintf("%.300s", strings.ToValidUTF8(s, "\uFFFD")) }

// learnReleased looks in the journal for the release of what was found. It cannot come
// there later, for a sliver's record stays until after its release.
func (r *Runner) learnReleased(name string, fresh []*Unpromised) error {
	open := map[string]*Unpromised{}
	for _, u := range fresh {
		if isUUID(u.Name) {
			open[u.Name] = u
		}
	}
	if len(open) == 0 {
		return nil
	}
	released := map[string]bool{}
	err := r.cfg.Store.Read(func(v *store.View) error {
		return v.Journal(func(e am.JournalEntry) bool {
			if e.Event == string(am.EventDelete) || e.Event == string(am.EventExpire) {
				for _, s := range e.Slivers {
					if s.Type == urn.Sliver && open[s.Name] != nil {
						released[s.Name] = true
					}
				}
			}
			return len(released) < len(open)
		})
	})
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	for n := range released {
		open[n].Released = true
	}
	if err != nil { // look again the next time
		for n := range open {
			delete(r.stock.found[name], n)
		}
	}
	return err
}

// removeUnpromised removes what was promised and released here, has been seen for long
// enough, and is there now; only so many in an hour, so that a mistake stays small.
func (r *Runner) removeUnpromised(ctx context.Context, name string, p Provider, found map[string]provider.Resource) {
	if !p.Reports(provider.AttrEnsure) {
		return
	}
	for _, u := range r.Unpromised() {
		if ctx.Err() != nil || u.Provider != name || !u.Released || time.Since(u.Since) < r.limits.Unpromised {
			continue
		}
		if !u.Ordered.IsZero() && time.Since(u.Ordered) < r.limits.List {
			continue // it takes its time, or does not go: not all removals of an hour are for it
		}
		if !r.mayRemove() {
			r.cfg.Log.Warn("no more of what nobody was promised is removed within this hour", "provider", name, "removed", r.limits.Removals)
			return
		}
		err := r.remove(ctx, p, u.Name, found[u.Name])
		r.order(name, u.Name)
		r.cfg.Log.Warn("removes what nobody was promised", "provider", name, "resource", u.Name, "component", u.Component, "error", err)
	}
}

// mayRemove takes one of the removals of an hour, if there is one left.
func (r *Runner) mayRemove() bool {
	r.stock.mu.Lock()
	defer r.stock.mu.Unlock()
	r.stock.removed = slices.DeleteFunc(r.stock.removed, func(t time.Time) bool { return time.Since(t) > time.Hour })
	if len(r.stock.removed) >= r.limits.Removals {
		return false
	}
	r.stock.removed = append(r.stock.removed, time.Now())
	return true
}

// remove asks for one resource to go; whether it did, the next look at everything tells.
func (r *Runner) remove(ctx context.Context, p Provider, name string, is provider.Resource) error {
	ctx, cancel := context.WithTimeout(ctx, timeLimit(p, "set", r.limits.Set))
	defer cancel()
	changes, err := p.Set(ctx, []provider.Update{{Name: name, Is: is, Should: provider.Resource{provider.AttrName: name, provider.AttrEnsure: provider.Absent}}}, false)
	for _, c := range changes {
		if err == nil && c.Name == name && c.Err != nil {
			err = c.Err
		}
	}
	return err
}

// isUUID tells whether a name is one as slivers get it: a random UUID in lower case.
func isUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.Version() == 4 && id.String() == s
}
