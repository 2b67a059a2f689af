package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processAttempts returns attempts on PID 1, on processes and sockets of the host and of
// other nodes, and on rights.
func processAttempts() []attempt {
	all := []attempt{
		{"PID 1", "ptrace: attach", "EPERM", 0, func() string { return raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1) }},
		{"PID 1", "ptrace: seize", "EPERM", 0, func() string { return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1) }},
		{"PID 1", "its limits: prlimit", "EPERM", 0, func() string {
			return errnoText(unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil))
		}},
		{"PID 1", "read its memory", "EPERM", 0, func() string { return memory(unix.SYS_PROCESS_VM_READV) }},
		{"PID 1", "write its memory", "EPERM", 0, func() string { return memory(unix.SYS_PROCESS_VM_WRITEV) }},
		{"PID 1", "take its listening socket: pidfd_getfd", "EPERM", 0, takeDescriptor},
		{"PID 1", "enter its namespaces: setns of a pidfd", "EPERM", 0, func() string {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return "pidfd_open: " + errnoText(err)
			}
			return errnoText(unix.Setns(fd, unix.CLONE_NEWNS|unix.CLONE_NEWPID))
		}},
		{"PID 1", "every signal, by kill", "done", 0, func() string { return signals(func(s unix.Signal) error { return unix.Kill(1, s) }) }},
		{"PID 1", "every signal, to each of its threads", "done", 0, signalThreads},
		{"PID 1", "every signal, queued", "done", 0, func() string { return signals(queue) }},
		{"PID 1", "every signal, as an account", "EPERM", alice, func() string { return errnoText(unix.Kill(1, unix.SIGKILL)) }},
		{"PID 1", "less urgent, as an account", "EPERM", alice, func() string { return errnoText(unix.Setpriority(unix.PRIO_PROCESS, 1, 19)) }},
		{"processes", "the host's testbed, by its id there", "not seen", 0, func() string {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", told.HostPID))
			if strings.Contains(string(b), "local.yaml") {
				return string(b)
			}
			return "not seen"
		}},
		{"processes", "what others run, in /proc", "none", 0, foreignProcesses},
		{"processes", "ids of the host in status of PID 1", "1", 0, func() string { return statusOf("/proc/1/status", "NSpid") }},
		{"processes", "PID of one's parent's parent is not outside", "in the node", 0, func() string {
			if os.Getppid() == 0 {
				return "outside"
			}
			return "in the node"
		}},
		{"rights", "capabilities, effective", "00000000a00435fb", 0, func() string { return statusOf("/proc/self/status", "CapEff") }},
		{"rights", "capabilities, bounding", "00000000a00435fb", 0, func() string { return statusOf("/proc/self/status", "CapBnd") }},
		{"rights", "capabilities, inheritable", "0000000000000000", 0, func() string { return statusOf("/proc/self/status", "CapInh") }},
		{"rights", "capabilities, ambient", "0000000000000000", 0, func() string { return statusOf("/proc/self/status", "CapAmb") }},
		{"rights", "capabilities of an account", "0000000000000000", alice, func() string { return statusOf("/proc/self/status", "CapEff") }},
		{"rights", "bounding set of an account", "00000000a00435fb", alice, func() string { return statusOf("/proc/self/status", "CapBnd") }},
		{"rights", "filter", "2", 0, func() string { return statusOf("/proc/self/status", "Seccomp") }},
		{"rights", "filter of PID 1", "2", 0, func() string { return statusOf("/proc/1/status", "Seccomp") }},
		{"rights", "sudo and su work (no_new_privs)", "0", 0, func() string { return statusOf("/proc/self/status", "NoNewPrivs") }},
		{"rights", "a capability that was dropped, back", "EPERM", 0, raiseCapability},
		{"rights", "a second filter without no_new_privs", "EACCES", 0, func() string {
			f := []unix.SockFilter{{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}}
			p := unix.SockFprog{Len: 1, Filter: &f[0]}
			return raw(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
		}},
		{"rights", "user ids: only the node's 65536", "0 65536", 0, func() string {
			b, err := os.ReadFile("/proc/self/uid_map")
			if f := strings.Fields(string(b)); err == nil && len(f) == 3 {
				return f[0] + " " + f[2]
			}
			return fmt.Sprintf("%q %v", b, err)
		}},
		{"rights", "a user id above them", "EINVAL", 0, func() string { return errnoText(unix.Setuid(65536)) }},
		{"rights", "a file for a user id above them", "EINVAL", 0, func() string { return errnoText(os.Chown("/var/tmp", 70000, 0).(*os.PathError).Err) }},
		{"rights", "groups of the host", "0", 0, func() string {
			g, err := os.Getgroups()
			return strings.Trim(fmt.Sprint(slices.DeleteFunc(g, func(n int) bool { return n == 0 }), err), "[]<nil> ") + "0"
		}},
		{"sockets", "a port of the host's loopback", "ECONNREFUSED", 0, func() string { return connect("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(told.HostPort))) }},
		{"sockets", "a port of the other node's loopback", "ECONNREFUSED", 0, func() string { return connect("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(told.PeerPort))) }},
		{"sockets", "an abstract socket of the host", "ECONNREFUSED", 0, func() string { return connect("unix", told.Abstract) }},
		{"sockets", "an abstract socket of the other node", "ECONNREFUSED", 0, func() string { return connect("unix", told.Peer) }},
		{"sockets", "interfaces", "lo", 0, func() string {
			var names []string
			found, err := net.Interfaces()
			for _, i := range found {
				if !slices.Contains([]string{"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0", "ip_vti0", "ip6_vti0", "dummy0"}, i.Name) {
					names = append(names, i.Name)
				}
			}
			return strings.Join(names, " ") + errorText(err)
		}},
		{"sockets", "a way to the outside", "ENETUNREACH", 0, func() string { return connect("udp", "192.0.2.1:9") }},
		{"sockets", "sockets of the host in /proc/net/tcp", "none", 0, func() string {
			b, err := os.ReadFile("/proc/net/tcp")
			if strings.Contains(string(b), fmt.Sprintf(":%04X ", told.HostPort)) {
				return "seen"
			}
			return "none" + errorText(err)
		}},
		{"sockets", "say that one is root of the host: SCM_CREDENTIALS", "EPERM", alice, credentials},
	}
	return all
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func statusOf(path, name string) string {
	b, err := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "nothing" + errorText(err)
}

func memory(call uintptr) string {
	var b [8]byte
	local := unix.Iovec{Base: &b[0]}
	local.SetLen(len(b))
	remote := unix.RemoteIovec{Base: 0x400000, Len: len(b)}
	return raw(call, 1, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1)
}

func takeDescriptor() string {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return "pidfd_open: " + errnoText(err)
	}
	_, err = unix.PidfdGetfd(fd, 3, 0)
	return errnoText(err)
}

// signals sends each signal and returns the first error.
func signals(send func(unix.Signal) error) string {
	for s := unix.Signal(1); s <= 64; s++ {
		if err := send(s); err != nil {
			return fmt.Sprintf("%v: %s", s, errnoText(err))
		}
	}
	return "done"
}

// queue sends a signal with a value, as the kernel does for faults.
func queue(s unix.Signal) error {
	var info [128]byte
	*(*int32)(unsafe.Pointer(&info[0])) = int32(s)
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
	_, _, e := unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(s), uintptr(unsafe.Pointer(&info)))
	if e != 0 {
		return e
	}
	return nil
}

func signalThreads() string {
	entries, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return openError(err)
	}
	for _, e := range entries {
		thread, err := strconv.Atoi(e.Name())
		if err != nil {
			return err.Error()
		}
		if got := signals(func(s unix.Signal) error { return unix.Tgkill(1, thread, s) }); got != "done" {
			return got
		}
	}
	return "done"
}

// foreignProcesses returns processes whose command line shows that they are outside of
// the node.
func foreignProcesses() string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.Contains(string(b), "local.yaml") || strings.HasPrefix(string(b), "patchbay-gateway") {
			found = append(found, e.Name())
		}
	}
	return orNone(found)
}

func raiseCapability() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return errnoText(err)
	}
	sets[0].Permitted |= 1 << unix.CAP_SYS_ADMIN
	sets[0].Effective |= 1 << unix.CAP_SYS_ADMIN
	return errnoText(unix.Capset(&header, &sets[0]))
}

// connect returns the result of a connection.
func connect(network, address string) string {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		for _, e := range []unix.Errno{unix.ECONNREFUSED, unix.ENETUNREACH, unix.EACCES, unix.EPERM} {
			if strings.HasSuffix(err.Error(), e.Error()) {
				return errnoText(e)
			}
		}
		return err.Error()
	}
	c.Close()
	return "connected"
}

// credentials claims to be another user.
func credentials() string {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return errnoText(err)
	}
	rights := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: 0, Gid: 0})
	return errnoText(unix.Sendmsg(fds[0], []byte("x"), rights, nil, 0))
}
