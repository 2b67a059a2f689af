package binder

import (
	"net/netip"
	"slices"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// Binding is the result of Bind: the nodes of the request, in its order, with their
// components and resources.
type Binding struct{ Nodes []Bound }

// Bound is a node with its component and the resources that the node gets.
type Bound struct {
	Node       *rspec.Node
	Component  *inventory.Component
	SliverType *inventory.SliverType
	// Image is the inventory's name of the disk image; empty if the sliver type
	// has none.
	Image string
	// Exclusive means that no other slice may be on the component.
	Exclusive bool
	// Shared means that the node shares a component that the request wants exclusively
	// (inventory.Share).
	Shared bool
	// Amount is the amount of the component's resources that the sliver takes.
	Amount am.Amount
	// Interfaces are the network resources of the node's interfaces, in the same order.
	Interfaces []am.Interface
	// PublicAddress is one of the site's public addresses; zero for none.
	PublicAddress netip.Addr
	// Asked means that the request allows no other component. The node, or a node on the
	// same host, names this component or one of the component's interfaces.
	Asked bool
}

// Bind chooses components for all nodes of the request r, and network resources for its
// links. existing contains the addresses that the slice already has, with their networks.
// Bind fails with an *UnsatisfiedError. It reserves nothing: only stored slivers hold
// resources. So call Bind inside the decision of Store.Commit that stores the slivers.
func Bind(r *rspec.Request, x *Index, slice urn.URN, existing ...netip.Prefix) (Binding, error) {
	return BindAvoiding(nil, r, x, slice, existing...)
}

// BindAvoiding does what Bind does, but chooses none of the components in avoid, whose providers have
// refused slivers. A node that names such a component still gets it.
func BindAvoiding(avoid []*inventory.Component, r *rspec.Request, x *Index, slice urn.URN, existing ...netip.Prefix) (Binding, error) {
	return Permit{}.Bind(avoid, r, x, slice, existing...)
}

// Bind does what BindAvoiding does, with only the components and sliver types that p permits.
func (p Permit) Bind(avoid []*inventory.Component, r *rspec.Request, x *Index, slice urn.URN, existing ...netip.Prefix) (Binding, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	b := newBinding(r, x, slice, p, avoid)
	b.choose(nil)
	if len(b.reasons) > 0 && b.onlyLinks() {
		b = b.tryOtherLinks()
	}
	if len(b.reasons) == 0 {
		b.assignTags()
		b.assignAddresses(existing)
		b.assignProperties()
		b.assignPublic()
	}
	if len(b.reasons) > 0 {
		return Binding{}, Unsatisfied(b.reasons)
	}
	out := Binding{make([]Bound, len(b.nodes))}
	for i := range b.nodes {
		out.Nodes[i] = b.nodes[i].Bound
		out.Nodes[i].Asked = b.nodes[i].bound
	}
	return out, nil
}

func newBinding(r *rspec.Request, x *Index, slice urn.URN, p Permit, avoid []*inventory.Component) *binding {
	return &binding{
		permit:    p,
		avoid:     avoid,
		x:         x,
		request:   r,
		slice:     slice,
		mine:      x.slices[slice.Key()],
		nodes:     make([]node, len(r.Nodes)),
		claims:    map[int32]claim{},
		ports:     map[int32]port{},
		cursors:   map[search]int{},
		freeTexts: map[*inventory.SliverType]string{},

		awayCache: map[*class]*maintenance.Window{},
	}
}

// choose records a reason if there is no component for a node, or no physical interface for
// a link. requiredLinks maps the number of a node to the physical link that its component
// must be on. Other nodes may be anywhere.
func (b *binding) choose(requiredLinks map[int]*inventory.Link) {
	for i := range b.request.Nodes {
		n := &b.nodes[i]
		n.Node = &b.request.Nodes[i]
		n.makeInterfaces()
		b.resolve(n)
	}
	b.readWires()
	b.restrict(requiredLinks)
	b.bindNamed()
	b.bindGroups()
	b.bindFree()
	for i := range b.nodes {
		if n := &b.nodes[i]; n.Component != nil && n.done {
			b.choosePorts(n)
		}
	}
	if len(b.reasons) > 0 {
		return
	}
	for i := range b.wires {
		b.connect(&b.wires[i])
	}
}

type binding struct {
	x       *Index
	request *rspec.Request
	slice   urn.URN
	permit  Permit
	avoid   []*inventory.Component
	mine    map[int32]share // the slivers that the slice already has, by component
	own     []int32         // result of ownComponents
	nodes   []node
	wires   []wire
	claims  map[int32]claim // the capacity that this request has taken, by component
	ports   map[int32]port  // the capacity that this request has taken, by physical interface
	cursors map[search]int  // where each search continues
	barred  map[search]bool // results of forbidden
	reasons []Reason
	flawed  bool // the request has a mistake in a link

	searches  int                              // the number of calls of suggestName
	freeTexts map[*inventory.SliverType]string // results of freeText
	awayCache map[*class]*maintenance.Window   // results of maintenanceOf
	closed    map[*class][]string              // results of closedIn
}

// claim counts the capacity of a component that the request has taken so far.
type claim struct {
	amount  am.Amount
	slivers int32
	traffic amount // the traffic of nodes that have a required physical link
}

type node struct {
	Bound
	hardware   string // "" for any
	alone      bool   // exclusive="true"
	bound      bool   // the request determines its component
	done       bool   // has a component, or is refused
	refused    bool
	portsAsked []*inventory.Interface // the requested physical interface of each interface; nil for any
	within     *inventory.Link        // physical link that the node must use; nil for any
	traffic    traffic                // the capacity that the node takes of that link
}

// makeInterfaces sets only the names and addresses of the interfaces.
func (n *node) makeInterfaces() {
	if len(n.Node.Interfaces) == 0 {
		return
	}
	n.Interfaces = make([]am.Interface, len(n.Node.Interfaces))
	for i := range n.Node.Interfaces {
		in := &n.Node.Interfaces[i]
		n.Interfaces[i] = am.Interface{ClientID: in.ClientID, Addresses: slices.Clone(in.Addresses)}
	}
}

// want is the capacity that a node, or a group of nodes on one host, needs.
type want struct {
	amount am.Amount
	nodes  int32
	alone  bool
	within *inventory.Link
	traffic
}

// want returns the needs of n alone, without the other nodes of its group.
func (n *node) want() want { return want{n.Amount, 1, n.alone, n.within, n.traffic} }

func (b *binding) assign(n *node, i int32) {
	n.Component = b.x.inv.Components[i]
	n.Shared = n.alone && !n.Component.Exclusive && b.sharesAll()
	n.Exclusive = n.Component.Exclusive || n.alone && !n.Shared
	n.done = true
	c := b.claims[i]
	c.amount = c.amount.Add(n.Amount)
	c.slivers++
	c.traffic = c.traffic.add(n.traffic.total)
	b.claims[i] = c
}

// bindNamed binds the nodes that name a component or a physical interface, and the nodes that
// share a host with such a node.
func (b *binding) bindNamed() {
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
				b.refuse(n, am.BadArgs, "all nodes with colocate %.80q share one host, and an earlier one names %s; name the same component, or drop colocate", g, host.Name)
				continue
			}
		}
		b.bindTo(n, n.Component)
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if host := hosts[n.Node.Colocate]; !n.done && host != nil {
			b.setTypeAndImage(n, host)
			if !n.done {
				b.bindTo(n, host)
			}
		}
	}
	for i := range b.nodes {
		b.nodes[i].bound = b.nodes[i].done
	}
}

func (b *binding) bindTo(n *node, c *inventory.Component) {
	if !b.permit.component(int32(c.Index)) {
		b.refuse(n, am.Refused, "%s is not available: %s", c.Name, b.permit.NoComponent)
		return
	}
	if v := b.check(int32(c.Index), n.want()); v != fits {
		b.refuseNamed(n, c, v)
		return
	}
	b.assign(n, int32(c.Index))
}

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

// bindFree binds the nodes with the most requirements first.
func (b *binding) bindFree() {
	for rank := range 3 {
		for i := range b.nodes {
			n := &b.nodes[i]
			if n.done || n.rank() != rank {
				continue
			}
			if i := b.pick(n); i >= 0 {
				b.assign(n, i)
			}
		}
	}
}

// rank orders nodes for bindFree: lower ranks have more requirements.
func (n *node) rank() int {
	switch {
	case n.hardware != "":
		return 0
	case n.alone:
		return 1
	}
	return 2
}
