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

	"patchbay/am/maintenance"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/inventory"
)

// UnpromisedRow is something that a provider has and nobody was promised.
type UnpromisedRow struct {
	Provider  string `json:"provider"`
	Resource  string `json:"resource"`
	Component string `json:"component,omitempty"` // as its provider tells
	Sliver    string `json:"sliver,omitempty"`    // as its provider tells
	// Since is when it was first seen after the start.
	Since time.Time `json:"since"`
	// Released says that it was promised here once, and released.
	Released bool `json:"released_here"`
	// Holds says that its node takes nothing new while it is there.
	Holds bool `json:"holds"`
	// Ordered is when it was last told to go.
	Ordered time.Time `json:"ordered,omitzero"`
}

// UnpromisedOrder has some of it removed.
type UnpromisedOrder struct {
	Resources []string // as NAME or PROVIDER/NAME
	Text      string
	Operator  string
}

// Dismissed is what came of the removal of one.
type Dismissed struct {
	Provider, Resource, Component string
	Gone                          bool   // its provider says so
	Wrong                         string // what its provider has against it; "" for nothing
}

const (
	// maxDismissed is how many an order may name, and maxDismissal how many bytes it has.
	maxDismissed = 100
	maxDismissal = 1 << 20
	// dismissPatience is how long an order waits until they are gone; the answer is to be
	// there before askTimeout is over.
	dismissPatience = 15 * time.Second
	// eventDismiss is what the journal calls such an order.
	eventDismiss = "release unpromised"
)

// unpromisedOn counts it by the names of provider and component.
func (s *Site) unpromisedOn() map[[2]string]int {
	n := map[[2]string]int{}
	for _, u := range s.runner.Unpromised() {
		n[[2]string{u.Provider, u.Component}]++
	}
	return n
}

// heldBy is the component that must not be given to anybody while u is there: one that
// has room for a single sliver, or on which u looks like a sliver of this site. Slivers
// of other sites are no reason on what many share.
func heldBy(u *work.Unpromised, inv *inventory.Inventory) (c *inventory.Component, ok bool) {
	if c, ok = inv.ComponentNamed(u.Component); !ok || c.Provider != u.Provider {
		return nil, false
	}
	told, err := urn.Parse(u.Sliver)
	return c, c.Exclusive || u.LikeASliver() && (err != nil || strings.EqualFold(told.Authority, inv.Manager.Authority))
}

