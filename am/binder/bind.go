package binder

import (
	"net/netip"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Binding says which component serves each node of a request, in its order.
type Binding struct{ Nodes []Bound }

// Bound is a node and what it gets.
type Bound struct {
	Node       *rspec.Node
	Component  *inventory.Component
	SliverType *inventory.SliverType
	// Image is the inventory's name of the disk image; empty if the sliver type
	// has none.
	Image string
	// Exclusive says that no other slice may be on the component.
	Exclusive bool
	// Amount is what the sliver takes of the component.
	Amount am.Amount
	// Interfaces are what the node's interfaces get, in its order.
	Interfaces []am.Interface
	// PublicAddress is one of the site's public addresses; zero for none.
	PublicAddress netip.Addr
}

// Bind chooses components for all own nodes of r on behalf of slice. The error
// is an *UnsatisfiedError. Nothing is taken: x learns of the slivers from the
// store, so Bind belongs inside the decision that puts them.
func Bind(r *rspec.Request, x *Index, slice urn.URN) (Binding, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	b := &binding{
		x:       x,
		mine:    x.slices[slice.Key()],
		nodes:   make([]node, len(r.Nodes)),
		claims:  map[int32]claim{},
		cursors: map[search]int{},
		said:    map[*inventory.SliverType]string{},
	}
	for i := range r.Nodes {
		b.nodes[i].Node = &r.Nodes[i]
		b.resolve(&b.nodes[i])
	}
	b.bindBound()
	b.bindGroups()
	b.bindFree()
	if len(b.reasons) > 0 {
		sortReasons(b.reasons)
		return Binding{}, &UnsatisfiedError{b.reasons}
	}
	out := Binding{make([]Bound, len(b.nodes))}
	for i := range b.nodes {
		out.Nodes[i] = b.nodes[i].Bound
	}
	return out, nil
}

// binding is one Bind under way.
type binding struct {
	x       *Index
	mine    map[int32]share // what the slice has already
	own     []int32         // see alreadyOwn
	nodes   []node
	claims  map[int32]claim // what this request has taken, by component
	cursors map[search]int
	reasons []Reason

	searches int                              // for names like a wrong one
	said     map[*inventory.SliverType]string // answers of elsewhere
}

// claim is what the request has taken of a component.
type claim struct {
	amount  am.Amount
	slivers int32
}

// node is a node of the request on its way.
type node struct {
	Bound
	hardware string // "" for any
	alone    bool   // exclusive="true"
	done     bool   // bound, or refused with a reason
}

// want is what a node, or a group of nodes on one host, takes together.
type want struct {
	amount am.Amount
	nodes  int32
	alone  bool
}

func (n *node) want() want { return want{n.Amount, 1, n.alone} }

// take gives component i to n.
func (b *binding) take(n *node, i int32) {
	n.Component = b.x.inv.Components[i]
	n.Exclusive = n.alone || n.Component.Exclusive
	n.done = true
	c := b.claims[i]
	c.amount = c.amount.Add(n.Amount)
	c.slivers++
	b.claims[i] = c
}

// bindBound serves the nodes that name a component, and those that share a
// host with one of them.
func (b *binding) bindBound() {
	hosts := map[string]*inventory.Component{}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.done || n.Component == nil {
			continue
		}
		if g := n.Node.Colocate; g != "" {
			if host := hosts[g]; host == nil {
				hosts[g] = n.Component
			} else if host != n.Component {
				b.refuse(n, am.BadArgs, "it shares a host with the others of colocate %.80q, which are bound to %s; bind it there, too", g, host.Name)
				continue
			}
		}
		b.bindTo(n, n.Component)
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if host := hosts[n.Node.Colocate]; !n.done && host != nil {
			b.choose(n, host)
			if !n.done {
				b.bindTo(n, host)
			}
		}
	}
}

// bindTo gives component c to n, or refuses with the reason.
func (b *binding) bindTo(n *node, c *inventory.Component) {
	if v := b.room(int32(c.Index), n.want()); v != fits {
		b.refuseBound(n, c, v)
		return
	}
	b.take(n, int32(c.Index))
}

// bindGroups finds a host for each group of nodes that share one.
func (b *binding) bindGroups() {
	groups := map[string][]*node{}
	var order []string
	for i := range b.nodes {
		n := &b.nodes[i]
		if g := n.Node.Colocate; g != "" && !n.done {
			if groups[g] == nil {
				order = append(order, g)
			}
			groups[g] = append(groups[g], n)
		}
	}
	for _, g := range order {
		if members := groups[g]; len(members) > 1 {
			b.bindGroup(g, members)
		}
	}
}

// bindFree serves what is left, the most particular first.
func (b *binding) bindFree() {
	for rank := range 3 {
		for i := range b.nodes {
			n := &b.nodes[i]
			if n.done || n.rank() != rank {
				continue
			}
			if i := b.pick(n); i >= 0 {
				b.take(n, i)
			}
		}
	}
}

func (n *node) rank() int {
	switch {
	case n.hardware != "":
		return 0
	case n.alone:
		return 1
	}
	return 2
}
