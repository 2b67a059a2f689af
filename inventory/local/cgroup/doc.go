// Package cgroup limits nodes on cgroup v1, hybrid and v2, and kills their
// processes. Which of them it is, the mounts tell: each of the controllers cpu,
// memory and pids is used where it is mounted.
//
//	patchbay-local                      all nodes, with limits that leave the host room
//	patchbay-local/INSTANCE/ID          all of a node, with its limits
//	patchbay-local/INSTANCE/ID/init     PID 1
//	patchbay-local/INSTANCE/ID/jobs     all else, with fewer processes allowed
//
//	patchbay-local-programs/INSTANCE/ID a program of the testbed that is no node
//
// so that a node full of processes still takes logins, and one full of work
// takes them soon: init gets its turn on a processor before jobs. A hierarchy
// with neither controller, pids nor cpu, has no use for init and jobs, and there
// they are missing.
//
// Every hierarchy of version 2 is used, also one without controllers: it kills
// a group as a whole, and a process can be born in it.
//
// A file cgroup.procs or tasks that was opened here can be written to inside a
// node's user name space: the kernel asks what the opener may do, and takes the
// process id in the writer's name space. So PID 1 of a node, which sees no
// cgroup file system, moves its children through such a file.
//
// # Decisions
//
//   - control groups: processes start in their group, because a move takes up to 15 ms:
//     [Tree.Start].
//   - reserved processes: some are kept for PID 1 and logins, so that a user can clear a full
//     node: [Tree.Jobs].
//   - limits of all nodes together: 7/8 of the memory and 3/4 of the processes, so that the kernel
//     ends a node before a program of the host: [bound].
package cgroup
