// Package testbed is the program behind "patchbay-local up": it owns the nodes of one
// instance. A provider call only saves the desired state. Controllers then reconcile each
// node with it in the background. After a crash of the program, the next program finds the
// running nodes again. After a reboot of the host, the next program starts them again.
//
//	socket ─→ set ─→ record (nodes/ID/node.json) ─→ nodeController: numbers, disk, start,
//	           get ←─ status ←──────────────────── accounts, endpoint, proof of the login
//
// Each node has one nodeController, whose goroutine alone changes the node. It runs a list
// of phases (phases.go), round after round. Each phase compares the desired state with the
// state that it observes, and makes the missing changes. So the program can be killed at any
// time: the next program runs the same phases. The record keeps only decisions that are made
// once (user ids, port, image); everything else is observed.
//
// A phase ends as done, retry (another round follows) or failed. If a phase
// fails three times, the node has failed until its desired state changes or the program is
// started again.
//
// Controllers share the numbers of the host (package hostalloc), the SSH gateway with all
// listeners (package gateway), the outside network (package egress) and the slices. Nodes of
// a slice know each other by name, and share a key and a network of links (package fabric).
// Links are planned from their ends, and created once for all nodes that join the slice at
// the same time.
//
// Package setup runs the requested installs and executes (steps) inside the node, once the logins
// are proven. Package steprunner starts them and keeps their journal, which also has the allowed
// stage; the manager reads it from there.
//
// The folder State, which only root can use:
//
//	lock              held while the program runs; contains its process id
//	nodes/ID/         created and removed by package node; node.json, host_key, setup.json and journal.json are of this package
//	slices/HASH       the key of an experiment
//	endpoints/HASH.json  an SSH endpoint for another provider's node
//	fabrics/          the networks of slices, of package fabric
//	outbound/         the outside network, of package egress; outbound.json is its number on this host
//	gateway.json      port and user id of the gateway
//	gateway_key       its host key
//	images/           of package image
//	sysctl.json       former limits of the kernel, of package sysctl
//
// The socket's client is the manager, an unprivileged user. It is not trusted: names, texts,
// counts and sizes are bounded, its input does not become a path (except a node's id, a UUID),
// and only root gets a connection to an agent.
//
// # Decisions
//
//   - crash: the record of a node is on the disk before set answers; everything else is found
//     again and completed: [Testbed.set].
//   - failure of a running node: a node never fails because it is slow or a peer is missing. The
//     next "patchbay-local up" tries a failed node once more: [nodeController.handleFailure].
//   - PID 1 that ends: it is started again, but when it has ended more than three times in five
//     minutes, the node has failed: [maxDeaths].
//   - removed accounts and keys: the gateway refuses them before the node is asked to remove
//     them, because the removed user may control the node: [nodeController.revokeAccess].
//   - names of peers: the addresses on the first common links, one of each family, else an address of
//     127.64.0.0/16, where the gateway answers: [peerFiles].
//   - key of the experiment: RSA 2048 in PEM, as scripts expect. Only the endpoints inside nodes
//     of its slice accept it: [experimentKey]. It is replaced on all nodes when a user has lost
//     access to a node, since that user may have a copy: [slice.replaceKey].
//   - full disk: no node is created while less than a GiB, or a twentieth of a small disk, is free:
//     [errNoDisk].
//   - delay of links: they are created 25 ms after the last node has joined, so that each link is
//     created once for all nodes of a request: [linkDelay].
package testbed
