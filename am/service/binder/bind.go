package binder

import (
	"net/netip"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// Binding is the result of Bind: the nodes of the request, in its order, with their
// components and resources.
type Binding struct {
	Nodes []Bound
	names *names // see Takes
}

// names are names of components by URN and by name, VLAN tags, and public addresses.
type names struct {
	components map[string]bool
	tags       map[int]bool
	addresses  map[netip.Addr]bool
}

// Takes reports whether h holds something that the binding has chosen: one of its components, VLAN tags
// or public addresses. If no such hold was added since Bind, the binding is still possible.
func (b *Binding) Takes(h *am.Hold) bool {
	if b.names == nil {
		b.names = &names{map[string]bool{}, map[int]bool{}, map[netip.Addr]bool{}}
		for i := range b.Nodes {
			n := &b.Nodes[i]
			b.names.components[n.Component.URN.Key()], b.names.components[n.Component.Name] = true, true
			b.names.addresses[n.PublicAddress] = n.PublicAddress.IsValid()
			for _, in := range n.Interfaces {
				b.names.tags[in.VLAN] = in.VLAN != 0
			}
		}
	}
	return b.names.components[string(h.Component)] || b.names.components[string(h.ComponentName)] || b.names.addresses[h.PublicAddress] ||
		slices.ContainsFunc(h.Interfaces, func(i am.InterfaceHold) bool { return b.names.tags[i.VLAN] })
}

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
	// Granted has the values of the features that the node requires or prefers.
	Granted []match.Granted
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

// Bind chooses components for all nodes of the request r, and network resources for its links, from
// the time from up to until. A zero until means that no end is known. Bind fails with an
// *UnsatisfiedError, or with the error of the calendar. It reserves nothing: only stored slivers
// hold resources. So call Bind inside the decision of Store.CommitFor that stores the slivers.
func Bind(r *Request, from, until time.Time, v *View) (Binding, error) {
	x, err := v.without(r.Kept).occupy(from, until, am.HashOf(r.Slice))
	if err != nil {
		return Binding{}, err
	}
	r.work = work{limit: maxWork}
	b := newBinding(r, x)
	b.choose(nil)
	if len(b.reasons) > 0 && b.onlyLinks() {
		b = b.tryOtherLinks()
	}
	if len(b.reasons) == 0 {
		b.assignTags()
		b.assignAddresses(r.Addresses)
		b.assignProperties()
		b.assignPublic()
		b.checkKept()
	}
	if len(b.reasons) > 0 {
		return Binding{}, Unsatisfied(b.reasons)
	}
	out := Binding{Nodes: make([]Bound, len(b.nodes))}
	for i := range b.nodes {
		out.Nodes[i] = b.nodes[i].Bound
	}
	return out, nil
}

// newBinding keeps the results in r that depend on the inventory alone, unless the inventory is another one.
func newBinding(r *Request, x *occupancy) *binding {
	if r.inventory != x.inv {
		r.inventory, r.kinds, r.kindFirst, r.matchings = x.inv, nil, nil, map[matchingKey]*matching{}
		r.hasMember, r.listed = map[classKey]bool{}, map[listKey][]option{}
		r.texts, r.compared = map[*rspec.Node]string{}, 0
	}
	return &binding{
		Request:    r,
		x:          x,
		nodes:      make([]node, len(r.Nodes)),
		claims:     make([]claim, len(x.inv.Components)),
		ports:      map[int32]port{},
		candidates: map[demand]*candidates{},
		bases:      map[baseKey]*base{},
		groups:     map[groupKey]*candidates{},
		lists:      map[demand]*lists{},
		removed:    map[*matching]string{},
		classes:    map[classKey]*class{},
		linkSlots:  map[classKey][]int{},
		explained:  map[explainedKey]Reason{},
		forbids:    map[demand]bool{},
		options:    map[optionsKey][]option{},
		work:       &r.work,
		freeTexts:  map[*inventory.SliverType]string{},
	}
}

// choose chooses a component for each node, and physical interfaces for the links. It records a reason for
// each node or link for which there is none, and does not connect links if a node has failed.
// requiredLinks maps the number of a node to the physical link that its component must be on. Other nodes
// may be anywhere.
func (b *binding) choose(requiredLinks map[int]*inventory.Link) {
	b.resolveAll()
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
		if b.connect(&b.wires[i]); b.work.isOver() {
			b.refuseWork(&b.wires[i])
			return
		}
	}
}

func (b *binding) resolveAll() {
	for i := range b.Nodes {
		n := &b.nodes[i]
		n.Node = &b.Nodes[i]
		n.disks = n.Node.Services.DiskSize()
		n.makeInterfaces()
		b.resolve(n)
	}
}