// holdUnpromised keeps components from being given to anybody as long as there is what
// nobody was promised, and ends the lockdown after a restore when all providers have
// told what they have. Then what they have lost is to be seen, too.
func (s *Site) holdUnpromised(ctx context.Context) {
	err := s.upkeep.beside(ctx, func(h *holding) {
		h.held = s.heldNow()
		if h.lockdown != nil && s.listed() {
			h.lockdown = nil
			s.log.Info("providers have told what they have, so the restored site takes new work")
			s.runner.Look() // what they have lost since the backup looks ready
		}
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("nothing new goes to what holds something that nobody was promised, but it is not sure that all calls know", "error", err)
	}
	if s.listed() {
		s.unmarkRestored()
	}
}

func (s *Site) heldNow() (held []*maintenance.Drain) {
	type found struct {
		names []string
		since time.Time
	}
	on, inv := map[string]*found{}, s.index.Inventory()
	for _, u := range s.runner.Unpromised() {
		c, ok := heldBy(&u, inv)
		if !ok {
			continue
		}
		f := on[c.Name]
		if f == nil {
			f = &found{since: u.Since}
			on[c.Name] = f
		}
		if f.names = append(f.names, u.Name); u.Since.Before(f.since) {
			f.since = u.Since
		}
	}
	for name, f := range on {
		text := fmt.Sprintf("its provider has %.100q there, which nobody was promised", f.names[0])
		if more := len(f.names) - 1; more > 0 {
			text = fmt.Sprintf("its provider has %.100q and %d more there, which nobody was promised", f.names[0], more)
		}
		held = append(held, maintenance.Hold(name, text, f.since))
	}
	slices.SortFunc(held, func(a, b *maintenance.Drain) int { return cmp.Compare(a.Components[0], b.Components[0]) })
	return held
}

// listed tells whether all providers of the inventory have told of everything.
func (s *Site) listed() bool {
	told := s.runner.CountUnpromised()
	for name := range providersOf(s.index.Inventory()) {
		if _, ok := told[name]; !ok {
			return false
		}
	}
	return true
}

// meant are the unpromised resources that an order names, each once.
func (s *Site) meant(o *UnpromisedOrder) (meant []work.Unpromised, err error) {
	if len(o.Resources) == 0 || len(o.Resources) > maxDismissed {
		return nil, fmt.Errorf("the order names %d resources; name 1 to %d", len(o.Resources), maxDismissed)
	}
	if o.Text != "" {
		if err := maintenance.CheckText(o.Text); err != nil {
			return nil, err
		}
	}
	if o.Operator == "" || len(o.Operator) > 256 {
		return nil, fmt.Errorf("the order does not say in a short word who gives it")
	}
	all := s.runner.Unpromised()
	for _, said := range o.Resources {
		var found []work.Unpromised
		for _, u := range all {
			if u.Name == said || u.Provider+"/"+u.Name == said {
				found = append(found, u)
			}
		}
		switch {
		case len(found) == 0:
			return nil, fmt.Errorf("no provider has told of a resource %.200s that nobody was promised; nothing was removed. What there is: patchbay nodes --unpromised", said)
		case len(found) > 1:
			return nil, fmt.Errorf("%d providers have a resource %.200s that nobody was promised; nothing was removed. Name one as PROVIDER/NAME, such as %s/%.200s", len(found), said, found[0].Provider, said)
		}
		if !slices.Contains(meant, found[0]) {
			meant = append(meant, found[0])
		}
	}
	return meant, nil
}

// dismiss has them removed, all providers at the same time.
func (s *Site) dismiss(ctx context.Context, meant []work.Unpromised) []Dismissed {
	ctx, cancel := context.WithTimeout(ctx, dismissPatience)
	defer cancel()
	by := map[string][]string{}
	for _, u := range meant {
		by[u.Provider] = append(by[u.Provider], u.Name)
	}
	type answer struct {
		left  []string
		wrong map[string]error
		err   error
	}
	var mu sync.Mutex
	answers := map[string]answer{}
	var asking sync.WaitGroup
	for name, resources := range by {
		asking.Go(func() {
			var a answer
			a.left, a.wrong, a.err = s.runner.Dismiss(ctx, name, resources)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = a
		})
	}
	asking.Wait()
	var done []Dismissed
	for _, u := range meant {
		a := answers[u.Provider]
		d := Dismissed{Provider: u.Provider, Resource: u.Name, Component: u.Component}
		switch wrong := cmp.Or(a.err, a.wrong[u.Name]); {
		case wrong != nil:
			d.Wrong = fmt.Sprintf("%.500s", wrong.Error())
		default:
			d.Gone = !slices.Contains(a.left, u.Name)
		}
		done = append(done, d)
	}
	return done
}

// restoredPatience is how long a restored site takes no new work at its start if
// providers do not tell what they have.
const restoredPatience = 30 * time.Second

// restoredText is what experimenters are told meanwhile.
const restoredText = "it was restored from a backup, and finds out what there is; please try again in a minute"

// lockRestored has a restored site take no new work at its start.
func (s *Site) lockRestored() error {
	switch _, err := os.Lstat(restoredMark(s.config)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.upkeep.hold.lockdown = &maintenance.Lockdown{Text: restoredText}
	s.log.Warn("the store was restored from a backup; nothing new is promised before providers have told what they have", "at_most", restoredPatience)
	return nil
}

// openRestored ends that when it has lasted long enough.
func (s *Site) openRestored(ctx context.Context) {
	if s.upkeep.shown.Load().Lockdown == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(restoredPatience):
	}
	err := s.upkeep.beside(ctx, func(h *holding) {
		if h.lockdown != nil {
			h.lockdown = nil
			s.log.Warn("not all providers have told what they have, so a node that the backup does not know of may be given away; mend them, and see patchbay nodes --unpromised", "waited", restoredPatience)
		}
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("the restored site takes new work, but it is not sure that all calls know", "error", err)
	}
}

// unmarkRestored forgets the restore: all providers have told what they have.
func (s *Site) unmarkRestored() {
	if err := os.Remove(restoredMark(s.config)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the mark of a restore cannot be removed, so the next start waits for providers again; remove it", "error", err)
	}
}
