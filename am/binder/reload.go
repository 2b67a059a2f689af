package binder

import (
	"maps"
	"sync/atomic"

	"patchbay/inventory"
)

// Availability is an inventory with the numbers of free slivers and addresses at one time.
type Availability struct {
	inv    *inventory.Inventory
	free   []atomic.Int32 // by component
	public atomic.Int64   // free public addresses
}

// Inventory returns the inventory to which the numbers belong.
func (s *Availability) Inventory() *inventory.Inventory { return s.inv }

// Free returns how many slivers of the first sliver type of component i fit on it now, for any
// slice. The result is 0 if the component is held exclusively, being cleaned, drained, or
// under maintenance.
func (s *Availability) Free(i int) int {
	if i < 0 || i >= len(s.free) {
		return 0
	}
	return int(s.free[i].Load())
}

// FreePublicAddresses counts the public addresses that no sliver has.
func (s *Availability) FreePublicAddresses() int { return int(s.public.Load()) }

// Availability returns a copy of the current numbers. The copy contains each published change
// completely or not at all.
func (x *Index) Availability() *Availability {
	x.mu.RLock()
	defer x.mu.RUnlock()
	now := x.available.Load()
	s := &Availability{inv: now.inv, free: make([]atomic.Int32, len(now.free))}
	for i := range now.free {
		s.free[i].Store(now.free[i].Load())
	}
	s.public.Store(now.public.Load())
	return s
}

// Free returns Availability().Free(i).
func (x *Index) Free(i int) int { return x.available.Load().Free(i) }

// FreePublicAddresses returns Availability().FreePublicAddresses().
func (x *Index) FreePublicAddresses() int { return x.available.Load().FreePublicAddresses() }

// Version grows whenever a result of Availability, Free or FreePublicAddresses may have
// changed.
func (x *Index) Version() uint64 { return x.version.Load() }

// Inventory returns the inventory of the index.
func (x *Index) Inventory() *inventory.Inventory { return x.available.Load().inv }

// SetInventory switches to the inventory v. Slivers keep their holds, even on a component that
// v does not have: these holds count again when a later inventory has the component.
func (x *Index) SetInventory(v *inventory.Inventory) {
	apply, _ := x.Prepare(v)
	apply()
}

// Prepare prepares the index for the inventory v. Call one of the results, once and soon:
// apply switches to v, and drop discards v. Bind waits only for apply. A decision of
// Store.Commit may use the index more than once, so do not call apply during a decision.
func (x *Index) Prepare(v *inventory.Inventory) (apply, drop func()) {
	x.preparing.Lock()
	x.mu.Lock()
	holds := maps.Clone(x.holds)
	x.changed = map[string]bool{}
	x.mu.Unlock()
	next := newLayout(v)
	for sliver, h := range holds {
		holds[sliver] = next.addHold(h)
	}
	numbers := &Availability{inv: v, free: make([]atomic.Int32, len(v.Components))}
	for i, c := range v.Components {
		next.refresh(int32(i))
		numbers.free[i].Store(next.slotsFor(int32(i), c.SliverTypes[0]))
	}
	next.touched = nil
	drop = func() {
		defer x.preparing.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.changed = nil
	}
	apply = func() {
		defer x.preparing.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		for sliver := range x.changed {
			if h, ok := holds[sliver]; ok {
				next.count(h, -1)
				next.refresh(h.at)
				delete(holds, sliver)
			}
			if h, ok := x.holds[sliver]; ok {
				h = next.addHold(h)
				next.refresh(h.at)
				holds[sliver] = h
			}
		}
		x.layout, x.holds, x.changed = next, holds, nil
		next.applyPlan(x.plan, x.now)
		for _, i := range next.touched {
			numbers.free[i].Store(next.slotsFor(i, v.Components[i].SliverTypes[0]))
		}
		next.touched = nil
		numbers.public.Store(next.network.freePublic())
		x.available.Store(numbers)
		x.version.Add(1)
	}
	return apply, drop
}

// addHold accepts a hold of another layout. It returns the hold with the index of its
// component in this layout.
func (x *layout) addHold(h hold) hold {
	h = x.locate(h)
	x.count(h, 1)
	return h
}
