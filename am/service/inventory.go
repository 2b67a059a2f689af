package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"patchbay/am"
	"patchbay/am/binder"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// offer is what is advertised of an inventory. While it is being changed there are
// two, and what is free tells which of them is in force.
type offer struct {
	*advertiser
	before *advertiser // nil when nothing is being changed
}

// offered is the advertisement of an inventory; nil once another has been in force
// for long.
func (s *Service) offered(v *inventory.Inventory) *advertiser {
	o := s.offer.Load()
	for _, a := range []*advertiser{o.advertiser, o.before} {
		if a != nil && a.of == v {
			return a
		}
	}
	return nil
}

// stocked is the advertisement in force, and what is free of the same inventory.
func (s *Service) stocked() (*advertiser, *binder.Stock) {
	for {
		stock := s.cfg.Index.Stock()
		if a := s.offered(stock.Inventory()); a != nil {
			return a, stock
		}
	}
}

// Inventory is the one in force. It does not change within a decision; whatever
// else looks at it more than once keeps what it has seen.
func (s *Service) Inventory() *inventory.Inventory { return s.cfg.Index.Inventory() }

// SetInventory puts another inventory of the same authority in force, between two
// decisions; with it is done in the same moment, for what must not be of another
// inventory than decisions are. Slivers keep all they were promised, whatever
// has become of their components. Only one may do it at a time.
//
// Errors: those of store.Commit, and that of inventory.Clash for slivers that were
// promised a moment ago; then everything is as before. If with panics, the inventory is
// in force, and the error says so.
func (s *Service) SetInventory(ctx context.Context, v *inventory.Inventory, with func()) error {
	if err := s.Remember(ctx); err != nil {
		return err
	}
	ads, was := newAdvertiser(v, &s.cfg), s.offer.Load().advertiser
	set, drop := s.cfg.Index.Prepare(v)
	s.offer.Store(&offer{ads, was})
	isSet, isDone, renames := false, false, v.Renames(s.Inventory())
	err := s.cfg.Store.Commit(ctx, func(view *store.View) (cs store.ChangeSet, err error) {
		if renames {
			var all []am.Sliver
			err := view.Slivers(func(x am.Sliver) bool { all = append(all, x); return true })
			if err = cmp.Or(err, inventory.Clash(v, "the inventory", all)); err != nil {
				return cs, err
			}
		}
		set()
		isSet = true
		with()
		isDone = true
		return cs, nil
	})
	if !isSet {
		drop()
		s.offer.Store(&offer{was, nil})
		return err
	}
	s.offer.Store(&offer{ads, nil})
	if !isDone {
		return fmt.Errorf("the inventory is in force, but not all that goes with it; restart the server: %w", err)
	}
	return nil // what else was to be written with it is its callers' affair
}

// stillOffered refuses a sliver of which nothing has been promised yet, when its
// component was taken out of service since it was bound.
func (s *Service) stillOffered(x *am.Sliver) error {
	if c, ok := s.Inventory().Home(x); ok && !c.Drained && c.Provider == x.Provider {
		return nil
	}
	return am.Errorf(am.Unavailable, "%s was taken out of service while its provider was asked; ask again", cmp.Or(x.ComponentName, x.Component.Name)).About(x.URN)
}

// rememberAtOnce is how many records are filled in by one decision.
const rememberAtOnce = 1000

// Remember writes into the records of slivers what manifests tell of them out of
// the inventory, while it tells: those of earlier versions lack it, and a gateway may
// be another by now.
//
// Errors: those of store.Commit.
func (s *Service) Remember(ctx context.Context) error {
	v := s.Inventory()
	var stale []urn.URN
	err := s.cfg.Store.Read(func(view *store.View) error {
		return view.Slivers(func(x am.Sliver) bool {
			if remember(v, &x) {
				stale = append(stale, x.URN)
			}
			return true
		})
	})
	for err == nil && len(stale) > 0 {
		some := stale[:min(len(stale), rememberAtOnce)]
		stale = stale[len(some):]
		err = s.cfg.Store.Commit(ctx, func(view *store.View) (cs store.ChangeSet, err error) {
			for _, u := range some {
				x, _, err := view.Sliver(u)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return cs, err
				}
				if remember(v, &x) {
					cs.PutSliver(x)
				}
			}
			return cs, nil
		})
	}
	return err
}

// remember notes in x what v tells of it; false if there is nothing new.
func remember(v *inventory.Inventory, x *am.Sliver) bool {
	c, ok := v.Home(x)
	if !ok {
		return false
	}
	was := *x
	x.ComponentName = cmp.Or(x.ComponentName, c.Name)
	if x.HardwareType == "" && len(c.HardwareTypes) > 0 {
		x.HardwareType = c.HardwareTypes[0]
	}
	if i, ok := v.Image(x.Image); ok && x.ImageURN.IsZero() {
		x.ImageURN = i.URN
	}
	x.Gateway = c.Gateway.Door()
	return x.ComponentName != was.ComponentName || x.HardwareType != was.HardwareType || x.ImageURN != was.ImageURN || x.Gateway != was.Gateway
}
