package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeVSwitch creates its epoll descriptor, restricts itself like the vswitch, and then
// does what the vswitch does. It prints the result of each step, and waits for the end of
// its input.
func fakeVSwitch() {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(err)
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	must(err)
	must(unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, timer, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}))
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	device, err := os.Open(os.DevNull)
	must(err)
	for range 4 { // threads from before
		go func() { runtime.LockOSThread(); select {} }()
	}
	must(VSwitch(gatewayID, gatewayID))

	say := func(name string, err error) { fmt.Printf("%s: %s\n", name, resultOf(err)) }
	say("files over a pair", passFiles(pair, device))
	say("double", duplicate(int(device.Fd())))
	say("timer", waitForTimer(epoll, timer))
	say("threads", threads())
	say("memory", memory())
	say("mapping", mapMemory())
	for _, a := range vswitchAttempts() {
		say(a.name, a.try())
	}
	fmt.Println("state: ready")
	io.Copy(io.Discard, os.Stdin)
}

// duplicate makes another descriptor of the same file, non-blocking.
func duplicate(fd int) error {
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	return errors.Join(unix.SetNonblock(other, true), unix.Close(other))
}

// waitForTimer sets a timer and waits for it.
func waitForTimer(epoll, timer int) error {
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(time.Millisecond))}
	if err := unix.TimerfdSettime(timer, 0, &when, nil); err != nil {
		return err
	}
	for {
		n, err := unix.EpollWait(epoll, make([]unix.EpollEvent, 1), 1000)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n != 1:
			err = errors.New("the timer did not ring")
		}
		return err
	}
}

// mapMemory maps memory and unmaps it.
func mapMemory() error {
	b, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	b[0] = 1
	return unix.Munmap(b)
}

// vswitchAttempts returns the forbidden attempts.
func vswitchAttempts() []attempt {
	return []attempt{
		{"open", "EPERM", func() error { _, err := os.Open("/etc/passwd"); return err }},
		{"open /proc", "EPERM", func() error { _, err := os.Open("/proc/self/status"); return err }},
		{"another TAP", "EPERM", func() error { _, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); return err }},
		{"the TAP's settings", "EPERM", call(unix.SYS_IOCTL, 0, unix.TUNSETIFF, path("x"))},
		{"create", "EPERM", func() error { return os.WriteFile("/tmp/confine-vswitch", nil, 0o600) }},
		{"stat", "EPERM", func() error { _, err := os.Stat("/"); return err }},
		{"kill others", "EPERM", func() error { return unix.Kill(os.Getppid(), 0) }},
		{"signal to a thread of others", "EPERM", func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) }},
		{"owner of signals", "EPERM", call(unix.SYS_FCNTL, 0, unix.F_SETOWN, 1)},
		{"fork", "EPERM", call(unix.SYS_CLONE, uintptr(unix.SIGCHLD))},
		{"listen", "EPERM", func() error { _, err := net.Listen("tcp4", "127.0.0.1:0"); return err }},
		{"dial", "EPERM", func() error { _, err := net.Dial("tcp4", "127.0.0.1:1"); return err }},
		{"connect", "EPERM", call(unix.SYS_CONNECT, 0, 0, 0)},
		{"accept", "EPERM", call(unix.SYS_ACCEPT4, 0, 0, 0, 0)},
		{"packet socket", "EPERM", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"netlink", "EPERM", socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)},
		{"pair of sockets", "EPERM", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, path("12345678"))},
		{"pipe", "EPERM", call(unix.SYS_PIPE2, path("12345678"), 0)},
		{"another epoll", "EPERM", call(unix.SYS_EPOLL_CREATE1, 0)},
		{"another timer", "EPERM", call(unix.SYS_TIMERFD_CREATE, 0, 0)},
		{"become root", "EPERM", call(unix.SYS_SETRESUID, 0, 0, 0)},
		{"open to debuggers", "EPERM", call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)},
		{"code in memory", "EPERM", call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0))},
		{"another filter", "EPERM", call(unix.SYS_SECCOMP, 0, 0, 0)},
		{"unknown call", "ENOSYS", call(1999)},
	}
}

func TestVSwitch(t *testing.T) {
	testServer(t, "vswitch", vswitchAttempts(), "files over a pair", "double", "timer", "threads", "memory", "mapping")
}
