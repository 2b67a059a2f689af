package sandbox

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

const gatewayID = hostID + 1

// fakeGateway restricts itself like the gateway, and then does what the gateway does. It
// prints the result of each step, and waits for the end of its input.
func fakeGateway() {
	four, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	one, err := net.Dial("tcp", four.Addr().String())
	must(err)
	two, err := net.Dial("tcp", four.Addr().String())
	must(err)
	file, err := four.(*net.TCPListener).File()
	must(err)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(err)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	for range 4 { // threads from before
		go func() { runtime.LockOSThread(); select {} }()
	}
	spare, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Listen(spare, 1))
	must(Gateway(gatewayID, gatewayID))

	say := func(name string, err error) { fmt.Printf("%s: %s\n", name, resultOf(err)) }
	say("serve", echo(four, one))
	passed, err := net.FileListener(file)
	if err == nil {
		err = echo(passed, two)
	}
	say("passed listener", err)
	say("threads", threads())
	say("memory", memory())
	say("pipe", pipe())
	say("files over a pair", passFiles(pair, terminal))
	say("window size", unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 9, Col: 9}))
	_, err = rand.Read(make([]byte, 1000))
	say("random", err)
	say("deadline", deadline())

	for _, a := range gatewayAttempts(spare) {
		say(a.name, a.try())
	}
	fmt.Println("state: ready")
	io.Copy(io.Discard, os.Stdin)
}

// resultOf returns a short name for an error.
func resultOf(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return unix.ErrnoName(e)
	}
	return errorName(err)
}

// gatewayAttempts returns the forbidden attempts; listener is a listening socket.
func gatewayAttempts(listener int) []attempt {
	return []attempt{
		{"open", "EPERM", func() error { _, err := os.Open("/etc/passwd"); return err }},
		{"open /proc", "EPERM", func() error { _, err := os.Open("/proc/self/status"); return err }},
		{"stat", "EPERM", func() error { _, err := os.Stat("/"); return err }},
		{"kill others", "EPERM", func() error { return unix.Kill(os.Getppid(), 0) }},
		{"signal to a thread of others", "EPERM", func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) }},
		{"fork", "EPERM", call(unix.SYS_CLONE, uintptr(unix.SIGCHLD))},
		{"dial", "EPERM", func() error { _, err := net.Dial("tcp4", "127.0.0.1:1"); return err }},
		{"connect", "EPERM", call(unix.SYS_CONNECT, 0, 0, 0)},
		{"connect a listener", "EPERM", func() error {
			if err := unix.Shutdown(listener, unix.SHUT_RDWR); err != nil {
				return err
			}
			to := &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}}
			return unix.Sendmsg(listener, []byte("x"), nil, to, unix.MSG_FASTOPEN)
		}},
		{"become root", "EPERM", call(unix.SYS_SETRESUID, 0, 0, 0)},
		{"open to debuggers", "EPERM", call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)},
		{"code in memory", "EPERM", call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0))},
		{"memory file", "EPERM", call(unix.SYS_MEMFD_CREATE, path("x"), 0)},
		{"another filter", "EPERM", call(unix.SYS_SECCOMP, 0, 0, 0)},
		{"unknown call", "ENOSYS", call(1999)},
	}
}

// echo sends data through c, which waits to be accepted by l, and back.
func echo(l net.Listener, c net.Conn) error {
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		served <- err
	}()
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	want := bytes.Repeat([]byte("0123456789"), 1e5)
	go func() {
		c.Write(want)
		c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%d bytes came back of %d", len(got), len(want))
	}
	return errors.Join(err, <-served)
}

// threads starts many threads at once, and lets them end.
func threads() error {
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			runtime.LockOSThread()
			unix.Nanosleep(&unix.Timespec{Nsec: 5e6}, nil)
		})
	}
	all.Wait()
	return nil
}

// memory allocates and frees memory, while signals preempt goroutines that never yield.
func memory() error {
	var stop, held = make(chan struct{}), [][]byte{}
	go func() {
		for n := 0; ; n++ {
			if n%1e6 == 0 {
				select {
				case <-stop:
					return
				default:
				}
			}
		}
	}()
	for range 64 {
		held = append(held, make([]byte, 1<<20))
	}
	for i := range held {
		held[i][i] = 1
	}
	runtime.GC()
	held = nil
	debug.FreeOSMemory()
	close(stop)
	return nil
}

func pipe() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	go func() { w.WriteString("x"); w.Close() }()
	b, err := io.ReadAll(r)
	if string(b) != "x" {
		err = fmt.Errorf("read %q: %v", b, err)
	}
	return err
}

// passFiles sends a file over a pair of Unix sockets.
func passFiles(pair [2]int, f *os.File) error {
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return err
	}
	room := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), room, unix.MSG_CMSG_CLOEXEC)
	if err == nil && n == 0 {
		err = errors.New("no file came")
	}
	return err
}

func deadline() error {
	r, _, err := os.Pipe()
	if err != nil {
		return err
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return err
	}
	if _, err = r.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return err
}

