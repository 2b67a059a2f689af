package sandbox

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A seen is what a filter sees of a call.
type callData struct {
	number, arch uint32
	args         [6]uint64
}

// runFilter runs a filter as the kernel does, and counts the steps.
func runFilter(b block, s callData) (verdict uint32, steps int) {
	var a uint32
	word := func(off uint32) uint32 {
		switch {
		case off == offNumber:
			return s.number
		case off == offArch:
			return s.arch
		case off >= offArgs && off < offArgs+48 && off%8 == 0:
			return uint32(s.args[(off-offArgs)/8])
		}
		panic(fmt.Sprintf("load from %d", off))
	}
	for pc := 0; ; steps++ {
		i := b[pc]
		pc++
		jump := func(condition bool) {
			if condition {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case codeLoad:
			a = word(i.K)
		case codeReturn:
			return i.K, steps + 1
		case codeJump:
			pc += int(i.K)
		case ifEqual:
			jump(a == i.K)
		case ifAtLeast:
			jump(a >= i.K)
		case ifAnyBit:
			jump(a&i.K != 0)
		default:
			panic(fmt.Sprintf("instruction %#x", i.Code))
		}
	}
}

func verdictName(verdict uint32) string {
	switch verdict & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_KILL_PROCESS:
		return "kill"
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(verdict & unix.SECCOMP_RET_DATA))
	}
	return fmt.Sprintf("%#x", verdict)
}

// The filter must decide each call as its list says.
func TestNodeFilterFollowsLists(t *testing.T) {
	b := nodeFilter()
	want := make(map[uint32]string)
	for _, r := range rulesFor(allow(), allowed, allowedHere()) {
		want[r.call] = "allow"
	}
	for _, r := range rulesFor(nil, forbidden(), forbiddenHere()) {
		want[r.call] = "EPERM"
	}
	for _, r := range examined() {
		want[r.call] = "" // below
	}
	longest := 0
	try := func(n uint32) {
		expected, ok := want[n]
		if !ok {
			expected = "ENOSYS"
		}
		verdict, steps := runFilter(b, callData{number: n, arch: auditArch})
		if got := verdictName(verdict); expected != "" && got != expected {
			t.Errorf("call %d: %s, want %s", n, got, expected)
		}
		longest = max(longest, steps)
	}
	for n := range uint32(2000) {
		try(n)
		try(n | 1<<30) // x32
		try(n | 1<<31)
	}
	try(1<<32 - 1)
	t.Logf("%d instructions, at most %d steps", len(b), longest)
	if len(b) > 400 || longest > 24 {
		t.Errorf("%d instructions, %d steps: more than 400 or 24", len(b), longest)
	}
}

func TestFilterKillsOtherArchitectures(t *testing.T) {
	for name, b := range map[string]block{"node": nodeFilter(), "gateway": gatewayFilter(1)} {
		for _, arch := range []uint32{unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0} {
			if arch == auditArch {
				continue
			}
			for _, n := range []uint32{0, 1, 20, 172} {
				if got, _ := runFilter(b, callData{number: n, arch: arch}); verdictName(got) != "kill" {
					t.Errorf("%s: call %d of architecture %#x: %s, want kill", name, n, arch, verdictName(got))
				}
			}
		}
	}
}

const high = 1 << 40 // a bit that the kernel ignores in an int

