package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/gateway"
)

const nodeC = "00000000-0000-4000-8000-00000000e5cc"

// The test binary runs again here on the host, as an unprivileged user.
func init() {
	if os.Getenv("PATCHBAY_SANDBOX") != "" {
		fmt.Print(errnoText(sandbox()))
		os.Exit(0)
	}
}

// mostFilters is the maximum number of filters that attachFilters attaches: 40 MB of
// machine code.
const mostFilters = 600

// attachFilters attaches filters to sockets: the largest possible, then smaller ones
// while there is memory.
func attachFilters() string {
	n := 0
	for size := 4096; size > 0 && n < mostFilters; {
		if err := attachFilter(size); err != nil {
			size /= 2
			continue
		}
		n++
	}
	return fmt.Sprint(n)
}

func attachFilter(size int) error {
	program := make([]unix.SockFilter, size)
	for i := range program {
		program[i] = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | unix.BPF_W}
	}
	program[size-1] = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(size), Filter: &program[0]})
}

// sandbox installs a filter of system calls, as programs without rights do.
func sandbox() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := make([]unix.SockFilter, 64)
	for i := range program {
		program[i] = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | unix.BPF_W}
	}
	program[len(program)-1] = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	if e != 0 {
		return e
	}
	return nil
}

// filtersLeaveRoom has one node attach more filters than kernels allow by default. "up" raises the
// limit; the tests of package sysctl lower it first, in files of their own, since tests of other packages
// run at the same time on this host.
func (a *arena) filtersLeaveRoom(t *testing.T) {
	if n, _ := a.background(t, nodeA, "filters"); n != fmt.Sprint(mostFilters) {
		t.Errorf("after %s filters in a node there is no room for more", n)
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"PATCHBAY_SANDBOX=1"}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || string(out) != "done" {
		t.Errorf("another user's filter of system calls on the host: %q, %v", out, err)
	}
	a.node(t, nodeC, nil)
	if got, err := a.ssh(t, nodeB, "echo alive"); err != nil || got != "alive\n" {
		t.Errorf("a login at the other node: %q, %v", got, err)
	}
	a.remove(t, nodeC)
}

// fillBacklog leaves data waiting in unaccepted connections.
func fillBacklog() string {
	const address = "127.0.0.1:9000"
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err.Error()
	}
	got := make(chan string)
	go func() { // together with an accepted connection
		c, err := l.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		text, _ := io.ReadAll(c)
		got <- string(text)
	}()
	sent, block := 0, make([]byte, 1<<16)
	for i := range 1000 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err.Error()
		}
		if i == 0 {
			_, _ = c.Write([]byte("accepted"))
			c.Close()
			if text := <-got; text != "accepted" {
				return text
			}
			continue
		}
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // stops when the buffer is full
		n, _ := c.Write(block)
		sent += n
		c.Close()
	}
	return fmt.Sprint(sent)
}

// connectionsAreBounded has a node keep data in unaccepted connections. That memory is charged to
// no node, so the limit of all of TCP must leave the host most of its memory.
func (a *arena) connectionsAreBounded(t *testing.T) {
	before := tcpPages(t)
	sent, _ := a.background(t, nodeA, "backlog")
	bytes, err := strconv.Atoi(sent)
	if err != nil || bytes < 10<<20 {
		t.Fatalf("a node cannot leave data waiting: %s", sent)
	}
	t.Logf("%d MB wait in %d pages", bytes>>20, tcpPages(t)-before)
	var most int64
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	if err == nil {
		_, err = fmt.Sscan(string(text), new(int), new(int), &most)
	}
	var host unix.Sysinfo_t
	if err := errors.Join(err, unix.Sysinfo(&host)); err != nil {
		t.Fatal(err)
	}
	if n := most * int64(os.Getpagesize()); most <= 30000 || n > int64(host.Totalram)*int64(host.Unit)/4 {
		t.Errorf("TCP may have %d MB", n>>20)
	}
}

// tcpPages returns the pages that TCP uses on the host.
func tcpPages(t *testing.T) (pages int) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/sockstat")
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(line, " mem "); ok && strings.HasPrefix(name, "TCP:") {
			pages, err = strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// processesLeaveRoom has two nodes use up the processes of all nodes together. The host, the
// testbed and a new gateway continue to work.
func (a *arena) processesLeaveRoom(t *testing.T) {
	limits, _ := filepath.Glob("/sys/fs/cgroup/pids/patchbay-local/" + a.instance + "/pids.max")
	if len(limits) == 0 {
		limits, _ = filepath.Glob("/sys/fs/cgroup/patchbay-local/" + a.instance + "/pids.max")
	}
	if len(limits) != 1 {
		t.Fatalf("the instance's group has the limits %q", limits)
	}
	// Enough for the two nodes, but less than their own limits (160 each).
	const together = "180"
	if err := os.WriteFile(limits[0], []byte(together), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nodeA, nodeB} {
		if line, _ := a.background(t, name, "forks"); !strings.HasSuffix(line, " EAGAIN") {
			t.Errorf("forks in %s end with %q", name, line)
		}
	}
	if now, err := os.ReadFile(filepath.Join(filepath.Dir(limits[0]), "pids.current")); err != nil || strings.TrimSpace(string(now)) != together {
		t.Errorf("all nodes have %s processes, %v, want %s", now, err, together)
	}
	if err := exec.Command("/bin/true").Run(); err != nil {
		t.Errorf("the host starts nothing more: %v", err)
	}
	if n := len(a.list(t).Nodes); n != 2 {
		t.Errorf("the testbed reports %d nodes", n)
	}
	// A new gateway must now start all its threads, without those of the previous one.
	if err := os.WriteFile(limits[0], []byte("100"), 0); err != nil {
		t.Fatal(err)
	}
	for _, pid := range a.childrenOf(gateway.Argv0) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	endpoint := getNode(t, a.provider, nodeA).List(provider.AttrLogin)[0]
	wait.Clear(t, func() string {
		banner := ""
		c, err := net.DialTimeout("tcp", endpoint, bedTime)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(bedTime))
			banner, err = bufio.NewReader(c).ReadString('\n')
			c.Close()
		}
		if strings.HasPrefix(banner, "SSH-2.0-") {
			return ""
		}
		return fmt.Sprintf("a new gateway does not answer: %q, %v", banner, err)
	})
}
