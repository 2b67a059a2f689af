// Package agent is PID 1 of a node, and the host's client for it. The listening socket is
// created in a folder of the host that the node does not see, so no process in the node can
// connect to it.
// Each connection carries one operation. Programs are started by the agent, inside the
// node, under its limits and seccomp filter: no process enters a node from outside.
//
// The host does not trust the agent's answers: it limits their size, and checks files that
// come with them before use. The agent does not trust the node: in a user's home or at a
// Unix socket it acts with that user's rights (runAs). So a symbolic link there leads it only
// to files that the user may open. Its own rights are those of root of the node.
//
// To start a program, one thread forks a traced child, which stops before its first
// instruction. The child is then moved into the cgroup of the node's jobs and resumed
// (children).
//
// In the node the agent writes
//
//	/etc/hostname                                         the whole file
//	/etc/hosts, /etc/motd, /etc/ssh/ssh_known_hosts       a block between marks
//	/etc/passwd, shadow, group, sudoers.d/90-patchbay     the accounts
//	/var/lib/patchbay/accounts                            accounts of the experiment with their permanent ids
//	~/.ssh/authorized_keys, id_rsa, id_rsa.pub            keys, the first in a block between marks
//
// It writes only changed files, each as a new file that replaces the old one.
//
// The executable also contains several commands of nodes (RunCommand): geni-get and sudo;
// nproc and free, which show the node's limits; reboot, systemctl, mount and others, which
// explain why they do not work. A setuid copy of the executable acts as sudo, whatever its
// file name is.
//
// # Decisions
//
//   - children: the agent stops each before its first instruction, moves it to its control group,
//     and continues it. It does not start a child that it cannot move: [children.start].
//   - former users: their user ids stay reserved forever, so that no later user gets their files:
//     [markRemoved].
//   - signals from inside the node: PID 1 catches or ignores all, also queued ones:
//     [ignoreSignals].
//   - garbage collection: it hardly runs, because the collector needs more memory than an idle
//     node's garbage: [pauseGC].
package agent
