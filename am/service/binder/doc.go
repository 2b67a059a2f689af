// Package binder chooses components for the nodes of a request, or explains why
// none fits. The choice depends only on the request, the interval, the inventory, the
// operators' plan, and what slivers hold in the interval. Its cost grows with the inventory, with
// the number of slivers, and with the request. It also assigns network resources to links:
// physical interfaces, VLANs and addresses.
//
//	inventory, plan, calendar of the store ──> View ──> Availability
//	                                             │
//	Request, interval ─────────────────────────> Bind ──> Binding, or *UnsatisfiedError
//
// Bind reads the whole calendar, and adds up what slivers hold in the interval. Of a shared
// component or a physical interface it then takes the most that is held at one time. It sorts the
// components on which a node fits, counts its own choices, and changes nothing. The store's
// calendar has the new slivers when they are stored.
//
// The rules, in the order of Bind:
//
//   - Nodes that ask for a component come first, then groups that share a host
//     (colocate), then nodes that ask for a hardware type, then nodes with
//     exclusive="true", then the rest; in each, the order of the request. All nodes
//     are bound, or none.
//   - An exclusive component holds one sliver. A shared one holds as many as fit.
//   - If inventory.ExclusiveOnShared is Share, a node with exclusive="true" may share a
//     shared component, and then Bound.Shared is true. Else it needs a component that no
//     other slice uses, and closes it to others. If such a node names no component, it
//     gets an exclusive component first, then a shared one that only its own slice uses,
//     then an empty one.
//   - Any other node gets a shared component first: one that only its own slice
//     uses, then any in use, then an empty one; then an exclusive component. So
//     hosts fill up before others are opened.
//   - A node with constraints gets the first sliver type and image that satisfy them and that are
//     free: the default ones, other images of the default type, then other types in the order of the
//     inventory. A type or image that the node names stays. Other nodes get the default ones.
//   - For a node with constraints, the components with the highest score come first, whatever
//     their kind. Among equals, the one that exceeds the constraints least is taken, then the
//     first in the inventory.
//   - If no component is left for a node, nodes that name none move to other components. Then
//     each of them gets its best component that leaves room for all others.
//   - A sliver whose lease has ended holds its component until its record is deleted.
//   - A released sliver holds its component until it is clean. A node that names the
//     component is refused with BUSY; other nodes skip it.
//   - Components that the Permit of a caller excludes are skipped. A request that names
//     one, or for which only these have room, is refused with the text of the Permit.
//   - A drained component takes no new slivers, nor does one that is under maintenance when the
//     interval begins. A node that names it is refused, with the end of the maintenance; other
//     nodes skip it.
//
// The rules for links, if the inventory lists physical interfaces for all chosen components:
//
//   - A property takes outgoing capacity of the physical interface at its source, and incoming
//     capacity of that at its destination. If several properties of one link leave an
//     interface, or arrive there, only the largest counts; different links add up. A property
//     between an interface and all others takes capacity of that interface only. Traffic
//     inside one component and tunnels take nothing. If components are not wired, the provider
//     decides.
//   - One physical link must join all wired ends. Bind prefers the one whose interfaces carry
//     the fewest links, then the one with the most free capacity, then the first. An interface
//     of the request may name its physical interface.
//   - If there is no such link, the nodes that name no component are tried together
//     on other physical links, a few times at most.
//   - A link over a physical link gets the first free tag of the site's VLANs, and no
//     other link gets it. A shared VLAN is on every physical link.
//   - A link that joins one of the slice gets its physical link, tag and network. Its existing ends do
//     not change.
//   - A node that exists already (Request.Kept) stays on its component. Its interfaces keep their
//     addresses, physical interfaces and VLANs on the same links. Everything that it takes counts
//     anew, so that a higher capacity of a link needs room.
//   - An interface without address gets the lowest free address of its link's
//     network; a link without addresses gets the lowest network, /24 or larger,
//     that its slice does not use.
//   - A released sliver also holds its network resources until it is clean.
//
// If the inventory has changed since a sliver was reserved, the sliver holds the component of its
// URN, or else the one with the same name at its provider. Its amounts count against the present
// capacity.
//
// The package never reads the store, a clock or a provider. Callers pass the calendar and the time
// in the View.
//
// # Decisions
//
//   - no index: Bind reads what slivers hold from the calendar of the store. An index in memory
//     would have to follow each change of the store, the inventory and the plan: [View].
//   - future slivers: what is held is the most at any time in the interval. The sum of all slivers
//     would refuse requests for which there is room: [peaks].
//   - tags and public addresses: one is free only if no sliver holds it at any time in the
//     interval, because a link or node keeps its own for the whole lease: [pool].
//   - searches for a time with room: counts of the slivers that fit exclude most times, because to bind the request at each
//     takes too long: [Counter].
//   - nodes without room: other nodes move, so that a request is not refused only because of its
//     order. The number of steps is limited, because requests may be hostile: [placement],
//     [maxSteps].
//   - requests of parts that all differ: each part is compared with the whole inventory. So the
//     comparisons are counted, and a request with too many is refused: [work].
//   - constraints: they are compared once for each kind of component, and not again when a request is bound
//     again: [Request].
//   - bindings that take long: they are made on a view. They stay possible while no other sliver takes one of
//     their components, tags or addresses: [Binding.Takes].
//   - equally good components: the first in the inventory is taken, whatever its component_id. The
//     operator decides the order, and pc2 comes before pc10. If the interval begins later, the one is taken that is free first, so
//     that few of those who hold components now find a reservation in the way of a renewal: [run].
//   - shared hosts: preferences that take too much are left out until all nodes are bound, and then
//     count again in the order of the request: [placement].
//   - preferences for another image or type: they count before the order of the inventory, because
//     a component cannot satisfy them otherwise: [option].
//   - constraints that nothing satisfies: TOOBIG, because another site, or this one later, may
//     have such components. A named component that does not satisfy them is UNSUPPORTED: [matching].
//   - order of nodes: bound, colocated, with a hardware type, alone, all others. The most
//     constrained nodes choose first: [Bind].
//   - order of hosts: those that the slice uses, then other used ones, then empty ones. So empty
//     hosts remain for exclusive nodes: [ownHosts].
//   - links that do not fit: Bind tries up to 16 other placements of the nodes that name no
//     component, and 2 for requests of 10,000 nodes, to limit the time: [maxTries].
//   - capacity of a link: the records of the slivers at its ends hold it, because a record of the
//     link could disagree with them: [patchbay/am.InterfaceHold].
//   - property between an interface and all others of its link: it takes capacity of that
//     interface only, because the shares of the others are unknown: [qualities].
//   - choice of a physical link: it must join all wired ends. Interfaces with the fewest links
//     come first, then those with the most free capacity: [route].
//   - VLAN tags: a tag is unique in the site. A shared VLAN is refused while a link has its tag,
//     which can happen after a change of the inventory: [pool].
//   - joining a link without a physical link from another component: it is refused, because the ends
//     that exist would need interfaces and a tag: [wire].
//   - assigned addresses: they come from the link's first IPv4 network, else from the lowest
//     network that the slice does not use: [networks].
//   - time until a component is clean: messages show the inventory's estimate, because the binder
//     has no clock: [cleaning].
package binder