// binding is the state of one Bind, or of one of its tries on other physical links: the choices for the
// request so far, and results that are used again. Bind returns a part of it, the Binding.
type binding struct {
	*Request
	x       *occupancy
	nodes   []node
	wires   []wire
	claims  []claim        // the capacity that this request has taken, by component
	ports   map[int32]port // the capacity that this request has taken, by physical interface
	reasons []Reason
	flawed  bool // a link has a mistake that other components would not solve

	work       *work // of the Request
	candidates map[demand]*candidates
	lists      map[demand]*lists // by demand without traffic
	bases      map[baseKey]*base
	groups     map[groupKey]*candidates
	steps      int // of placement.move in this request

	searches  int                              // the number of calls of suggestName
	freeTexts map[*inventory.SliverType]string // results of freeText
	removed   map[*matching]string             // results of removals
	classes   map[classKey]*class
	linkSlots map[classKey][]int    // results of slotsOnLinks
	closed    map[classKey][]string // results of closedIn
	explained map[explainedKey]Reason
	options   map[optionsKey][]option      // results of optionsFor
	forbids   map[demand]bool              // results of permitPrevents for single nodes
	ofType    map[string][]*inventory.Link // results of Inventory.LinksOfType
	linkByURN map[string]int               // the index in Inventory.Links, by the key of the URN
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
	done       bool   // has a component, or is refused
	refused    bool
	matching   *matching              // of its constraints; nil for none
	options    []option               // its sliver type and image, and those that come after them
	fixed      bool                   // its component must not change any more
	portsAsked []*inventory.Interface // the requested physical interface of each interface; nil for any
	within     *inventory.Link        // physical link that the node must use; nil for any
	disks      int64                  // MiB of the disks that the node gets besides that of its type
	traffic    traffic                // the capacity that the node takes of that link
}

// makeInterfaces sets only the fields of the interfaces that are copied from the request.
func (n *node) makeInterfaces() {
	if len(n.Node.Interfaces) == 0 {
		return
	}
	n.Interfaces = make([]am.Interface, len(n.Node.Interfaces))
	for i := range n.Node.Interfaces {
		in := &n.Node.Interfaces[i]
		n.Interfaces[i] = am.Interface{ClientID: in.ClientID, Addresses: slices.Clone(in.Addresses), Public: in.Public}
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

// want returns the needs of n alone on component i, without the other nodes of its group.
func (n *node) want(c *inventory.Component) want {
	return want{n.amountOn(c), 1, n.alone, n.within, n.traffic}
}

// amountOn returns the amount that n takes on c, which must satisfy its constraints.
func (n *node) amountOn(c *inventory.Component) am.Amount {
	return n.class().needs(c)
}

// assign puts n on component i and counts what n takes there. It does not check whether there is room.
func (b *binding) assign(n *node, i int32) {
	n.Component = b.x.inv.Components[i]
	n.Amount = n.amountOn(n.Component)
	if n.matching != nil {
		n.Granted = n.matching.of(n.Component).grant.Values
	}
	n.Shared = n.alone && !n.Component.Exclusive && b.sharesAll()
	n.Exclusive = n.Component.Exclusive || n.alone && !n.Shared
	n.done = true
	c := b.claims[i]
	c.amount = c.amount.Add(n.Amount)
	c.slivers++
	c.traffic = c.traffic.add(n.traffic.total)
	b.claims[i] = c
}

// unassign undoes assign.
func (b *binding) unassign(n *node) {
	i := int32(n.Component.Index)
	c := b.claims[i]
	c.amount = c.amount.Sub(n.Amount)
	c.slivers--
	c.traffic.out -= n.traffic.total.out
	c.traffic.in -= n.traffic.total.in
	b.claims[i] = c
	n.Component, n.done = nil, false
}

// bindNamed binds the nodes that name a component or a physical interface, and the nodes that
// share a host with such a node.
func (b *binding) bindNamed() {
	hosts := map[string]*inventory.Component{}
	order := make([]*node, 0, len(b.nodes)) // kept nodes first, so that no new node takes what they hold
	for _, isKept := range [...]bool{true, false} {
		for i := range b.nodes {
			if n := &b.nodes[i]; (b.Kept[n.Node.ClientID] != nil) == isKept {
				order = append(order, n)
			}
		}
	}
	for _, n := range order {
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
		b.nodes[i].Asked = b.nodes[i].done // until now, only nodes on requested components are done
	}
}

// bindTo puts n on c, or refuses n. A kept node stays on c without a check of what is free there. If c is
// full, the preferences of a node are left out.
func (b *binding) bindTo(n *node, c *inventory.Component) {
	if b.Kept[n.Node.ClientID] != nil && n.matching.admits(c) {
		b.assign(n, int32(c.Index))
		return
	}
	if !b.Permit.allowsComponent(int32(c.Index)) {
		b.refuse(n, am.Refused, "%s is not available: %s", c.Name, b.Permit.NoComponent)
		return
	}
	if !n.matching.admits(c) {
		b.refuseMismatch(n, c)
		return
	}
	v := b.check(int32(c.Index), n.want(c))
	if v == full && len(n.Node.Prefer) > 0 {
		n.matching = b.requiredOnly(n)
		v = b.check(int32(c.Index), n.want(c))
	}
	if v != fits {
		b.refuseNamed(n, c, v)
		return
	}
	b.assign(n, int32(c.Index))
}

// bindGroups binds the groups of two or more nodes on one host that name no component.
func (b *binding) bindGroups() {
	groups := map[string]colocated{}
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
