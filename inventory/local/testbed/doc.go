// Package testbed is the program behind "patchbay-local up": it owns the nodes of one
// instance. A provider call only saves the desired state. Controllers then reconcile each
// node with it in the background. After a crash or a reboot, the next program finds the
// running nodes again.
//
//	socket ─→ set ─→ record (nodes/ID/node.json) ─→ nodeController: numbers, disk, start,
//	           get ←─ status ←──────────────────── accounts, endpoint, proof of the login
//
// Each node has one nodeController, whose goroutine alone changes the node. It runs a list
// of phases (phases.go), round after round. Each phase compares the desired state with what
// exists, and does what is missing. So the program can be killed at any time: the next one
// runs the same phases. The record keeps only what is decided once (user ids, port, image);
// everything else is observed.
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
// Package setup runs the requested installs and executes (steps) inside the node, one after
// the other, once the logins are proven. A stepRunner starts them and records the results in
// a journal: a step is recorded as running before it is started, and once the node has
// confirmed the start, it is only waited for. So each step runs once, whatever is killed.
//
// The folder State, which only root can use:
//
//	lock              held while the program runs; contains its process id
//	nodes/ID/         created and removed by package node; node.json, host_key, setup.json and services.json are of this package
//	slices/HASH       the key of an experiment
//	doors/HASH.json   an SSH endpoint for another provider's node
//	fabrics/          the networks of slices, of package fabric
//	outbound/         the outside network, of package egress; outbound.json is its number on this host
//	gateway.json      port and user id of the gateway
//	gateway_key       its host key
//	images/           of package image
//	sysctl.json       former limits of the kernel, of package sysctl
//
// The socket's client is the manager, an unprivileged user. It is not trusted: names, texts,
// counts and sizes are bounded, none of its input becomes a path, and only root gets a
// connection to an agent.
//
// # Decisions
//
//   - crash: the record of a node is on the disk before set answers; everything else is found
//     again and completed: [Testbed.set].
//   - failure of a running node: slowness and missing peers never fail it. The next
//     "patchbay-local up" tries a failed node once more: [nodeController.handleFailure].
//   - PID 1 that ends: it is started again, but when it has ended more than three times in five
//     minutes, the node has failed: [maxDeaths].
//   - removed accounts and keys: the gateway refuses them before the node is asked to remove
//     them, because the removed user may control the node: [nodeController.revokeAccess].
//   - names of peers: the address on the first common link, else an address of 127.64.0.0/16,
//     where the gateway answers: [peer].
//   - key of the experiment: RSA 2048 in PEM, as scripts expect. It opens only endpoints inside
//     nodes of its slice: [experimentKey].
//   - time of installs: 10 minutes each, and none begins after 30 minutes, because the manager
//     gives up after an hour: [installsTime].
//   - full disk: no node is made that would need the last GiB, or the last twentieth, of the disk:
//     [errNoDisk].
//   - delay of links: they are made 25 ms after the last node arrived, so that a batch makes each
//     link once: [linkDelay].
package testbed
