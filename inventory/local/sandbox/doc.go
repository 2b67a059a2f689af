// Package sandbox drops rights of the running process: capabilities, system calls,
// descriptors and limits. It is Linux only, for amd64 and arm64.
//
// System calls are filtered by allow-lists. The lists of names are shared
// (calls.go, forbidden.go), the numbers are those of golang.org/x/sys/unix, and
// each architecture adds what only it has (arch_*.go). What a node may call:
//
//	listed as allowed     goes through
//	listed as examined    goes through or not, by its arguments (examined.go)
//	listed as forbidden   EPERM: the kernel would answer so to who has no rights
//	anything else         ENOSYS: as if the kernel were older; programs fall back
//	another architecture  the process is killed: the lists are of numbers, and
//	                      its numbers mean other calls
//
// The lists of the gateway and of the vswitch (servercalls.go) are
// short parts of the nodes'; there the rest is EPERM, what is forbidden in nodes
// kills, and so do exec and ptrace.
//
// A test holds the lists against all numbers that golang.org/x/sys/unix knows,
// so that a new call is a decision and not an accident.
//
// # Decisions
//
//   - system calls of nodes: an allow-list. Forbidden ones get EPERM and unknown ones ENOSYS,
//     which libraries handle: [allowed].
//   - capabilities of a node's root: 14. SYS_PTRACE is none of them, because it would open PID 1:
//     [capabilities].
//   - packet sockets: allowed with their rings, because libpcap needs them, although no node pays
//     for their memory: [nodeFilter].
package sandbox
