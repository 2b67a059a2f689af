package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func children() map[string]func() {
	return map[string]func(){
		"node":     confinedThen,
		"attempts": attempts,
		"foreign":  foreign,
		"gateway":  gatewayServes,
		"dies":     serverDies,
		"relay":    relayServes,
		"limits":   limitsThen,
		"hoard":    hoard,
	}
}

// confinedThen confines itself as a stage of a node does, and execs what its
// arguments say: another child's word, or a program.
func confinedThen() {
	must(Limits())
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	must(Node())
	must(CloseOnExec(3))
	argv := os.Args[1:]
	if children()[argv[0]] != nil {
		must(os.Setenv(childWord, argv[0]))
		must(syscall.Exec("/proc/self/exe", argv, os.Environ()))
	}
	path, err := exec.LookPath(argv[0])
	must(err)
	must(os.Unsetenv(childWord))
	must(syscall.Exec(path, argv, os.Environ()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
}

// An attempt is something that root in a node tries, and what must come of it.
type attempt struct {
	name string
	want string
	try  func() error
}

func call(n uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, e := unix.RawSyscall6(n, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
			return e
		}
		return nil
	}
}

func path(p string) uintptr {
	b, err := unix.BytePtrFromString(p)
	must(err)
	return uintptr(unsafe.Pointer(b))
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// forbiddenThings is the table of attempts.
func forbiddenThings() []attempt {
	root := path("/")
	return []attempt{
		{"socket AF_VSOCK", "EAFNOSUPPORT", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"socket AF_ALG", "EAFNOSUPPORT", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"socket AF_XDP", "EAFNOSUPPORT", socket(unix.AF_XDP, unix.SOCK_RAW, 0)},
		{"socket AF_KEY", "EAFNOSUPPORT", socket(unix.AF_KEY, unix.SOCK_RAW, 2)},
		{"netlink audit", "EPROTONOSUPPORT", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{"netlink xfrm", "EPROTONOSUPPORT", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM)},
		{"mount", "EPERM", func() error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") }},
		{"remount", "EPERM", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"umount", "EPERM", func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"fsopen", "EPERM", call(unix.SYS_FSOPEN, path("tmpfs"), 0)},
		{"open_tree", "EPERM", call(unix.SYS_OPEN_TREE, ^uintptr(99), root, 1)},
		{"mount_setattr", "EPERM", call(unix.SYS_MOUNT_SETATTR, ^uintptr(99), root, 0, 0, 0)},
		{"pivot_root", "EPERM", call(unix.SYS_PIVOT_ROOT, root, root)},
		{"unshare user", "EPERM", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"unshare net", "EPERM", func() error { return unix.Unshare(unix.CLONE_NEWNET) }},
		{"unshare time", "EPERM", func() error { return unix.Unshare(unix.CLONE_NEWTIME) }},
		{"setns", "EPERM", func() error { return unix.Setns(0, 0) }},
		{"clone user", "EPERM", call(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
		{"clone mount", "EPERM", call(unix.SYS_CLONE, unix.CLONE_NEWNS|uintptr(unix.SIGCHLD))},
		{"clone3", "ENOSYS", call(unix.SYS_CLONE3, 0, 0)},
		{"bpf", "EPERM", call(unix.SYS_BPF, 0, 0, 0)},
		{"keyctl", "EPERM", call(unix.SYS_KEYCTL, 0, 0, 0)},
		{"add_key", "EPERM", call(unix.SYS_ADD_KEY, 0, 0, 0)},
		{"request_key", "EPERM", call(unix.SYS_REQUEST_KEY, 0, 0, 0)},
		{"io_uring_setup", "EPERM", call(unix.SYS_IO_URING_SETUP, 1, 0)},
		{"io_uring_enter", "EPERM", call(unix.SYS_IO_URING_ENTER, 0, 0)},
		{"open_by_handle_at", "EPERM", call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)},
		{"fanotify_init", "EPERM", call(unix.SYS_FANOTIFY_INIT, 0, 0)},
		{"perf_event_open", "EPERM", call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0)},
		{"userfaultfd", "EPERM", call(unix.SYS_USERFAULTFD, 1)},
		{"init_module", "EPERM", call(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{"finit_module", "EPERM", call(unix.SYS_FINIT_MODULE, 0, 0, 0)},
		{"delete_module", "EPERM", call(unix.SYS_DELETE_MODULE, 0, 0, 0)},
		{"kexec_load", "EPERM", call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)},
		{"kexec_file_load", "EPERM", call(unix.SYS_KEXEC_FILE_LOAD, 0, 0, 0, 0, 0)},
		{"reboot", "EPERM", call(unix.SYS_REBOOT, 0, 0, 0)},
		{"swapon", "EPERM", call(unix.SYS_SWAPON, root, 0)},
		{"swapoff", "EPERM", call(unix.SYS_SWAPOFF, root)},
		{"acct", "EPERM", call(unix.SYS_ACCT, 0)},
		{"quotactl", "EPERM", call(unix.SYS_QUOTACTL, 0, 0, 0, 0)},
		{"settimeofday", "EPERM", call(unix.SYS_SETTIMEOFDAY, 0, 0)},
		{"clock_settime", "EPERM", call(unix.SYS_CLOCK_SETTIME, 0, 0)},
		{"adjtimex", "EPERM", call(unix.SYS_ADJTIMEX, 0)},
		{"syslog", "EPERM", call(unix.SYS_SYSLOG, 3, 0, 0)},
		{"vhangup", "EPERM", call(unix.SYS_VHANGUP)},
		{"sethostname", "EPERM", func() error { return unix.Sethostname([]byte("other")) }},
		{"personality page zero", "EPERM", call(unix.SYS_PERSONALITY, 0x100000)},
		{"personality read implies exec", "EPERM", call(unix.SYS_PERSONALITY, 0x400000)},
		{"mknod device", "EPERM", func() error { return unix.Mknod("/tmp/confine-device", unix.S_IFCHR, int(unix.Mkdev(1, 3))) }},
		{"TIOCSTI", "EPERM", onTerminal(unix.TIOCSTI)},
		{"TIOCSETD", "EPERM", onTerminal(unix.TIOCSETD)},
		{"seccomp without no_new_privs", "EACCES", func() error { return install(allow(), 0) }},
		{"capability back in the bounding set", "EPERM", func() error {
			sets := [2]unix.CapUserData{{Permitted: 1 << unix.CAP_SYS_ADMIN, Effective: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
		}},
		{"x32 getpid", "ENOSYS", call(1<<30 | 39)},
		{"unknown call", "ENOSYS", call(1999)},
		{"left out call", "ENOSYS", call(unix.SYS_KCMP)},
	}
}

// onTerminal tries an ioctl on a pseudo-terminal of its own.
func onTerminal(request uint) func() error {
	return func() error {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer master.Close()
		b := [8]byte{'x'}
		_, _, e := unix.Syscall(unix.SYS_IOCTL, master.Fd(), uintptr(request), uintptr(unsafe.Pointer(&b)))
		if e != 0 {
			return e
		}
		return nil
	}
}

func attempts() {
	runtime.LockOSThread()
	for _, a := range forbiddenThings() {
		fmt.Printf("%s: %s\n", a.name, errorName(a.try()))
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	must(err)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		fmt.Printf("%s: %s\n", name, strings.TrimSpace(value))
	}
}

func errorName(err error) string {
	if err == nil {
		return "done"
	}
	if e, ok := err.(unix.Errno); ok {
		return unix.ErrnoName(e)
	}
	return err.Error()
}

func TestNodeCannot(t *testing.T) {
	out, err := nodeChild(t, "node", "attempts").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := lines(out)
	for _, a := range forbiddenThings() {
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			if got[a.name] != a.want {
				t.Errorf("%q, want %q", got[a.name], a.want)
			}
		})
	}
	for name, want := range map[string]string{
		"CapInh": "0000000000000000", "CapAmb": "0000000000000000",
		"CapPrm": keptMask(), "CapEff": keptMask(), "CapBnd": keptMask(),
		"NoNewPrivs": "0", "Seccomp": "2",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}

func keptMask() string {
	var mask uint64
	for _, c := range capabilities() {
		if c.keep {
			mask |= 1 << c.number
		}
	}
	return fmt.Sprintf("%016x", mask)
}
