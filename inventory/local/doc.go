// Package local holds the settings of the local testbed, and its provider
// executable, which needs no rights. What makes the nodes is in the packages
// below, which only cmd/patchbay-local imports:
//
//	testbed   owns what must outlive a call: nodes, numbers, the gateway ("up")
//	node      makes a node of namespaces, mounts and limits, finds it again, removes it
//	cgroup    limits of processes, memory and time; v1, hybrid, v2
//	image     root file systems
//	agent     PID 1 of a node: starts what logs in
//	setup     inside a node: installs and executes what a request asks for
//	linktest  measures links, from node to node
//	gateway   the SSH server for all nodes
//	fabric    the network of a slice: its links, with their properties
//	vswitch   makes latency and loss where the kernel cannot, in a process without rights
//	egress    the way of nodes to the network outside
//	sandbox   seccomp, capabilities, descriptors
//	hostalloc numbers that are unique on this host
//	doctor    tries what nodes need of this host, and says what to do
//	fdsocket  messages with descriptors over a socket
//
// NAME.yaml may belong to the unprivileged user of the manager although the
// testbed runs as root. So no setting can make root touch a file or run a program:
// there are names, numbers within bounds, and addresses. The one path is that of
// a socket, at which only root or the owner of the file may answer.
//
// # Decisions
//
//   - capacity: four times the memory and the free disk, and 50 places a core, because nodes
//     rarely use all they may: [patchbay/inventory.Host.Slots].
//   - name of an instance: the first label of the authority and four random digits, so that two
//     sites on a host never collide: [SettingsFor].
//   - addresses: local nodes report no host addresses, because clients take the first one for the
//     login: [Settings].
package local
