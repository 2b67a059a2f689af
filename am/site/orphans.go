package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/inventory"
)

const (
	// maxOrphanNames limits the names in an order, maxOrphanOrder its bytes.
	maxOrphanNames = 100
	maxOrphanOrder = 1 << 20
	// orphanRemovalWait is less than askTimeout, so that the client gets an answer.
	orphanRemovalWait = 15 * time.Second
	// eventReleaseOrphan has a text that is older than the word orphan. Existing journals contain
	// it.
	eventReleaseOrphan = "release unpromised"
)

// orphanCounts counts by provider and component.
func (s *Site) orphanCounts() map[[2]string]int {
	n := map[[2]string]int{}
	for _, o := range s.runner.Orphans() {
		n[[2]string{o.Provider, o.Component}]++
	}
	return n
}

// blockedComponent returns the component of an orphan. ok reports whether the component takes no
// new slivers while the orphan exists. Any orphan blocks an exclusive component. Only an orphan
// that looks like a sliver of this site blocks a shared component.
func blockedComponent(o *work.Orphan, inv *inventory.Inventory) (c *inventory.Component, ok bool) {
	if c, ok = inv.ComponentNamed(o.Component); !ok || c.Provider != o.Provider {
		return nil, false
	}
	reported, err := urn.Parse(o.Sliver)
	return c, c.Exclusive || o.HasSliverName() && (err != nil || strings.EqualFold(reported.Authority, inv.Manager.Authority))
}