func TestGateway(t *testing.T) {
	testServer(t, "gateway", gatewayAttempts(-1), "serve", "passed listener", "threads", "memory", "pipe",
		"files over a pair", "window size", "random", "deadline")
}

// testServer runs the named child, which restricts itself, and compares its results with
// the attempts that must fail and the steps that must work.
func testServer(t *testing.T, word string, cannot []attempt, can ...string) {
	t.Helper()
	require.Root(t)
	c := child(t, word)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	c.Stderr = &complaints
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for s := bufio.NewScanner(out); s.Scan() && s.Text() != "state: ready"; {
		fmt.Fprintln(&said, s.Text())
	}
	threads := statuses(c.Process.Pid)
	_, aloof := os.Stat(fmt.Sprintf("/proc/%d/exe", c.Process.Pid))
	owner := ownerOf(fmt.Sprintf("/proc/%d/environ", c.Process.Pid))
	in.Close()
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, said.Bytes(), complaints.Bytes())
	}
	got := lines(said.Bytes())
	for _, name := range can {
		t.Run("Can/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if got[name] != "done" {
				t.Errorf("%q", got[name])
			}
		})
	}
	for _, a := range cannot {
		t.Run("Cannot/"+strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			if got[a.name] != a.want {
				t.Errorf("%q, want %q", got[a.name], a.want)
			}
		})
	}
	if aloof != nil || owner != 0 {
		t.Errorf("/proc of it: %v, owner %d, want root's", aloof, owner)
	}
	if len(threads) < 5 {
		t.Fatalf("%d threads, want those from before", len(threads))
	}
	id := fmt.Sprint(gatewayID)
	ids := strings.Join([]string{id, id, id, id}, "\t")
	for _, s := range threads {
		for name, want := range map[string]string{
			"Uid": ids, "Gid": ids, "Groups": "",
			"CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000",
			"NoNewPrivs": "1", "Seccomp": "2",
		} {
			if s[name] != want {
				t.Errorf("thread %s: %s %q, want %q", s["Pid"], name, s[name], want)
			}
		}
	}
}

// statuses returns the status of each thread of a process.
func statuses(pid int) []map[string]string {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	var all []map[string]string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		s := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			s[name] = strings.TrimSpace(value)
		}
		all = append(all, s)
	}
	return all
}

func ownerOf(path string) int {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return -1
	}
	return int(s.Uid)
}

// deadly returns the calls that kill the gateway.
func deadly() map[string]func() {
	call := func(n uintptr, args ...uintptr) func() { return func() { _ = call(n, args...)() } }
	return map[string]func(){
		"execve": func() { _ = syscall.Exec("/bin/true", []string{"true"}, nil) },
		"execveat": func() {
			empty := [1]uintptr{}
			call(unix.SYS_EXECVEAT, ^uintptr(99), path("/bin/true"), uintptr(unsafe.Pointer(&empty)), uintptr(unsafe.Pointer(&empty)), 0)()
		},
		"ptrace":            call(unix.SYS_PTRACE, unix.PTRACE_TRACEME),
		"process_vm_readv":  call(unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid())),
		"mount":             call(unix.SYS_MOUNT),
		"unshare":           call(unix.SYS_UNSHARE),
		"setns":             call(unix.SYS_SETNS),
		"bpf":               call(unix.SYS_BPF),
		"io_uring_setup":    call(unix.SYS_IO_URING_SETUP),
		"keyctl":            call(unix.SYS_KEYCTL),
		"open_by_handle_at": call(unix.SYS_OPEN_BY_HANDLE_AT),
		"init_module":       call(unix.SYS_INIT_MODULE),
		"chroot":            call(unix.SYS_CHROOT, path("/")),
	}
}

// makeDeadlyCall restricts itself as the server in its first argument, and makes the
// deadly call in its second.
func makeDeadlyCall() {
	switch os.Args[1] {
	case "gateway":
		must(Gateway(gatewayID, gatewayID))
	case "vswitch":
		must(VSwitch(gatewayID, gatewayID))
	}
	deadly()[os.Args[2]]()
	fmt.Println("lives")
}

func TestDeadlyCallsKillServers(t *testing.T) {
	require.Root(t)
	for _, server := range []string{"gateway", "vswitch"} {
		for name := range deadly() {
			t.Run(server+"/"+name, func(t *testing.T) { expectSIGSYS(t, child(t, "dies", server, name)) })
		}
	}
}

func expectSIGSYS(t *testing.T, c *exec.Cmd) {
	t.Helper()
	out, err := c.CombinedOutput()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != unix.SIGSYS {
		t.Errorf("%v, want the signal SIGSYS\n%s", err, out)
	}
}

func TestServersAreNeverRoot(t *testing.T) {
	for _, ids := range [][2]int{{0, 0}, {0, 1000}, {1000, 0}, {-1, 1000}, {1000, -1}} {
		if Gateway(ids[0], ids[1]) == nil || VSwitch(ids[0], ids[1]) == nil {
			t.Fatalf("%v was taken", ids)
		}
	}
}
