package sandbox

import "golang.org/x/sys/unix"

// newSpaces are the flags of clone that create namespaces. CLONE_NEWTIME is missing,
// because clone uses that bit for the signal at the end of the child.
const newSpaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// examined returns the rules for calls that nodes may make with some arguments only.
// clone3 is missing, because its flags are in memory, which a filter cannot read. So
// clone3 fails with ENOSYS, and the C library falls back to clone.
func examined() []rule {
	return []rule{
		{unix.SYS_CLONE, argument(0, branch(ifAnyBit, newSpaces, refuse(unix.EPERM), allow()))},
		{unix.SYS_IOCTL, argument(1, oneOf([]uint32{
			unix.TIOCSTI,   // inserts input into a terminal
			unix.TIOCLINUX, // the same, at the console
			unix.TIOCSETD,  // would load line disciplines into the kernel
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
		// A process may change only its own limits (pid 0). If root of the node could change
		// those of PID 1, it could make logins to the node impossible.
		{unix.SYS_PRLIMIT64, argument(0, branch(ifEqual, 0, allow(), refuse(unix.EPERM)))},
		{unix.SYS_SOCKET, argument(0,
			// Other families are refused. For example, AF_VSOCK has no namespace and leads to
			// the hypervisor.
			branch(ifEqual, unix.AF_NETLINK, argument(2, netlink()),
				oneOf([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_PACKET},
					allow(), refuse(unix.EAFNOSUPPORT))))},
		{unix.SYS_SOCKETPAIR, argument(0,
			branch(ifEqual, unix.AF_UNIX, allow(), refuse(unix.EAFNOSUPPORT)))},
	}
}

// netlink refuses some protocols with EPROTONOSUPPORT. With this error, libaudit assumes a
// kernel without audit, and programs continue.
func netlink() block {
	return oneOf([]uint32{
		unix.NETLINK_ROUTE,
		unix.NETLINK_SOCK_DIAG,
		unix.NETLINK_NETFILTER,
		unix.NETLINK_KOBJECT_UEVENT,
		unix.NETLINK_GENERIC,
	}, allow(), refuse(unix.EPROTONOSUPPORT))
}

// Values of personality (linux/personality.h) that affect no other process. Those that
// make memory executable or map page zero are missing.
const (
	personalityAsk       = 0xffffffff
	personalityLinux     = 0
	personalityLinux32   = 0x0008
	personalityRelease26 = 0x0020000
	personalityFixed     = 0x0040000 // no address randomization
)

func nodeFilter() block {
	rules := append(rulesFor(allow(), allowed, allowedHere()),
		rulesFor(refuse(unix.EPERM), forbidden(), forbiddenHere())...)
	return filter(append(rules, examined()...), refuse(unix.ENOSYS))
}
