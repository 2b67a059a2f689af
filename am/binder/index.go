package binder

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// Index knows what is free, from the records of slivers: it observes the
// store. Bind sees everything staged; Free, FreePublicAddresses and Version only
// what is published. All methods may be called at the same time.
type Index struct {
	mu      sync.RWMutex // guards all but the atomics
	inv     *inventory.Inventory
	classes map[classKey]*class
	places  [][]place // where each component stands in its classes
	usage   []usage   // of each component
	network network
	holds   map[string]hold
	slices  map[string]map[int32]share // slice → component → its part
	undo    []change                   // since the last Publish or Rollback
	touched []int32                    // components, since then; some twice

	free    atomic.Pointer[[]atomic.Int32]
	public  atomic.Int64 // free public addresses
	version atomic.Uint64
}

// place is a component's position among the members of a class.
type place struct {
	class    *class
	at       int
	cleaning bool // counted in class.cleaning
}

// hold is what one sliver takes of a component.
type hold struct {
	component urn.URN
	at        int32 // the component's index, -1 if the inventory no longer has it
	slice     string
	amount    am.Amount
	exclusive bool
	cleaning  bool // released; its component is being cleaned
	network   *networkHold
}

// same tells whether two holds take the same.
func (h hold) same(o hold) bool {
	alike := h.network.same(o.network)
	h.network, o.network = nil, nil
	return alike && h == o
}

// usage is what all slivers of one component take of it together.
type usage struct {
	used      am.Amount
	slivers   int32
	exclusive int32 // slivers that close the component to other slices
	cleaning  part  // of these, what is released
}

type part struct {
	amount             am.Amount
	slivers, exclusive int32
}

// share is what one slice has on one component.
type share struct{ slivers, exclusive, cleaning, cleaningExclusive int32 }

// change is an entry of the undo log: what a sliver held before.
type change struct {
	sliver string
	before hold
	held   bool
}

// NewIndex makes an index of an inventory on which nothing is held. Register
// it with store.Store.Observe to fill it.
func NewIndex(v *inventory.Inventory) *Index {
	x := &Index{holds: map[string]hold{}}
	x.SetInventory(v)
	return x
}

// SetInventory changes to another inventory. Slivers keep what they hold;
// those on components that v does not have hold nothing until one comes back.
func (x *Index) SetInventory(v *inventory.Inventory) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inv = v
	x.usage = make([]usage, len(v.Components))
	x.network = newNetwork(v)
	x.slices = map[string]map[int32]share{}
	x.arrange()
	for sliver, h := range x.holds {
		h.at = x.find(h.component)
		x.holds[sliver] = h
		x.count(h, 1)
	}
	free := make([]atomic.Int32, len(v.Components))
	for i := range x.usage {
		x.refresh(int32(i))
		free[i].Store(x.fits(int32(i), v.Components[i].SliverTypes[0]))
	}
	x.touched = nil
	x.free.Store(&free)
	x.public.Store(x.network.freePublic())
	x.version.Add(1)
}

// Inventory is the one that the index is of.
func (x *Index) Inventory() *inventory.Inventory {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.inv
}

// arrange sorts the components into classes.
func (x *Index) arrange() {
	x.classes = map[classKey]*class{}
	x.places = make([][]place, len(x.inv.Components))
	for i, c := range x.inv.Components {
		places := make([]place, 0, len(c.SliverTypes)*(1+len(c.HardwareTypes)))
		for _, t := range c.SliverTypes {
			places = x.enterAll(places, c, classKey{sliverType: t})
			for j, h := range c.HardwareTypes {
				if !slices.Contains(c.HardwareTypes[:j], h) {
					places = x.enterAll(places, c, classKey{sliverType: t, hardware: h})
				}
			}
		}
		x.places[i] = places
	}
	for _, c := range x.classes {
		c.plant()
	}
}

// enterAll makes a component a member of the class of k, and of that class on
// each physical link it can use.
func (x *Index) enterAll(places []place, c *inventory.Component, k classKey) []place {
	places = append(places, x.enter(c, k))
	for j, i := range c.Interfaces {
		if !i.Carries() || onLink(c.Interfaces[:j], i.Link) {
			continue
		}
		k.link = i.Link
		places = append(places, x.enter(c, k))
	}
	return places
}

// enter makes a component the last member of a class.
func (x *Index) enter(c *inventory.Component, k classKey) place {
	cl := x.classes[k]
	if cl == nil {
		cl = &class{sliverType: k.sliverType}
		x.classes[k] = cl
	}
	cl.members = append(cl.members, int32(c.Index))
	if c.Exclusive {
		cl.exclusive++
	}
	if !c.Drained {
		cl.serving++
	}
	return place{class: cl, at: len(cl.members) - 1}
}

func (x *Index) find(u urn.URN) int32 {
	if c, ok := x.inv.Component(u); ok {
		return int32(c.Index)
	}
	return -1
}