func TestNodeArguments(t *testing.T) {
	b := nodeFilter()
	thread := uint64(unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD)
	for _, c := range []struct {
		name string
		call uint32
		args [6]uint64
		want string
	}{
		{"CloneThread", unix.SYS_CLONE, [6]uint64{thread}, "allow"},
		{"CloneFork", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, "allow"},
		{"CloneVfork", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, "allow"},
		{"CloneUser", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, "EPERM"},
		{"CloneMount", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWNS}, "EPERM"},
		{"ClonePID", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWPID}, "EPERM"},
		{"CloneNet", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWNET}, "EPERM"},
		{"CloneIPC", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWIPC}, "EPERM"},
		{"CloneUTS", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUTS}, "EPERM"},
		{"CloneCgroup", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWCGROUP}, "EPERM"},
		{"CloneUserAmongOthers", unix.SYS_CLONE, [6]uint64{thread | unix.CLONE_NEWUSER | high}, "EPERM"},
		{"IoctlWindow", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSWINSZ}, "allow"},
		{"IoctlTyping", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, "EPERM"},
		{"IoctlTypingWithHighBits", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI | high}, "EPERM"},
		{"IoctlConsole", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, "EPERM"},
		{"IoctlLineDiscipline", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSETD}, "EPERM"},
		{"LimitsOfItself", unix.SYS_PRLIMIT64, [6]uint64{0, unix.RLIMIT_NOFILE}, "allow"},
		{"LimitsOfPID1", unix.SYS_PRLIMIT64, [6]uint64{1, unix.RLIMIT_NOFILE}, "EPERM"},
		{"PersonalityAsk", unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, "allow"},
		{"PersonalityLinux", unix.SYS_PERSONALITY, [6]uint64{0}, "allow"},
		{"PersonalityOfDebuggers", unix.SYS_PERSONALITY, [6]uint64{0x40000}, "allow"},
		{"PersonalityReadImpliesExec", unix.SYS_PERSONALITY, [6]uint64{0x400000}, "EPERM"},
		{"PersonalityPageZero", unix.SYS_PERSONALITY, [6]uint64{0x100000}, "EPERM"},
		{"PersonalityBSD", unix.SYS_PERSONALITY, [6]uint64{6}, "EPERM"},
		{"SocketUnix", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX}, "allow"},
		{"SocketInet", unix.SYS_SOCKET, [6]uint64{unix.AF_INET}, "allow"},
		{"SocketInet6", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6}, "allow"},
		{"SocketPacket", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET}, "allow"},
		{"SocketVsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK}, "EAFNOSUPPORT"},
		{"SocketVsockWithHighBits", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK | high}, "EAFNOSUPPORT"},
		{"SocketAlg", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG}, "EAFNOSUPPORT"},
		{"SocketXDP", unix.SYS_SOCKET, [6]uint64{unix.AF_XDP}, "EAFNOSUPPORT"},
		{"SocketKey", unix.SYS_SOCKET, [6]uint64{unix.AF_KEY}, "EAFNOSUPPORT"},
		{"SocketUnspecified", unix.SYS_SOCKET, [6]uint64{0}, "EAFNOSUPPORT"},
		{"NetlinkRoute", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, "allow"},
		{"NetlinkDiag", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, "allow"},
		{"NetlinkNetfilter", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "allow"},
		{"NetlinkGeneric", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}, "allow"},
		{"NetlinkUevent", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, "allow"},
		{"NetlinkAudit", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, "EPROTONOSUPPORT"},
		{"NetlinkXfrm", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM}, "EPROTONOSUPPORT"},
		{"NetlinkCrypto", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CRYPTO}, "EPROTONOSUPPORT"},
		{"SocketpairUnix", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX}, "allow"},
		{"SocketpairTIPC", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_TIPC}, "EAFNOSUPPORT"},
		{"Clone3", unix.SYS_CLONE3, [6]uint64{}, "ENOSYS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			verdict, _ := runFilter(b, callData{c.call, auditArch, c.args})
			if got := verdictName(verdict); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestGatewayArguments(t *testing.T) {
	const pid = 4711
	b := gatewayFilter(pid)
	t.Logf("%d instructions", len(b))
	thread := uint64(unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD)
	for _, c := range []struct {
		name string
		call uint32
		args [6]uint64
		want string
	}{
		{"Thread", unix.SYS_CLONE, [6]uint64{thread}, "allow"},
		{"Process", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, "EPERM"},
		{"ThreadWithNet", unix.SYS_CLONE, [6]uint64{thread | unix.CLONE_NEWNET}, "EPERM"},
		{"Clone3", unix.SYS_CLONE3, [6]uint64{}, "ENOSYS"},
		{"OwnThread", unix.SYS_TGKILL, [6]uint64{pid, 5, 23}, "allow"},
		{"OthersThread", unix.SYS_TGKILL, [6]uint64{pid + 1, 5, 23}, "EPERM"},
		{"Kill", unix.SYS_KILL, [6]uint64{pid, 9}, "EPERM"},
		{"ThreadKill", unix.SYS_TKILL, [6]uint64{pid, 9}, "EPERM"},
		{"Open", unix.SYS_OPENAT, [6]uint64{}, "EPERM"},
		{"Open2", unix.SYS_OPENAT2, [6]uint64{}, "EPERM"},
		{"Unlink", unix.SYS_UNLINKAT, [6]uint64{}, "EPERM"},
		{"Mkdir", unix.SYS_MKDIRAT, [6]uint64{}, "EPERM"},
		{"MapData", unix.SYS_MMAP, [6]uint64{0, 1, unix.PROT_READ | unix.PROT_WRITE}, "allow"},
		{"MapCode", unix.SYS_MMAP, [6]uint64{0, 1, unix.PROT_READ | unix.PROT_EXEC}, "EPERM"},
		{"ProtectCode", unix.SYS_MPROTECT, [6]uint64{0, 1, unix.PROT_EXEC}, "EPERM"},
		{"NameMemory", unix.SYS_PRCTL, [6]uint64{unix.PR_SET_VMA}, "allow"},
		{"OpenToOthers", unix.SYS_PRCTL, [6]uint64{unix.PR_SET_DUMPABLE, 1}, "EPERM"},
		{"Window", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSWINSZ}, "allow"},
		{"Modes", unix.SYS_IOCTL, [6]uint64{0, unix.TCSETS}, "EPERM"},
		{"TerminalNumber", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGPTN}, "allow"},
		{"Typing", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, "EPERM"},
		{"NewTerminal", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGPTPEER}, "EPERM"},
		{"TCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, "EPERM"},
		{"Send", unix.SYS_SENDMSG, [6]uint64{3, 0, unix.MSG_NOSIGNAL}, "allow"},
		{"SendConnecting", unix.SYS_SENDMSG, [6]uint64{3, 0, unix.MSG_NOSIGNAL | unix.MSG_FASTOPEN}, "EPERM"},
		{"Connect", unix.SYS_CONNECT, [6]uint64{}, "EPERM"},
		{"Unix", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, "EPERM"},
		{"Netlink", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, "EPERM"},
		{"Vsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "EPERM"},
		{"Socketpair", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX}, "EPERM"},
		{"Bind", unix.SYS_BIND, [6]uint64{}, "EPERM"},
		{"Listen", unix.SYS_LISTEN, [6]uint64{}, "EPERM"},
		{"NoDelay", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.IPPROTO_TCP, unix.TCP_NODELAY}, "allow"},
		{"KeepAlive", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_KEEPALIVE}, "allow"},
		{"KernelTLS", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.IPPROTO_TCP, unix.TCP_ULP}, "EPERM"},
		{"SocketFilter", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, "EPERM"},
		{"NoDelayOfAnotherLevel", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.IPPROTO_IP, unix.TCP_NODELAY}, "EPERM"},
		{"Duplicate", unix.SYS_FCNTL, [6]uint64{3, unix.F_DUPFD_CLOEXEC}, "allow"},
		{"SignalsToOthers", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETOWN}, "EPERM"},
		{"Exec", unix.SYS_EXECVE, [6]uint64{}, "kill"},
		{"ExecAt", unix.SYS_EXECVEAT, [6]uint64{}, "kill"},
		{"Ptrace", unix.SYS_PTRACE, [6]uint64{}, "kill"},
		{"Mount", unix.SYS_MOUNT, [6]uint64{}, "kill"},
		{"Unshare", unix.SYS_UNSHARE, [6]uint64{}, "kill"},
		{"BPF", unix.SYS_BPF, [6]uint64{}, "kill"},
		{"Ring", unix.SYS_IO_URING_SETUP, [6]uint64{}, "kill"},
		{"SetUser", unix.SYS_SETRESUID, [6]uint64{}, "EPERM"},
		{"Unknown", 1999, [6]uint64{}, "ENOSYS"},
		{"X32", 1<<30 | 1, [6]uint64{}, "ENOSYS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			verdict, _ := runFilter(b, callData{c.call, auditArch, c.args})
			if got := verdictName(verdict); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// For any rules, the tree finds the same rule as a linear search, and all jumps are in
// range.
func TestTreeMatchesLinearSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var rules []rule
		want := make(map[uint32]uint32)
		for range random.IntN(400) {
			call, verdict := uint32(random.IntN(1000)), uint32(random.IntN(4))
			if _, twice := want[call]; !twice {
				want[call] = verdict
				rules = append(rules, rule{call, answer(verdict)})
			}
		}
		before := slices.Clone(rules)
		b := filter(rules, answer(9))
		if !slices.EqualFunc(before, rules, func(a, b rule) bool { return a.call == b.call }) {
			t.Fatal("the rules were sorted in place")
		}
		for n := range uint32(1100) {
			expected, ok := want[n]
			if !ok {
				expected = 9
			}
			if got, _ := runFilter(b, callData{number: n, arch: auditArch}); got != expected {
				t.Fatalf("call %d: %d, want %d, of %d rules", n, got, expected, len(rules))
			}
		}
	}
}
