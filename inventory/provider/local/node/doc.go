// Package node creates a node: its disk, namespaces, root file system and limits, with the
// agent as PID 1. It finds running nodes again after a restart of the program, and removes
// nodes completely.
//
// # From Start to the agent
//
//	Start  creates the cgroups and the agent's socket. It starts this executable as the
//	       stage outer, in a new mount namespace and in the node's cgroup.
//	outer  waits for its input on a pipe, and ends if the pipe ends, since then its parent
//	       is dead. It checks the disk and starts the stage inner in new user, pid, net,
//	       uts and ipc namespaces. Then it mounts the disk as an overlay above the image,
//	       which is read-only and mapped to the node's ids, and passes the input to inner.
//	inner  creates its own mount namespace, mounts /dev, /run, /proc and /sys, changes to
//	       the node's root, drops its rights and executes the agent.
//
// The stages report errors over a pipe, and Start returns them. All mounts are in the
// namespaces of the node, assembled on a tmpfs. So the host sees none of them, and nothing
// is ever mounted below a node's folder.
//
// # Descriptors and environment of the agent
//
//	descriptor 3    the listening socket State/nodes/ID/agent.sock
//	PATCHBAY_NODE   the node's id
//	PATCHBAY_JOBS   comma-separated descriptors: writing the id of a new process to each
//	                moves it into the cgroup of jobs (cgroup.Tree.Jobs)
//
// # What root of a node may set and read
//
// /proc/sys is read-only, except for the node's own network (net) and the limits of
// messages, semaphores and shared memory (fs/mqueue; msg*, sem, shm* of kernel).
// Some files of net are read-only because they bound memory that the kernel does not charge
// to the node: fragments, neighbour queues (which netlink can still change), TIME_WAIT
// sockets, route caches. Limits of a single socket, such as somaxconn, are writable: the
// node's memory bounds the number of sockets, and tcp_mem of the host bounds the data of
// connections that no program has accepted. optmem_max is read-only since no program needs
// more. nf_hooks_lwtunnel is read-only because it applies to all networks of the host.
//
// In the host's /usr a node can read the files that every user of the host can read. In /sys
// it sees processors, memory nodes and network devices, but no other devices.
//
// # On the host
//
//	State/nodes/ID    disk.img, data-N.img, agent.sock, run.json, log; 0700
//	State/trash       folders of nodes that are being removed
//	State/disks       formatted disks, one per size, to be copied
//	State/assembly    the empty folder on which stages mount their tmpfs
//	State/program     copies of this executable for nodes; one is setuid root
//
// # Decisions
//
//   - /usr of the host: an overlay that is mounted as the user nobody shows it. So a node can read
//     only the files that every user may read: [mountAsNobody].
//   - disk in use: its file is locked as long as a loop device has it open, so no list of loop
//     devices has to be searched: [AttachLoop].
//   - other disks: each is a file with ext4 as well, formatted by the host, and mounted in the node
//     without following links of the node: [mountDisks].
//   - journal of a disk: 4 MB, because without a journal a power cut can leave the disk beyond
//     repair: [Host.Format].
//   - thrashing node: the testbed kills its largest process, because the kernel took up to
//     91 s to do so:
//     [Host.KillThrashing].
//   - sysctls: only those of the node's own network and IPC are writable, except for those
//     that bound memory which the kernel does not charge to the node: [writableSysctls].
package node
