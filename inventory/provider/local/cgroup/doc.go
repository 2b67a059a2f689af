// Package cgroup limits nodes on cgroup v1, hybrid and v2, and kills their
// processes. It finds each of the controllers cpu, memory and pids where it is
// mounted.
//
//	patchbay-local                      all nodes, with limits that leave memory for the host
//	patchbay-local/INSTANCE/ID          a node, with its limits
//	patchbay-local/INSTANCE/ID/init     PID 1
//	patchbay-local/INSTANCE/ID/jobs     all other processes, with a lower limit on their number
//
//	patchbay-local-programs/INSTANCE/ID a program of the testbed that is no node
//
// So logins still work in a node that has reached its limit of processes, and are
// fast in a busy node, because init has a higher CPU weight than jobs. A hierarchy
// without the controllers pids and cpu has no groups init and jobs.
//
// A hierarchy of version 2 is always used, even without controllers, because only there
// can a group be killed as a whole, and a process be started inside a group.
//
// A file cgroup.procs or tasks that was opened here can be written to inside a
// node's user namespace: the kernel checks the rights of the opener, and reads the
// process id in the writer's namespace. So PID 1 of a node, which sees no
// cgroup file system, moves its children through such a file.
//
// # Decisions
//
//   - control groups: processes start in their group, because moving one takes up to 15 ms:
//     [Tree.Start].
//   - reserved processes: some are kept for PID 1 and logins, so that a user can clear a full
//     node: [Tree.Jobs].
//   - limits of all nodes together: 7/8 of the memory and 3/4 of the processes, so that the kernel
//     ends a node before a program of the host: [limitAll].
package cgroup
