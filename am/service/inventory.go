package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// offer holds the advertisers of both inventories while SetInventory runs, since the site may
// then have the old or the new one.
type offer struct {
	*advertiser
	before *advertiser // nil unless SetInventory runs
}

// advertiserOf returns nil if SetInventory has replaced the inventory.
func (s *Service) advertiserOf(v *inventory.Inventory) *advertiser {
	o := s.offer.Load()
	for _, a := range []*advertiser{o.advertiser, o.before} {
		if a != nil && a.inventory == v {
			return a
		}
	}
	return nil
}

// advertiser returns the advertiser of the current inventory.
func (s *Service) advertiser() *advertiser {
	for {
		if a := s.advertiserOf(s.Inventory()); a != nil {
			return a
		}
	}
}

// Inventory returns the current inventory. It may change during a decision on a view, which then runs
// again (see commit). Other code must call it only once to work with a single inventory.
func (s *Service) Inventory() *inventory.Inventory { return s.cfg.Inventory.Load() }

// SetInventory replaces the inventory by another one of the same authority. In the same decision
// it calls update, which must update the data that depend on the inventory. Slivers keep
// everything that was reserved for them, even if their components have changed. Concurrent calls
// are not allowed.
//
// Errors: those of store.Commit, and those of inventory.CheckClash. After these errors the old
// inventory stays. If update panics, the new inventory is the current one, and SetInventory
// returns an error about that.
func (s *Service) SetInventory(ctx context.Context, v *inventory.Inventory, update func()) error {
	if err := s.FillInRecords(ctx); err != nil {
		return err
	}
	ads, was := newAdvertiser(v, &s.cfg), s.offer.Load().advertiser
	s.offer.Store(&offer{ads, was})
	isSet, isDone, renames := false, false, v.HasRenamed(s.Inventory())
	err := s.cfg.Store.Commit(ctx, func(view *store.View) (cs store.ChangeSet, err error) {
		if renames {
			var all []am.Sliver
			err := view.Slivers(func(x am.Sliver) bool { all = append(all, x); return true })
			if err = cmp.Or(err, inventory.CheckClash(v, "the inventory", all)); err != nil {
				return cs, err
			}
		}
		s.cfg.Inventory.Store(v)
		isSet = true
		update()
		isDone = true
		return cs, nil
	})
	if !isSet {
		s.offer.Store(&offer{was, nil})
		return err
	}
	s.offer.Store(&offer{ads, nil})
	if !isDone {
		return fmt.Errorf("the new inventory is used, but other settings do not match it yet; restart the server: %w", err)
	}
	return nil // the new inventory is the current one, even if the commit failed afterwards
}

// checkInService returns an Unavailable error if the sliver's component was taken out of service
// during the dry run.
func (s *Service) checkInService(x *am.Sliver) error {
	if c, ok := s.Inventory().ComponentOf(x); ok && !c.Drained && c.Provider == x.Provider {
		return nil
	}
	return am.Errorf(am.Unavailable, "%s was taken out of service while its provider checked the request; try again", cmp.Or(x.ComponentName, x.Component.Name)).About(x.URN)
}

const recordsAtOnce = 1000

// FillInRecords copies data for manifests from the current inventory into the records of slivers.
// Records of earlier versions lack these data, and the gateway of a component may have changed.
// So call FillInRecords before the inventory is replaced.
//
// Errors: those of store.Commit.
func (s *Service) FillInRecords(ctx context.Context) error {
	v := s.Inventory()
	var stale []urn.URN
	err := s.cfg.Store.Read(func(view *store.View) error {
		return view.Slivers(func(x am.Sliver) bool {
			if fillIn(v, &x) {
				stale = append(stale, x.URN)
			}
			return true
		})
	})
	for err == nil && len(stale) > 0 {
		some := stale[:min(len(stale), recordsAtOnce)]
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
				if fillIn(v, &x) {
					cs.PutSliver(x)
				}
			}
			return cs, nil
		})
	}
	return err
}

// fillIn copies to x what FillInRecords copies, and reports whether that changes x.
func fillIn(v *inventory.Inventory, x *am.Sliver) bool {
	c, ok := v.ComponentOf(x)
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
	x.Gateway = c.Gateway.Address()
	return x.ComponentName != was.ComponentName || x.HardwareType != was.HardwareType || x.ImageURN != was.ImageURN || x.Gateway != was.Gateway
}