// drainOrphaned drains the components that orphans block. When all providers have listed their
// resources after a restore, it also ends the lockdown. Then the runner compares all slivers with
// the providers' resources, to find resources that were removed after the backup.
func (s *Site) drainOrphaned(ctx context.Context) {
	err := s.maintenance.changeExtra(ctx, func(h *extraPlan) {
		h.drains = s.orphanDrains()
		if h.lockdown != nil && s.allListed() {
			h.lockdown = nil
			s.log.Info("all providers have listed their resources, so the restored site accepts reservations again")
			s.runner.RequestSweep()
		}
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("components with orphans are drained, but running calls may still use them", "error", err)
	}
	if s.allListed() {
		s.removeRestoreMark()
	}
}

// orphanDrains returns a drain for each component that orphans block, sorted by component.
func (s *Site) orphanDrains() (drains []*maintenance.Drain) {
	type found struct {
		names []string
		since time.Time
	}
	on, inv := map[string]*found{}, s.inventory.Load()
	for _, o := range s.runner.Orphans() {
		c, ok := blockedComponent(&o, inv)
		if !ok {
			continue
		}
		f := on[c.Name]
		if f == nil {
			f = &found{since: o.Since}
			on[c.Name] = f
		}
		if f.names = append(f.names, o.Name); o.Since.Before(f.since) {
			f.since = o.Since
		}
	}
	for name, f := range on {
		text := fmt.Sprintf("its provider has the orphan %.100q there", f.names[0])
		if more := len(f.names) - 1; more > 0 {
			text = fmt.Sprintf("its provider has the orphan %.100q and %d more there", f.names[0], more)
		}
		drains = append(drains, maintenance.NewOrphanDrain(name, text, f.since))
	}
	slices.SortFunc(drains, func(a, b *maintenance.Drain) int { return cmp.Compare(a.Components[0], b.Components[0]) })
	return drains
}

func (s *Site) allListed() bool {
	listed := s.runner.CountOrphans()
	for name := range providersOf(s.inventory.Load()) {
		if _, ok := listed[name]; !ok {
			return false
		}
	}
	return true
}

// findOrdered checks an order and returns its orphans without duplicates. It fails if a name
// matches no orphan or several.
func (s *Site) findOrdered(order *operate.OrphanOrder) (orphans []work.Orphan, err error) {
	if len(order.Resources) == 0 || len(order.Resources) > maxOrphanNames {
		return nil, fmt.Errorf("the order names %d resources; name 1 to %d", len(order.Resources), maxOrphanNames)
	}
	if order.Text != "" {
		if err := maintenance.CheckText(order.Text); err != nil {
			return nil, err
		}
	}
	if order.Operator == "" || len(order.Operator) > 256 {
		return nil, fmt.Errorf("the order needs the operator's name, of at most 256 bytes")
	}
	all := s.runner.Orphans()
	for _, name := range order.Resources {
		var found []work.Orphan
		for _, o := range all {
			if o.Name == name || o.Provider+"/"+o.Name == name {
				found = append(found, o)
			}
		}
		switch {
		case len(found) == 0:
			return nil, fmt.Errorf("there is no orphan %.200s; nothing was removed. To list orphans: patchbay nodes --orphans", name)
		case len(found) > 1:
			return nil, fmt.Errorf("%d providers have an orphan %.200s; nothing was removed. Name one as PROVIDER/NAME, such as %s/%.200s", len(found), name, found[0].Provider, name)
		}
		if !slices.Contains(orphans, found[0]) {
			orphans = append(orphans, found[0])
		}
	}
	return orphans, nil
}

// removeOrphans asks all providers at once to remove their orphans, and returns a result for each
// orphan. It waits for at most orphanRemovalWait.
func (s *Site) removeOrphans(ctx context.Context, orphans []work.Orphan) []operate.OrphanResult {
	ctx, cancel := context.WithTimeout(ctx, orphanRemovalWait)
	defer cancel()
	by := map[string][]string{}
	for _, o := range orphans {
		by[o.Provider] = append(by[o.Provider], o.Name)
	}
	type answer struct {
		left   []string
		failed map[string]error
		err    error
	}
	var mu sync.Mutex
	answers := map[string]answer{}
	var asking sync.WaitGroup
	for name, resources := range by {
		asking.Go(func() {
			var a answer
			a.left, a.failed, a.err = s.runner.ReleaseOrphans(ctx, name, resources)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = a
		})
	}
	asking.Wait()
	var results []operate.OrphanResult
	for _, o := range orphans {
		a := answers[o.Provider]
		r := operate.OrphanResult{Provider: o.Provider, Resource: o.Name, Component: o.Component}
		switch err := cmp.Or(a.err, a.failed[o.Name]); {
		case err != nil:
			r.Wrong = fmt.Sprintf("%.500s", err.Error())
		default:
			r.Gone = !slices.Contains(a.left, o.Name)
		}
		results = append(results, r)
	}
	return results
}

// restoredWait is the longest lockdown of a restored site after its start. The lockdown ends
// earlier when all providers have listed their resources.
const restoredWait = 30 * time.Second

// restoredText is for experimenters.
const restoredText = "it was restored from a backup and checks which resources exist; please try again in a minute"

// lockRestored locks the site down if it has the mark of a restore: the store lacks slivers that
// are newer than the backup. It fails if the mark cannot be read.
func (s *Site) lockRestored() error {
	switch _, err := os.Lstat(restoredMark(s.config)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.maintenance.extra.lockdown = &maintenance.Lockdown{Text: restoredText}
	s.log.Warn("the store was restored from a backup; nothing new is reserved until providers have listed their resources", "at_most", restoredWait)
	return nil
}

// unlockRestored waits for restoredWait, unless drainOrphaned has ended the lockdown before.
func (s *Site) unlockRestored(ctx context.Context) {
	if s.maintenance.shown.Load().Lockdown == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(restoredWait):
	}
	err := s.maintenance.changeExtra(ctx, func(h *extraPlan) {
		if h.lockdown != nil {
			h.lockdown = nil
			s.log.Warn("not all providers have listed their resources, so a node that is in use but not in the backup may be allocated again; fix the providers, then see patchbay nodes --orphans", "waited", restoredWait)
		}
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("the restored site accepts reservations again, but this could not be announced to the calls that were already running; they may still be refused", "error", err)
	}
}

// removeRestoreMark must run after all providers have listed their resources.
func (s *Site) removeRestoreMark() {
	if err := os.Remove(restoredMark(s.config)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot remove the file that records the restore, so the next start waits for all providers again; remove the file yourself", "error", err)
	}
}
