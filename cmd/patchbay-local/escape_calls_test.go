package main

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// texts keeps the arguments of calls alive.
var texts []*byte

// text returns a pointer to a text, as an argument of a call.
func text(s string) uintptr {
	b := &append([]byte(s), 0)[0]
	texts = append(texts, b)
	return uintptr(unsafe.Pointer(b))
}

const here = ^uintptr(99) // AT_FDCWD

// callAttempts returns system calls that reach the host. With these arguments they would
// fail, or do nothing, if they were allowed.
func callAttempts() []attempt {
	var all []attempt
	add := func(what, must string, tries map[string]func() string) {
		for _, how := range sortedKeys(tries) {
			all = append(all, attempt{what: what, how: how, must: must, try: tries[how]})
		}
	}
	one := func(number uintptr, args ...uintptr) func() string {
		return func() string { return raw(number, args...) }
	}

	all = append(all,
		attempt{"sockets", "every family 0 to 45, every kind", "UNIX INET INET6 NETLINK PACKET", 0, families},
		attempt{"sockets", "every family, as an account", "UNIX INET INET6 NETLINK", alice, families},
		attempt{"sockets", "AF_VSOCK", "EAFNOSUPPORT", 0, one(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		attempt{"sockets", "AF_VSOCK with bits above the 32 that count", "EAFNOSUPPORT", 0, one(unix.SYS_SOCKET, 1<<32|unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		attempt{"sockets", "AF_ALG", "EAFNOSUPPORT", 0, one(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		attempt{"sockets", "pairs of every family", "UNIX", 0, pairs},
		attempt{"sockets", "every netlink protocol 0 to 31", "0 4 12 15 16", 0, netlinks},
	)
	add("mounts", "EPERM", map[string]func() string{
		"mount ext4 of a loop device":  one(unix.SYS_MOUNT, text("/dev/loop0"), text("/mnt"), text("ext4"), unix.MS_RDONLY, 0),
		"bind / elsewhere":             one(unix.SYS_MOUNT, text("/"), text("/mnt"), 0, unix.MS_BIND|unix.MS_REC, 0),
		"remount / writable for all":   one(unix.SYS_MOUNT, 0, text("/"), 0, unix.MS_REMOUNT, 0),
		"remount /usr writable":        one(unix.SYS_MOUNT, 0, text("/usr"), 0, unix.MS_REMOUNT, 0),
		"remount /sys writable":        one(unix.SYS_MOUNT, 0, text("/sys"), 0, unix.MS_REMOUNT|unix.MS_BIND, 0),
		"remount the program writable": one(unix.SYS_MOUNT, 0, text("/run/patchbay/bin"), 0, unix.MS_REMOUNT|unix.MS_BIND, 0),
		"share / with the host":        one(unix.SYS_MOUNT, 0, text("/"), 0, unix.MS_SHARED|unix.MS_REC, 0),
		"umount what hides kallsyms":   one(unix.SYS_UMOUNT2, text("/proc/kallsyms"), 0),
		"umount /proc, lazily":         one(unix.SYS_UMOUNT2, text("/proc"), unix.MNT_DETACH),
		"umount /dev":                  one(unix.SYS_UMOUNT2, text("/dev"), unix.MNT_DETACH),
		"fsopen":                       one(unix.SYS_FSOPEN, text("tmpfs"), 0),
		"fspick":                       one(unix.SYS_FSPICK, here, text("/"), 0),
		"fsconfig":                     one(unix.SYS_FSCONFIG, ^uintptr(0), 0, 0, 0, 0),
		"fsmount":                      one(unix.SYS_FSMOUNT, ^uintptr(0), 0, 0),
		"open_tree":                    one(unix.SYS_OPEN_TREE, here, text("/"), unix.OPEN_TREE_CLONE),
		"open_tree_attr":               one(unix.SYS_OPEN_TREE_ATTR, here, text("/"), unix.OPEN_TREE_CLONE, 0, 0),
		"move_mount":                   one(unix.SYS_MOVE_MOUNT, here, text("/proc"), here, text("/mnt"), 0),
		"mount_setattr":                one(unix.SYS_MOUNT_SETATTR, here, text("/sys"), 0, 0, 0),
		"pivot_root":                   one(unix.SYS_PIVOT_ROOT, text("/"), text("/mnt")),
	})
	for _, name := range []string{"tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "binfmt_misc", "efivarfs", "devtmpfs"} {
		add("mounts", "EPERM", map[string]func() string{"mount " + name: one(unix.SYS_MOUNT, text("x"), text("/mnt"), text(name), 0, 0)})
	}
	spaces := map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"uts": unix.CLONE_NEWUTS, "ipc": unix.CLONE_NEWIPC, "cgroup": unix.CLONE_NEWCGROUP,
	}
	for _, name := range sortedKeys(spaces) {
		add("namespaces", "EPERM", map[string]func() string{
			"unshare " + name: one(unix.SYS_UNSHARE, spaces[name]),
			// With the flags of a thread but no memory in common: EINVAL where it were let through.
			"clone " + name: one(unix.SYS_CLONE, spaces[name]|unix.CLONE_THREAD, 0, 0, 0, 0),
		})
	}
	add("namespaces", "EPERM", map[string]func() string{
		"unshare time":            one(unix.SYS_UNSHARE, unix.CLONE_NEWTIME),
		"setns to its own":        func() string { return setns("/proc/self/ns/net") },
		"unshare as an account":   one(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"setns to a process":      one(unix.SYS_SETNS, ^uintptr(0), unix.CLONE_NEWNS),
		"unshare with high bits":  one(unix.SYS_UNSHARE, 1<<32|unix.CLONE_NEWUSER),
		"unshare with all at one": one(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID),
	})
	all[len(all)-1].as = alice
	add("namespaces", "ENOSYS", map[string]func() string{"clone3": one(unix.SYS_CLONE3, 0, 0)})
	add("the kernel", "EPERM", map[string]func() string{
		"bpf":                one(unix.SYS_BPF, 0, 0, 0),
		"perf_event_open":    one(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0),
		"userfaultfd":        one(unix.SYS_USERFAULTFD, 0),
		"io_uring_setup":     one(unix.SYS_IO_URING_SETUP, 1, 0),
		"io_uring_enter":     one(unix.SYS_IO_URING_ENTER, 0),
		"io_uring_register":  one(unix.SYS_IO_URING_REGISTER, 0),
		"add_key":            one(unix.SYS_ADD_KEY, text("user"), text("patchbay-escape"), text("x"), 1, 0xfffffffe),
		"keyctl, session":    one(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 0),
		"keyctl, user":       one(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(3), 0),
		"request_key":        one(unix.SYS_REQUEST_KEY, text("user"), text("patchbay-escape"), 0, 0),
		"init_module":        one(unix.SYS_INIT_MODULE, 0, 0, text("")),
		"finit_module":       one(unix.SYS_FINIT_MODULE, ^uintptr(0), text(""), 0),
		"delete_module":      one(unix.SYS_DELETE_MODULE, text("patchbay_escape"), unix.O_NONBLOCK),
		"kexec_load":         one(unix.SYS_KEXEC_LOAD, 0, 1, 0, 0),
		"open_by_handle_at":  openByHandle,
		"fanotify_init":      one(unix.SYS_FANOTIFY_INIT, 0, 0),
		"lines of execution": one(unix.SYS_PERSONALITY, 0x0400000), // READ_IMPLIES_EXEC
		"page zero":          one(unix.SYS_PERSONALITY, 0x0100000), // MMAP_PAGE_ZERO
	})
	add("the kernel", "ENOSYS", map[string]func() string{
		"io_setup, of which the host has one count": one(unix.SYS_IO_SETUP, 1, 0),
		"memfd_secret":            one(unix.SYS_MEMFD_SECRET, 0),
		"kcmp":                    one(unix.SYS_KCMP, 1, 1, 0),
		"statmount":               one(unix.SYS_STATMOUNT, 0, 0, 0, 0),
		"listmount":               one(unix.SYS_LISTMOUNT, 0, 0, 0, 0),
		"move_pages of PID 1":     one(unix.SYS_MOVE_PAGES, 1, 0),
		"calls that do not exist": unknownCalls,
		"calls of the x32 kind":   one(1<<30|unix.SYS_GETPID, 0),
		"a call with number -1":   one(0xfffffffe, 0),
	})
	all = append(all, attempt{"the kernel", "addresses that are not random: debuggers", "done", 0, one(unix.SYS_PERSONALITY, 0x0040000)})
	add("the host", "EPERM", map[string]func() string{
		"reboot":                      one(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, 0x12345),
		"swapon":                      one(unix.SYS_SWAPON, text("/nonexistent"), 0),
		"swapoff":                     one(unix.SYS_SWAPOFF, text("/nonexistent")),
		"acct":                        one(unix.SYS_ACCT, text("/nonexistent")),
		"quotactl":                    one(unix.SYS_QUOTACTL, 0, text("/nonexistent"), 0, 0),
		"quotactl_fd":                 one(unix.SYS_QUOTACTL_FD, ^uintptr(0), 0, 0, 0),
		"settimeofday":                func() string { return errnoText(unix.Settimeofday(&unix.Timeval{Usec: 2e6})) },
		"clock_settime":               func() string { return errnoText(unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Nsec: 2e9})) },
		"adjtimex":                    one(unix.SYS_ADJTIMEX, 0),
		"clock_adjtime":               one(unix.SYS_CLOCK_ADJTIME, 0, 0),
		"the kernel's log":            one(unix.SYS_SYSLOG, 10, 0, 0),
		"vhangup":                     one(unix.SYS_VHANGUP),
		"sethostname":                 one(unix.SYS_SETHOSTNAME, text("x"), 1),
		"setdomainname":               one(unix.SYS_SETDOMAINNAME, text("x"), 1),
		"a block device":              func() string { return errnoText(unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0)))) },
		"a character device":          func() string { return errnoText(unix.Mknod("/dev/mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))) },
		"real time":                   func() string { return schedule(unix.SCHED_FIFO) },
		"freeze the disk":             func() string { return ioctlOf("/var/tmp", 0xc0045877) },
		"freeze /usr":                 func() string { return ioctlOf("/usr/bin", 0xc0045877) },
		"a file that cannot be freed": immutable,
		"more open files":             func() string { return limit(unix.RLIMIT_NOFILE) },
		"more locked memory":          func() string { return limit(unix.RLIMIT_MEMLOCK) },
		"more bytes of messages":      func() string { return limit(unix.RLIMIT_MSGQUEUE) },
		"core dumps for the handler":  func() string { return limit(unix.RLIMIT_CORE) },
		"a pipe of 64 MB":             bigPipe,
		"spared when memory ends":     func() string { return write("/proc/self/oom_score_adj", "-1000") },
		"type for others: TIOCSTI":    func() string { return ioctlOf("/dev/null", unix.TIOCSTI) },
		"type for others: high bits":  func() string { return ioctlOf("/dev/null", 1<<32|unix.TIOCSTI) },
		"type at consoles: TIOCLINUX": func() string { return ioctlOf("/dev/null", unix.TIOCLINUX) },
		"line disciplines: TIOCSETD":  func() string { return ioctlOf("/dev/null", unix.TIOCSETD) },
	})
	for i := range all {
		switch all[i].how {
		case "freeze the disk", "freeze /usr", "a file that cannot be freed":
			all[i].must = "EPERM | ENOTTY | EOPNOTSUPP"
		case "spared when memory ends":
			all[i].must = "EACCES | EPERM"
		}
	}
	all = append(all, attempt{"the host", "first in the processor's queue", "EACCES | EPERM", 0, func() string {
		return errnoText(unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
	}})
	return append(all, callAttemptsHere(one)...)
}

func families() string {
	names := map[int]string{unix.AF_UNIX: "UNIX", unix.AF_INET: "INET", unix.AF_INET6: "INET6", unix.AF_NETLINK: "NETLINK", unix.AF_PACKET: "PACKET"}
	var open []string
	for family := range 46 {
		for kind := 1; kind <= 10; kind++ {
			fd, err := unix.Socket(family, kind, 0)
			if err != nil {
				continue
			}
			unix.Close(fd)
			name := names[family]
			if name == "" {
				name = fmt.Sprint(family)
			}
			open = append(open, name)
			break
		}
	}
	return strings.Join(open, " ")
}

func pairs() string {
	var open []string
	for family := range 46 {
		if fds, err := unix.Socketpair(family, unix.SOCK_STREAM, 0); err == nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
			open = append(open, map[int]string{unix.AF_UNIX: "UNIX"}[family])
		}
	}
	return strings.Join(open, " ")
}

func netlinks() string {
	var open []string
	for protocol := range 32 {
		if fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol); err == nil {
			unix.Close(fd)
			open = append(open, fmt.Sprint(protocol))
		}
	}
	return strings.Join(open, " ")
}

func setns(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return "open: " + errnoText(err)
	}
	return errnoText(unix.Setns(fd, 0))
}

func openByHandle() string {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/var/tmp", 0)
	if err != nil {
		h = unix.NewFileHandle(1, make([]byte, 8))
	}
	root, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return errnoText(err)
	}
	_, err = unix.OpenByHandleAt(root, h, unix.O_RDONLY)
	return errnoText(err)
}

// unknownCalls makes all calls above the numbers of the lists.
func unknownCalls() string {
	for number := uintptr(473); number < 1024; number++ {
		if got := raw(number); got != "ENOSYS" {
			return fmt.Sprintf("%d: %s", number, got)
		}
	}
	return "ENOSYS"
}

func schedule(policy uint32) string {
	return errnoText(unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: 1}, 0))
}

func ioctlOf(path string, request uintptr) string {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return "open: " + errnoText(err)
	}
	return raw(unix.SYS_IOCTL, uintptr(fd), request, text("x"))
}

func immutable() string {
	const path = "/var/tmp/immutable"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err.Error()
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return errnoText(err)
	}
	return errnoText(unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, unix.STATX_ATTR_IMMUTABLE))
}

func limit(resource int) string {
	var l unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &l); err != nil {
		return errnoText(err)
	}
	l.Max++
	return errnoText(unix.Prlimit(0, resource, &l, nil))
}

func bigPipe() string {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return errnoText(err)
	}
	_, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, 64<<20)
	return errnoText(err)
}

func write(path, content string) string {
	fd, err := unix.Open(path, unix.O_WRONLY, 0)
	if err != nil {
		return errnoText(err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(content))
	return errnoText(err)
}