// Stage takes over the slivers of a change set. A sliver that is unallocated
// still holds its component, which is being cleaned, until its record is
// deleted.
func (x *Index) Stage(cs store.ChangeSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range cs.Delete {
		if k.Kind == store.Slivers {
			x.hold(k.ID, hold{}, false)
		}
	}
	for _, r := range cs.Put {
		if s, ok := r.Value.(am.Sliver); ok {
			x.hold(r.Key.ID, hold{
				component: s.Component,
				slice:     s.Slice.Key(),
				amount:    s.Amount,
				exclusive: s.Exclusive,
				cleaning:  s.Status.Allocation == am.Unallocated,
				network:   x.networkOf(&s),
			}, true)
		}
	}
}

// Publish makes what was staged lasting and visible.
func (x *Index) Publish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.settle()
}

// Rollback forgets what was staged.
func (x *Index) Rollback() {
	x.mu.Lock()
	defer x.mu.Unlock()
	undo := x.undo
	for _, c := range slices.Backward(undo) {
		x.hold(c.sliver, c.before, c.held)
	}
	x.settle()
}

func (x *Index) settle() {
	free, changed := *x.free.Load(), false
	for _, i := range x.touched {
		n := x.fits(i, x.inv.Components[i].SliverTypes[0])
		changed = free[i].Swap(n) != n || changed
	}
	public := x.network.freePublic()
	changed = x.public.Swap(public) != public || changed
	if changed {
		x.version.Add(1)
	}
	x.undo, x.touched = nil, nil
}

// Free is how many slivers of its first sliver type would fit on component i
// of the inventory now, whoever asks: 0 if it is held exclusively, being
// cleaned, or drained.
func (x *Index) Free(i int) int {
	free := *x.free.Load()
	if i < 0 || i >= len(free) {
		return 0
	}
	return int(free[i].Load())
}

// FreePublicAddresses is how many public addresses no sliver has now.
func (x *Index) FreePublicAddresses() int { return int(x.public.Load()) }

// Version grows whenever an answer of Free or FreePublicAddresses may have
// changed.
func (x *Index) Version() uint64 { return x.version.Load() }

// hold notes what a sliver holds from now on, if held, and how to undo that.
// Where the component stands is found anew: what is undone may be older than
// the inventory.
func (x *Index) hold(sliver string, h hold, held bool) {
	before, ok := x.holds[sliver]
	if !ok && !held {
		return
	}
	if held {
		if h.at = x.find(h.component); h.at >= 0 {
			h.component = x.inv.Components[h.at].URN // share its text
		}
		if ok && h.same(before) {
			return
		}
	}
	x.undo = append(x.undo, change{sliver, before, ok})
	if ok {
		delete(x.holds, sliver)
		x.count(before, -1)
		x.refresh(before.at)
	}
	if held {
		x.holds[sliver] = h
		x.count(h, 1)
		x.refresh(h.at)
	}
}

// count adds what h holds to, or takes it from, its component and slice.
func (x *Index) count(h hold, sign int32) {
	x.network.count(x.inv, h.network, sign)
	if h.at < 0 {
		return
	}
	u := &x.usage[h.at]
	mine := x.slices[h.slice]
	if mine == nil {
		mine = map[int32]share{}
		x.slices[h.slice] = mine
	}
	m := mine[h.at]
	amount := h.amount
	if sign < 0 {
		amount = am.Amount{}.Sub(amount)
	}
	exclusive := int32(0)
	if h.exclusive {
		exclusive = sign
	}
	u.used = u.used.Add(amount)
	u.slivers += sign
	u.exclusive += exclusive
	m.slivers += sign
	m.exclusive += exclusive
	if h.cleaning {
		u.cleaning.amount = u.cleaning.amount.Add(amount)
		u.cleaning.slivers += sign
		u.cleaning.exclusive += exclusive
		m.cleaning += sign
		m.cleaningExclusive += exclusive
	}
	if mine[h.at] = m; m.slivers == 0 {
		if delete(mine, h.at); len(mine) == 0 {
			delete(x.slices, h.slice)
		}
	}
}

// refresh brings the classes of component i up to date.
func (x *Index) refresh(i int32) {
	if i < 0 {
		return
	}
	x.touched = append(x.touched, i)
	c, u := x.inv.Components[i], &x.usage[i]
	for j := range x.places[i] {
		p := &x.places[i][j]
		kind := &p.class.empty
		switch {
		case c.Exclusive:
			kind = &p.class.lone
		case u.slivers > 0:
			kind = &p.class.open
		}
		p.class.set(p.at, kind, x.fits(i, p.class.sliverType))
		cleaning := u.slivers > 0 && u.slivers == u.cleaning.slivers && !c.Drained
		if cleaning != p.cleaning {
			p.cleaning = cleaning
			if cleaning {
				p.class.cleaning++
			} else {
				p.class.cleaning--
			}
		}
	}
}

// fits is how many slivers of type t any slice could have on component i.
func (x *Index) fits(i int32, t *inventory.SliverType) int32 {
	c, u := x.inv.Components[i], &x.usage[i]
	switch {
	case c.Drained, u.exclusive > 0, c.Exclusive && u.slivers > 0:
		return 0
	case c.Exclusive:
		return 1
	}
	return int32(am.Fits(c.Capacity, u.used, t.Needs, math.MaxInt32))
}
