// Package egress gives nodes access to the outside network, and to nothing else of the
// host or its surroundings.
//
// Each testbed has a network namespace of its own for this, the egress namespace:
//
//	node    eth0 100.64.x.y/32 ──┐ a veth pair for each node
//	                             │
//	egress  100.64.0.1: DNS      ├─ filter: own source address only, nothing private,
//	                             │  nothing of the host, limits for each node; NAT
//	                             │ one veth pair, a /30 of its own
//	host    pbo-…  ──────────────┘─ no incoming connections; NAT again, to the outside
//
// Nodes share no network segment: each node's frames end in the egress namespace. The
// address of a node follows from its number, which it keeps for life (see Address).
// There is only IPv4.
//
// All of this is in the kernel and stays when the program ends. The next Router finds it
// and repairs what is missing. Every few seconds the Router checks whether the host's
// addresses, routes and name servers have changed. Only the DNS proxy ends with the
// program. The proxy copies datagrams and streams between nodes and the host's name
// servers without parsing them, with limits for each node and in all. So the proxy needs
// no process of its own.
//
// On the host, the package adds one device and one nftables table, and switches on
// forwarding for outgoing devices where it was off. Remove undoes all of that.
//
// # Decisions
//
//   - name service: it is part of the command "up", because it copies messages without parsing
//     them, and a process of its own would protect nothing: [openNames].
//   - forwarding: it is switched on only for devices that lead outside. The change is recorded
//     first, and the command "clean" undoes it: [Router.forward].
//   - ports: each node has a block of 128 ports, computed from its address, so that the audit
//     needs no line for each connection: [PortBlocks].
//   - fragments: they are limited before conntrack joins them, because fragments wait in memory
//     that counts for no node: [fragmentMemory].
package egress
