package binder

import (
	"maps"
	"sync/atomic"

	"patchbay/inventory"
)

// Stock is an inventory with what is free of it.
type Stock struct {
	inv    *inventory.Inventory
	free   []atomic.Int32 // by component
	public atomic.Int64   // free public addresses
}

// Inventory is the one that the numbers are of.
func (s *Stock) Inventory() *inventory.Inventory { return s.inv }

// Free is how many slivers of its first sliver type would fit on component i
// of the inventory now, whoever asks: 0 if it is held exclusively, being
// cleaned, drained, or under maintenance.
func (s *Stock) Free(i int) int {
	if i < 0 || i >= len(s.free) {
		return 0
	}
	return int(s.free[i].Load())
}

// FreePublicAddresses is how many public addresses no sliver has now.
func (s *Stock) FreePublicAddresses() int { return int(s.public.Load()) }

// Stock is what is free at one moment: of a change that is being published it has
// all or nothing.
func (x *Index) Stock() *Stock {
	x.mu.RLock()
	defer x.mu.RUnlock()
	now := x.stock.Load()
	s := &Stock{inv: now.inv, free: make([]atomic.Int32, len(now.free))}
	for i := range now.free {
		s.free[i].Store(now.free[i].Load())
	}
	s.public.Store(now.public.Load())
	return s
}

// Free is that of the Stock.
func (x *Index) Free(i int) int { return x.stock.Load().Free(i) }

// FreePublicAddresses is that of the Stock.
func (x *Index) FreePublicAddresses() int { return x.stock.Load().FreePublicAddresses() }

// Version grows whenever an answer of Stock, Free or FreePublicAddresses may have
// changed.
func (x *Index) Version() uint64 { return x.version.Load() }

// Inventory is the one that the index is of.
func (x *Index) Inventory() *inventory.Inventory { return x.stock.Load().inv }

// SetInventory changes to another inventory. Slivers keep what they hold;
// those on components that v does not have hold nothing of one until it comes back.
func (x *Index) SetInventory(v *inventory.Inventory) {
	set, _ := x.Prepare(v)
	set()
}

// Prepare makes ready for another inventory and gives what changes to it, and what
// drops it: one of them must be called, once and soon. All that takes time is done
// in Prepare, while the index goes on; Bind waits only for the change. Decisions
// that use the index more than once must not run beside that, so it belongs
// between two of them.
func (x *Index) Prepare(v *inventory.Inventory) (set, drop func()) {
	x.preparing.Lock()
	x.mu.Lock()
	holds := maps.Clone(x.holds)
	x.moved = map[string]bool{}
	x.mu.Unlock()
	next := newLayout(v)
	for sliver, h := range holds {
		holds[sliver] = next.put(h)
	}
	stock := &Stock{inv: v, free: make([]atomic.Int32, len(v.Components))}
	for i, c := range v.Components {
		next.refresh(int32(i))
		stock.free[i].Store(next.fits(int32(i), c.SliverTypes[0]))
	}
	next.touched = nil
	drop = func() {
		defer x.preparing.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.moved = nil
	}
	set = func() {
		defer x.preparing.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		for sliver := range x.moved {
			if h, ok := holds[sliver]; ok {
				next.count(h, -1)
				next.refresh(h.at)
				delete(holds, sliver)
			}
			if h, ok := x.holds[sliver]; ok {
				h = next.put(h)
				next.refresh(h.at)
				holds[sliver] = h
			}
		}
		x.layout, x.holds, x.moved = next, holds, nil
		next.withdraw(x.plan, x.now)
		for _, i := range next.touched {
			stock.free[i].Store(next.fits(i, v.Components[i].SliverTypes[0]))
		}
		next.touched = nil
		stock.public.Store(next.network.freePublic())
		x.stock.Store(stock)
		x.version.Add(1)
	}
	return set, drop
}

// put counts what a sliver holds of another layout in this one.
func (x *layout) put(h hold) hold {
	h = x.at(h)
	x.count(h, 1)
	return h
}
