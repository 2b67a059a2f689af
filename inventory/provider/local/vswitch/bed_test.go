package vswitch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == Argv0 {
		Main()
	}
	os.Exit(m.Run())
}

// testUID is an unused user id.
const testUID = 0x6fff0002

// host is a network namespace in place of a node; its only interface is the TAP of a
// port.
type host struct {
	t       testing.TB
	number  int
	segment bool
	address netip.Addr
	jobs    chan func()
}

// needTAPs skips the test without root and TAP devices.
func needTAPs(t testing.TB) {
	t.Helper()
	require.NetNS(t)
	require.TUN(t)
}

// newHost creates host number n, with the address 10.9.0.n.
func newHost(t testing.TB, n int, segment bool) *host {
	t.Helper()
	needTAPs(t)
	h := &host{t: t, number: n, segment: segment, address: netip.AddrFrom4([4]byte{10, 9, byte(n >> 8), byte(n)}), jobs: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		made <- err
		for f := range h.jobs {
			f()
		}
	}()
	must(t, <-made)
	t.Cleanup(func() { close(h.jobs) })
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do runs f in the namespace.
func (h *host) do(f func() error) error {
	done := make(chan error)
	h.jobs <- func() { done <- f() }
	return <-done
}

// port returns the host's end of a link.
func (h *host) port() Port {
	return Port{ID: fmt.Sprint("p", h.number), Open: h.open, MTU: 1500}
}

// open creates the TAP.
func (h *host) open() (f *os.File, err error) {
	err = h.do(func() error {
		if f, err = OpenTAP("eth0", h.segment); err != nil {
			return err
		}
		return h.configure()
	})
	return f, err
}

func (h *host) configure() error {
	// The same address after a recreation, because other hosts remember it.
	if err := setMAC("eth0", address(h.number)); err != nil {
		return err
	}
	if err := ioctl("eth0", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(h.address.AsSlice()) }); err != nil {
		return err
	}
	if err := ioctl("eth0", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 0, 0}) }); err != nil {
		return err
	}
	if err := setFlags("lo", unix.IFF_UP); err != nil {
		return err
	}
	return setFlags("eth0", unix.IFF_UP)
}

// setFlags sets an interface of the calling thread's namespace up, or down.
func setFlags(name string, flags uint16) error {
	return ioctl(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(flags); return nil })
}

// setMAC sets the address of an interface of the calling thread's namespace.
func setMAC(name string, m mac) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var r [40]byte // struct ifreq
	copy(r[:unix.IFNAMSIZ], name)
	binary.NativeEndian.PutUint16(r[unix.IFNAMSIZ:], unix.ARPHRD_ETHER)
	copy(r[unix.IFNAMSIZ+2:], m[:])
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFHWADDR, uintptr(unsafe.Pointer(&r))); e != 0 {
		return e
	}
	return nil
}

func ioctl(name string, call uint, fill func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = fill(r)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, call, r)
	}
	return err
}

// deleteLink deletes an interface of the calling thread's namespace.
func deleteLink(name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_DELLINK)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr+4:], uint32(i.Index))
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("%d bytes: %w", n, err)
	}
	if e := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); e != 0 {
		return unix.Errno(e)
	}
	return nil
}

// cpuOf returns the processor time of a process.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(string(f))
		must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

func (h *host) at(port int) string { return fmt.Sprintf("%s:%d", h.address, port) }

// udp listens at a port.
func (h *host) udp(port int) *net.UDPConn { return h.udpAt(h.at(port)) }

func (h *host) udpAt(address string) *net.UDPConn {
	h.t.Helper()
	var c net.PacketConn
	must(h.t, h.do(func() (err error) { c, err = net.ListenPacket("udp4", address); return err }))
	h.t.Cleanup(func() { c.Close() })
	u := c.(*net.UDPConn)
	must(h.t, u.SetReadBuffer(8<<20))
	return u
}

// dialUDP opens a socket to another host.
func (h *host) dialUDP(to *host, port int) *net.UDPConn { return h.dialUDPAt(to.at(port)) }

func (h *host) dialUDPAt(address string) *net.UDPConn {
	h.t.Helper()
	var c net.Conn
	must(h.t, h.do(func() (err error) { c, err = net.Dial("udp4", address); return err }))
	h.t.Cleanup(func() { c.Close() })
	return c.(*net.UDPConn)
}

// newManager creates a Manager whose switch process is this binary.
func newManager(t testing.TB) (k *Manager, pids chan int, log *wait.Buffer) {
	t.Helper()
	require.Root(t)
	program, err := os.Executable()
	must(t, err)
	log, pids = new(wait.Buffer), make(chan int, 100)
	k = New(Options{Program: program, UID: testUID, Log: slog.New(slog.NewTextHandler(log, nil)),
		SetLimits: func(pid int) error { pids <- pid; return nil }})
	t.Cleanup(func() {
		must(t, k.Close())
		if t.Failed() {
			t.Log(log)
		}
	})
	return k, pids, log
}

// lanOf connects hosts by a link, and waits until each can reach the others.
func lanOf(t testing.TB, k *Manager, paths []Path, hosts ...*host) {
	t.Helper()
	l := Link{ID: "lan", Paths: paths}
	for _, h := range hosts {
		l.Ports = append(l.Ports, h.port())
	}
	must(t, k.SetLink(t.Context(), l))
}

// probe sends packets with their sending time, pause apart, and returns the delay of each
// that arrived.
func probe(t testing.TB, from, to *host, n int, pause time.Duration) []time.Duration {
	t.Helper()
	const port = 7001
	in := to.udp(port)
	defer in.Close()
	out := from.dialUDP(to, port)
	defer out.Close()
	start := time.Now()
	send := func(number int) {
		b := make([]byte, 100)
		binary.NativeEndian.PutUint64(b, uint64(number))
		binary.NativeEndian.PutUint64(b[8:], uint64(time.Since(start)))
		out.Write(b)
	}
	read := func() (number int, took time.Duration, err error) {
		b := make([]byte, 2000)
		if _, err := in.Read(b); err != nil {
			return 0, 0, err
		}
		now := time.Since(start)
		return int(binary.NativeEndian.Uint64(b)), now - time.Duration(binary.NativeEndian.Uint64(b[8:])), nil
	}
	// The first packet resolves the address.
	for tries := 0; ; tries++ {
		send(0)
		in.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, _, err := read(); err == nil {
			break
		}
		if tries == 50 {
			t.Fatalf("nothing comes from host %d to host %d", from.number, to.number)
		}
	}
	in.SetReadDeadline(time.Time{})
	go func() {
		next := time.Now()
		for i := range n {
			send(i + 1)
			next = next.Add(pause)
			time.Sleep(time.Until(next))
		}
		time.Sleep(2 * time.Second) // later packets count as lost
		in.SetReadDeadline(time.Now())
	}()
	var took []time.Duration
	for last := 0; ; {
		number, d, err := read()
		if err != nil {
			return took
		}
		if number == 0 {
			continue
		}
		if number <= last {
			t.Errorf("packet %d after %d", number, last)
		}
		last = number
		if took = append(took, d); number == n {
			return took
		}
	}
}
