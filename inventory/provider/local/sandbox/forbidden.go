package sandbox

import "golang.org/x/sys/unix"

// forbidden returns the calls that fail with EPERM in nodes, although the kernel has them.
// Each call reaches the host, or a part of the kernel that nodes do not need and that
// often has vulnerabilities.
func forbidden() []uint32 {
	return []uint32{
		// Mounts, and a root other than the node's; chroot is allowed.
		unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT,
		unix.SYS_FSOPEN,
		unix.SYS_FSPICK,
		unix.SYS_MOUNT,
		unix.SYS_MOUNT_SETATTR,
		unix.SYS_MOVE_MOUNT,
		unix.SYS_OPEN_TREE,
		unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_PIVOT_ROOT,
		unix.SYS_UMOUNT2,

		// Namespaces: a new user namespace would restore all capabilities.
		unix.SYS_SETNS,
		unix.SYS_UNSHARE,

		// Files by handle instead of by name, also outside of the root.
		unix.SYS_OPEN_BY_HANDLE_AT,
		// Watches of whole file systems.
		unix.SYS_FANOTIFY_INIT,
		unix.SYS_FANOTIFY_MARK,

		// Keys have no namespace that would isolate them.
		unix.SYS_ADD_KEY,
		unix.SYS_KEYCTL,
		unix.SYS_REQUEST_KEY,

		// The kernel's own programs, rings, events, page faults.
		unix.SYS_BPF,
		unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER,
		unix.SYS_IO_URING_SETUP,
		unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_USERFAULTFD,

		// The kernel's code.
		unix.SYS_DELETE_MODULE,
		unix.SYS_FINIT_MODULE,
		unix.SYS_INIT_MODULE,
		unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_KEXEC_LOAD,

		// The host: its power, swap, accounts, quotas, clock, log, terminals.
		unix.SYS_ACCT,
		unix.SYS_ADJTIMEX,
		unix.SYS_CLOCK_ADJTIME,
		unix.SYS_CLOCK_SETTIME,
		unix.SYS_QUOTACTL,
		unix.SYS_QUOTACTL_FD,
		unix.SYS_REBOOT,
		unix.SYS_SETTIMEOFDAY,
		unix.SYS_SWAPOFF,
		unix.SYS_SWAPON,
		unix.SYS_SYSLOG,
		unix.SYS_VHANGUP,

		// The testbed sets the name of a node.
		unix.SYS_SETDOMAINNAME,
		unix.SYS_SETHOSTNAME,
	}
}
