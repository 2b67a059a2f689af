// Package local holds the settings of the local testbed, and its provider executable,
// which needs no rights.
//
// These packages make the nodes; only cmd/patchbay-local imports them:
//
//	testbed   runs "up": keeps the nodes, their numbers and the gateway between calls
//	node      creates a node from namespaces, mounts and limits; finds and removes it
//	cgroup    limits of processes, memory and CPU; cgroup v1, hybrid, v2
//	image     root file systems
//	agent     PID 1 of a node: starts the users' sessions and commands
//	setup     inside a node: runs the install and execute steps of a request
//	linktest  measures links between nodes, with ping and iperf3
//	gateway   the SSH server of all nodes
//	fabric    the network of a slice: its links, with their properties
//	vswitch   latency and loss where the kernel cannot make them, in a process without rights
//	egress    access of nodes to the outside network
//	sandbox   seccomp, capabilities, descriptors
//	hostalloc numbers that are unique on this host
//	doctor    tests what nodes need of this host, with remedies
//
// NAME.yaml may belong to the unprivileged user of the manager, although the testbed
// runs as root. So no setting can make root open a file or run a program: settings are
// names, numbers within limits, and addresses. The only path is manifest_socket; the
// process that answers at this socket must run as root or as the owner of NAME.yaml. The
// program in the metadata is for the site, which checks who may name it.
//
// # Decisions
//
//   - capacity: four times the host's memory and free disk are allocated, and 50 nodes for each
//     core, because nodes rarely use all that they are allowed to: [patchbay/inventory.Host.Slots].
//   - name of an instance: the first label of the authority and four random digits, so that two
//     sites on a host never collide: [SettingsFor].
//   - addresses: local nodes report no host addresses, because clients take the first one for the
//     login: [Settings].
package local
