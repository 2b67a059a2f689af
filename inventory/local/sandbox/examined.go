package sandbox

import "golang.org/x/sys/unix"

// newSpaces are the flags of clone that make name spaces. The flag for a time
// name space is none of them: clone takes that bit for the signal's.
const newSpaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// examined are the calls that nodes may make depending on the arguments. clone3
// is not among them: its flags lie in memory, which a filter cannot see, so it
// does not exist, and the C library falls back on clone.
func examined() []rule {
	return []rule{
		{unix.SYS_CLONE, argument(0, branch(ifAnyBit, newSpaces, refuse(unix.EPERM), allow()))},
		{unix.SYS_IOCTL, argument(1, oneOf([]uint32{
			unix.TIOCSTI,   // types for who watches the terminal
			unix.TIOCLINUX, // the same, at the console
			unix.TIOCSETD,  // would bring line disciplines into the kernel
		}, refuse(unix.EPERM), allow()))},
		{unix.SYS_PERSONALITY, argument(0, oneOf([]uint32{
			personalityAsk,
			personalityLinux,
			personalityLinux32,
			personalityRelease26,
			personalityLinux32 | personalityRelease26,
			personalityFixed, // debuggers
			personalityFixed | personalityLinux32,
		}, allow(), refuse(unix.EPERM)))},
		// Its own limits only: with those of PID 1, root could make the node
		// one that nobody can log in to. Threads of PID 1 have other numbers.
		{unix.SYS_PRLIMIT64, argument(0, branch(ifEqual, 0, allow(), refuse(unix.EPERM)))},
		{unix.SYS_SOCKET, argument(0,
			// AF_VSOCK, for one, has no name space: it leads to the hypervisor.
			branch(ifEqual, unix.AF_NETLINK, argument(2, netlink()),
				oneOf([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_PACKET},
					allow(), refuse(unix.EAFNOSUPPORT))))},
		{unix.SYS_SOCKETPAIR, argument(0,
			branch(ifEqual, unix.AF_UNIX, allow(), refuse(unix.EAFNOSUPPORT)))},
	}
}

// netlink judges the protocol. For audit this answer is the one by which
// libaudit sees that there is none, and programs go on.
func netlink() block {
	return oneOf([]uint32{
		unix.NETLINK_ROUTE,
		unix.NETLINK_SOCK_DIAG,
		unix.NETLINK_NETFILTER,
		unix.NETLINK_KOBJECT_UEVENT,
		unix.NETLINK_GENERIC,
	}, allow(), refuse(unix.EPROTONOSUPPORT))
}

// Values of personality (linux/personality.h) that change nothing for anybody
// else. Those that open memory to execution or map page zero are not here.
const (
	personalityAsk       = 0xffffffff
	personalityLinux     = 0
	personalityLinux32   = 0x0008
	personalityRelease26 = 0x0020000
	personalityFixed     = 0x0040000 // addresses that are not random
)

// nodeFilter is the filter of nodes.
func nodeFilter() block {
	rules := append(same(allow(), allowed, allowedHere()),
		same(refuse(unix.EPERM), forbidden(), forbiddenHere())...)
	return filter(append(rules, examined()...), refuse(unix.ENOSYS))
}
