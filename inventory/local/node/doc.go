// Package node makes a node: its disk, its name spaces, its root file system,
// its limits, with the agent as PID 1. It finds nodes again after the program
// that made them died, and removes them wholly.
//
// # From Start to the agent
//
//	Start  makes the groups and the agent's socket, and runs this program again as
//	outer  in a mount name space of its own, born in the node's group. It waits
//	       for its order; the end of the pipe instead means that its maker is
//	       dead, and then it ends. It checks and mounts the disk, starts
//	inner  in new user, pid, net, uts and ipc name spaces, mounts the image below
//	       the disk, mapped to the node's ids and read-only, and hands on the order.
//	inner  takes a mount name space too, mounts /dev, /run, /proc and /sys, makes
//	       the node's root its own, gives up its rights and becomes the agent.
//
// Whatever goes wrong, the stages say it over a pipe, and Start tells it. All
// mounts are in the name spaces of the node, and what is mounted is assembled
// on a tmpfs there, so the host never sees any of it, and nothing below a
// node's folder is ever the place of a mount.
//
// # What the agent inherits
//
//	descriptor 3    the listening socket State/nodes/ID/agent.sock
//	PATCHBAY_NODE   the node's id
//	PATCHBAY_JOBS   descriptors, with commas between: the id of a new process
//	                written to each moves it to the group of jobs (cgroup.Tree.Jobs)
//
// # What root of a node may set and read
//
// /proc/sys is read-only, except for the node's own network (net) and the limits of
// messages, semaphores and shared memory (fs/mqueue; msg*, sem, shm* of kernel).
// In net those are read-only that bound memory which the kernel does not count for
// the node: fragments, queues of neighbours (which netlink can still change),
// TIME_WAIT, caches of routes. What bounds a single socket, such as somaxconn, can
// be set: the node's memory bounds the number of sockets, and tcp_mem of the host
// bounds what waits in connections that no program has accepted. Only optmem_max
// cannot, since nothing needs more.
// nf_hooks_lwtunnel is read-only because it is one for all networks of the host.
//
// Below /usr of the host a node reads what every user of the host may read. In /sys
// it finds processors, memory nodes and network devices, but no other device.
//
// # On the host
//
//	State/nodes/ID    disk.img, agent.sock, run.json, log; 0700
//	State/trash       folders of nodes that are being removed
//	State/disks       formatted disks, one per size, to be copied
//	State/assembly    the empty folder over which stages mount their tmpfs
//	State/program     copies of this program, as nodes see it; one is setuid root
//
// # Decisions
//
//   - the host's /usr: below an overlay mounted by the user nobody, so that the kernel shows only
//     what every user may read: [asNobody].
//   - whether a disk is in use: the lock of the open file, which the loop device keeps:
//     [AttachLoop].
//   - journal of a disk: 4 MB, because without one a power cut can leave it beyond repair:
//     [Host.Format].
//   - a node out of memory that only rereads its programs: its largest process is killed, since
//     the kernel took up to 91 s: [Host.Relieve].
//   - sysctls: read-only, except the node's own network and IPC; thresholds of memory are
//     read-only: [writableSysctls].
package node
