// Package lxd is the provider for LXD and Incus clusters: it makes nodes as containers and links as
// bridges, by the REST API alone.
//
// Each call of the provider is a short process. A set writes the requested nodes into files and
// answers; the worker, one process for a provider, then carries them out and ends when nothing is
// left. A get starts the worker if there is work and no worker, so either may be killed at any time.
//
//	set ──> NAME.nodes/ID.json ──> worker ──> REST API ──> instance pb-ID
//	get <── the file, and the keys user.patchbay.* of the instance
//
// The file of a node exists only until the cluster has the node as requested. Everything else is
// found again in the cluster: [instance.node] returns the request, and [instance.facts] the choices
// for it. Instances without these keys are not ours, and nothing here touches them.
//
// The worker looks at the instance and takes the next step towards what is requested, whatever
// state it is in: [worker.approach]. An operation counts when its end was seen. An instance that has
// never run is half-made unless it has the key user.patchbay.made, and is made anew.
//
// Nodes are copies of templates: stopped instances with an image and this executable
// ([worker.template]). The provider runs the executable in the node, to set accounts, addresses and
// host keys (package inside) and to run the steps of a setup (package setup). The journal of the steps
// is in the instance's configuration: [setupNode].
//
// # One node, from a set to the login
//
// After each step it says what follows if the process is killed there.
//
//   - [Run] is NAME.prov, with the rights of the AM's user. It writes NAME.nodes/ID.json, then answers.
//     The file exists or not, and the AM calls again.
//   - [Work] is the worker, one for a provider. It looks at the instance and takes the next step. The
//     next call starts another worker.
//   - [worker.create] makes LXD copy the member's template: a stopped instance with the image, the
//     program and its boot service ([worker.template]). An instance that has never run is made anew.
//   - [worker.configure] starts the node, and runs the program inside with the configuration as its
//     input. It is done again, since the file of the first step still exists.
//   - Main of package inside, in the node, writes accounts, host keys and addresses before the SSH
//     server starts, and waits for it. It is done again.
//   - [worker.adjust] records in the instance what differs, which ends the work. It is done again.
//   - [worker.runSteps] runs the steps of the setup, after [worker.awaitPeers]. Each step is in the
//     instance's configuration before it begins. It continues in the node.
//
// # Decisions
//
//   - links: a link takes a bridge from a pool, because the cluster makes and removes networks only
//     while all members are up: [worker.chooseBridges].
//   - names: a node learns the names of later ones on its links by a request of the worker for
//     itself, which does not show: [worker.refreshPeers]. The steps of a new node begin after that:
//     [worker.awaitPeers].
//   - capacity: the receiving ends are limited, since limits of the sending end need tc police,
//     which kernels may lack: [worker.limitLinks].
//   - latency and loss: nodes delay their own frames, on members whose kernel has netem, because the
//     cluster has no such device: [ends.check].
//   - services: AppArmor refuses mounts that many services ask for, so nodes have a drop-in for all
//     services, see DropIn in package inside: [worker.template].
//   - tunnels: members take VXLAN frames from everybody, so the nodes' network has an ACL:
//     [keepNodesOffTunnels].
//   - hardware addresses and host keys follow from the node's name and the site's secret, so that
//     they stay when a node gets a new disk: [program.hostKeys], [hardwareAddress].
//   - the program in a node reads and writes streams, and ends with them. LXD can also record the output
//     and push and read files, but it records without a limit, so that root of a node could fill the
//     member's disk, and each file costs a process of LXD: [client.exec].
//   - a node stays on its member when that is evacuated, since its component and its port are the
//     member's: the key cluster.evacuate in [worker.config].
//   - the server's certificate is compared whole: a cluster has a self-signed one, and an authority
//     would add nothing: [newClient].
package lxd
