// Package testbed is the program behind "patchbay-local up": it owns the nodes
// of one instance. What a provider call asks for is written down first and then
// made true, node by node, in the background. After any crash or boot the program finds
// out again which nodes run.
//
//	socket ─→ set ─→ record (nodes/ID/node.json) ─→ life: claims, disk, start,
//	           get ←─ what the life says ←─────────  accounts, doors, proof of the login
//
// Each node has one goroutine, its life, which alone changes anything about it. A
// life goes through a list of phases (phases.go), round after round. Each phase
// compares what is asked with what is, and does what is missing, so it does not
// matter when the program is killed: the next one goes through the same phases.
// Only the record's fields that are settled once (user ids, port, image) are kept;
// everything else is looked up.
//
// A phase is done, or it asks for another round later (retry), or it has failed. A
// node of which a phase fails three times has failed, until something else is asked.
//
// The lives share the numbers of the host (package hostalloc), the gateway with all
// listeners (package gateway), the way outside (package egress), and the slices,
// whose nodes know each other by name and have a key and a network of links
// (package fabric) in common. Links are drawn from what their ends say, and made
// once for all nodes that come or leave together.
//
// What a request wants installed and executed (steps) is done by package setup
// inside the node, one after the other, once its logins are proven. A goroutine
// beside the life asks for it and notes what came of it in a journal: a step is
// noted as running before it is begun, and one that the node said has begun is
// only waited for, so that a step is done once whatever is killed.
//
// The folder State, root's alone:
//
//	lock              held while the program runs; says which process it is
//	nodes/ID/         made and removed by package node; node.json, host_key, setup.json and services.json are ours
//	slices/HASH       the key of an experiment
//	doors/HASH.json   a door of another provider's node
//	fabrics/          the networks of slices, package fabric's
//	outbound/         the way outside, package egress's; outbound.json is its number on this host
//	gateway.json      port and user id of the gateway
//	gateway_key       its host key
//	images/           package image
//	sysctl.json       what the kernel's limits were, package sysctl's
//
// The socket's client is the manager, an unprivileged user. It is taken as
// hostile: names, texts, counts and sizes are bounded, nothing of it becomes a
// path, and only root gets the connection to an agent.
//
// # Decisions
//
//   - what survives a crash: the record of a node, on the disk before set answers; everything else
//     is read again and completed: [Testbed.set].
//   - when a running node is given up: never for slowness or for its peers' sake; a failed one is
//     tried once more by the next up: [nodeController.handleFailure].
//   - PID 1 that ends: started again three times in five minutes, then failed: [maxDeaths].
//   - withdrawn accounts and keys: closed at the gateway before anything is done in the node,
//     which may be the withdrawn user's: [nodeController.revokeAccess].
//   - names of peers: the address on the first common link, else one of 127.64.0.0/16, where the
//     gateway answers: [peer].
//   - the experiment's key: RSA 2048 in PEM, as scripts expect; opens only endpoints inside nodes
//     of its slice: [experimentKey].
//   - installs: 10 min each, and none begins after 30 min, because the manager gives up after an
//     hour: [installsTime].
//   - a full disk: no node is made with the last GiB or twentieth of the disk: [errNoDisk].
//   - when links are made: 25 ms after the last node arrived, so that a batch makes each link
//     once: [linkDelay].
package testbed
