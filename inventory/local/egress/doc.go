// Package egress gives nodes access to the network outside, and to nothing else of
// the host or its surroundings. Each instance has a network namespace of its own
// for it, the exit, which belongs to nobody's node:
//
//	node  eth0 100.64.x.y/32 ──┐ a pair of devices for each node
//	                           │
//	exit  100.64.0.1: names    ├─ filter: own source address only, nothing private,
//	                           │  nothing of the host, bounds for each node; NAT
//	                           │ one pair of devices, a /30 that nobody else has
//	host  pbo-…  ──────────────┘─ nothing comes in, NAT again, to the outside
//
// NodeNetwork share no wire: each frame of one ends in the exit. Its address follows
// from a number that is its own for its life (see Address). IPv4 only: there is
// no IPv6 in the exit.
//
// All of it is in the kernel and outlives the program; the Router of the next one
// finds it, mends what is missing, and looks every few seconds whether the
// addresses of the host, its way out and its name servers have changed. Only the
// relay of questions for names ends with the program: it copies datagrams and
// streams between nodes and the servers of the host without reading them, within
// bounds for each node and in all, so that it needs no process of its own.
//
// What is changed of the host is one device, one nftables table, and forwarding
// of the devices that lead outside where that was off; what Remove undoes.
//
// # Decisions
//
//   - name service: it is part of up, because it copies messages without parsing them, and a
//     process of its own would protect nothing: [openNames].
//   - forwarding: it is switched on only for devices that lead outside. The change is recorded
//     first, and clean undoes it: [Router.forward].
//   - ports: each node has a block of 128 ports, computed from its address, so that the audit
//     needs no line for each connection: [PortBlocks].
//   - fragments: they are limited before conntrack joins them, because they wait in memory that no
//     node pays for: [fragmentMemory].
package egress
