// Package agent is PID 1 of a node, and how the host speaks with it. Its
// listening socket was made on the host before the node's root was, so nothing
// inside the node can reach it. Each connection carries one operation. What the
// agent starts is born inside the node, under its limits and its seccomp
// filter: nobody ever enters a node from outside.
//
// The host takes the agent's answers as hostile: they are bounded, and the
// files that come with them are looked at before they are used. The agent takes
// the node as hostile: what it does for a user, in a home or at a Unix socket,
// it does with that user's rights (as), so that no link leads it further than
// the user could go. It has no more rights than root of the node has.
//
// Started is a program as follows: one thread forks it, as a traced child, so
// that it stops before its first instruction; then it is put into the group of
// the node's jobs and let go (children).
//
// In the node the agent writes
//
//	/etc/hostname                                         whole
//	/etc/hosts, /etc/motd, /etc/ssh/ssh_known_hosts       between marks
//	/etc/passwd, shadow, group, sudoers.d/90-patchbay     the accounts
//	/var/lib/patchbay/accounts                            which are ours, and their ids for good
//	~/.ssh/authorized_keys, id_rsa, id_rsa.pub            keys, the first between marks
//
// each by a new file that replaces the old one, and only where something differs.
//
// The program is also several commands of nodes (RunCommand): geni-get and sudo; nproc and
// free, which show the node's figures; reboot, systemctl, mount and others, which say why
// they cannot work. Sudo is a setuid copy of the program, which is sudo by any name.
//
// # Decisions
//
//   - children: traced, stopped before the first instruction, placed in their group and released;
//     one that cannot be placed is not started: [children.start].
//   - former members: keep their user id forever, so that no later user gets their files:
//     [forget].
//   - signals from inside a node to PID 1: all caught or ignored, queued ones too: [withstand].
//   - garbage collection: nearly off; the collector's own memory costs more than an idle node's
//     garbage: [pauseCollector].
package agent
