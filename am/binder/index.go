package binder

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// Index computes the free capacity of a site from the records of slivers, as an Observer of
// the store. Bind sees staged changes; Availability, Free, FreePublicAddresses and Version see
// only published changes. All methods may be called concurrently.
type Index struct {
	mu sync.RWMutex // guards all but the atomics
	*layout
	holds   map[string]hold
	changed map[string]bool // slivers whose holds have changed since Prepare began; nil if no layout is being prepared
	undo    []change        // since the last Publish or Rollback
	plan    *maintenance.Plan
	now     time.Time // the time for which plan was applied last

	preparing sync.Mutex // one layout at a time
	available atomic.Pointer[Availability]
	version   atomic.Uint64
	stable    atomic.Pointer[stablePeriod] // the period around now in which the plan changes nothing
}

// place is the position of a component among the members of a class.
type place struct {
	class    *class
	at       int
	cleaning bool // counted in class.cleaning
	serving  bool // counted in class.serving
	away     bool // counted in class.away
}

// hold is the part of a component and of the network that one sliver holds.
type hold struct {
	component urn.URN
	name      string // the component's name at its provider
	provider  string
	at        int32 // the component's index, -1 if the inventory no longer has it
	slice     string
	amount    am.Amount
	exclusive bool
	cleaning  bool // released; its component is being cleaned
	network   *networkHold
}

func (h hold) equal(o hold) bool {
	alike := h.network.equal(o.network)
	h.network, o.network = nil, nil
	return alike && h == o
}

type usage struct {
	used      am.Amount
	slivers   int32
	exclusive int32 // slivers that close the component to other slices
	cleaning  part  // the part of the usage that is released and being cleaned
}

// part is the usage of those slivers of a component that are being cleaned.
type part struct {
	amount             am.Amount
	slivers, exclusive int32
}

type share struct{ slivers, exclusive, cleaning, cleaningExclusive int32 }

// change is an entry of the undo log: the previous hold of a sliver.
type change struct {
	sliver string
	before hold
	held   bool
}

// NewIndex returns an index of an inventory on which nothing is held. Register it with
// store.Store.Observe to fill it.
func NewIndex(v *inventory.Inventory) *Index {
	x := &Index{holds: map[string]hold{}}
	x.stable.Store(&stablePeriod{})
	x.SetInventory(v)
	return x
}

// Stage applies the slivers of a change set. A sliver that is unallocated still holds
// its component, which is being cleaned, until its record is deleted.
func (x *Index) Stage(cs store.ChangeSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range cs.Delete {
		if k.Kind == store.Slivers {
			x.setHold(k.ID, hold{}, false)
		}
	}
	for _, r := range cs.Put {
		if s, ok := r.Value.(am.Sliver); ok {
			x.setHold(r.Key.ID, hold{
				component: s.Component, name: s.ComponentName, provider: s.Provider,
				slice:     s.Slice.Key(),
				amount:    s.Amount,
				exclusive: s.Exclusive,
				cleaning:  s.Status.Allocation == am.Unallocated,
				network:   x.networkOf(&s),
			}, true)
		}
	}
}

// Publish makes staged changes permanent and visible.
func (x *Index) Publish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.publishTouched()
}

// Rollback undoes staged changes.
func (x *Index) Rollback() {
	x.mu.Lock()
	defer x.mu.Unlock()
	undo := x.undo
	for _, c := range slices.Backward(undo) {
		x.setHold(c.sliver, c.before, c.held)
	}
	x.publishTouched()
}

func (x *Index) publishTouched() {
	numbers, changed := x.available.Load(), false
	for _, i := range x.touched {
		n := x.slotsFor(i, x.inv.Components[i].SliverTypes[0])
		changed = numbers.free[i].Swap(n) != n || changed
	}
	public := x.network.freePublic()
	changed = numbers.public.Swap(public) != public || changed
	if changed {
		x.version.Add(1)
	}
	x.undo, x.touched = nil, nil
}

// setHold records that the sliver holds nothing if exists is false. The previous hold goes
// to the undo log. The component of h is looked up again, because a hold that Rollback
// restores may be older than the inventory.
func (x *Index) setHold(sliver string, h hold, exists bool) {
	before, ok := x.holds[sliver]
	if !ok && !exists {
		return
	}
	if x.changed != nil {
		x.changed[sliver] = true
	}
	if exists {
		h = x.locate(h)
		if ok && h.equal(before) {
			return
		}
	}
	x.undo = append(x.undo, change{sliver, before, ok})
	if ok {
		delete(x.holds, sliver)
		x.count(before, -1)
		x.refresh(before.at)
	}
	if exists {
		x.holds[sliver] = h
		x.count(h, 1)
		x.refresh(h.at)
	}
}
