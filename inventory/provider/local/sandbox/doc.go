// Package sandbox drops rights of the running process: capabilities, system calls,
// descriptors and limits. It is Linux only, for amd64 and arm64.
//
// System calls are filtered by allow-lists. The lists of names are shared
// (calls.go, forbidden.go), the numbers are those of golang.org/x/sys/unix, and
// each architecture adds its own calls (arch_*.go). The calls of a node:
//
//	listed as allowed     is allowed
//	listed as examined    depends on its arguments (examined.go)
//	listed as forbidden   EPERM, as the kernel answers callers without rights
//	anything else         ENOSYS, as if the kernel were older; programs fall back
//	another architecture  kills the process, because its numbers mean other calls
//
// The gateway and the vswitch may make only a few of the calls that nodes may make
// (servercalls.go). Their other calls fail with EPERM. The kernel kills these processes if
// they make a call that is forbidden in nodes, or exec or ptrace.
//
// A test compares the lists with all numbers that golang.org/x/sys/unix has. It fails
// until each new call is in a list.
//
// # Decisions
//
//   - system calls of nodes: an allow-list. Forbidden ones get EPERM and unknown ones ENOSYS,
//     which libraries handle: [allowed].
//   - capabilities of a node's root: 14. SYS_PTRACE is not one of them, because root could control
//     PID 1 with it: [capabilities].
//   - packet sockets: allowed with their rings, because libpcap needs them, although their memory
//     is not charged to the node: [nodeFilter].
package sandbox
