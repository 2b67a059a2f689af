package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local/sandbox"
)

// stageName is the name of the test program as the stage that creates the node's root.
const stageName = "agent-test-stage"

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case Argv0:
		Main()
	case "/" + program:
		if os.Args[1] == "stop" {
			stopOthers()
		}
		if err := sendSignals(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	case selfName:
		fmt.Println(strings.Join(os.Args, " "), os.Getuid())
		os.Exit(0)
	case stageName:
		fmt.Fprintln(os.Stderr, "the stage of the test:", runStage(os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// selfName is the name of the test program when it prints its arguments and its user.
const selfName = "agent-test-self"

// realProgram is executed as the agent if it exists.
const realProgram = "run/patchbay/bin/patchbay-local"

// otherSudo is the node's /usr/bin/sudo if it exists.
const otherSudo = "var/lib/other-sudo"

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// firstID is the first id of the test nodes' user namespace. The testbed does not allocate it.
const firstID = 0x6f000000

// program is the path of the agent's executable in the node.
const program = "run/patchbay/bin/agent"

// node is a small node for tests: with its own namespaces, a root of the host's /usr and a few
// files, the sandbox of real nodes, and the agent as PID 1.
type node struct {
	t    testing.TB
	root string
	path string // of the agent's socket
	pid  int
}

// nodeFiles are the initial files of a node, by path.
var nodeFiles = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
		"bob:x:1001:1001::/home/bob:/bin/bash\nsh:x:1002:1001::/nowhere:/bin/sh\n",
	"etc/shadow":       "root:*:::::::\ndaemon:*:::::::\nbob:*:::::::\n",
	"etc/group":        "root:x:0:\ntty:x:5:\nlab:x:700:bob,eve\nbob:x:1001:\n",
	"etc/hosts":        "127.0.0.1\tlocalhost\n",
	"etc/sudoers":      "@includedir /etc/sudoers.d\n",
	"etc/skel/.bashrc": "# empty\n",
	"etc/profile":      "PS1='$ '\n",
}

var nodeFolders = []string{
	"dev/pts", "etc/skel", "etc/sudoers.d", "home/bob", "proc", "root", "run/patchbay/bin", "tmp", "usr", "var/lib",
}

// newRoot creates the files of a node.
func newRoot(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
	check(t, os.Chmod(dir, 0o755))
	for _, d := range nodeFolders {
		check(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for name, text := range nodeFiles {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		check(t, os.Symlink("usr/"+name, filepath.Join(dir, name)))
	}
	check(t, os.Chmod(filepath.Join(dir, "tmp"), 0o1777))
	check(t, filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		check(t, err)
		return os.Lchown(path, firstID, firstID)
	}))
	copyProgram(t, dir)
	check(t, os.Lchown(filepath.Join(dir, "home/bob"), firstID+1001, firstID+1001))
	return dir
}

// copyProgram copies the test program into a node, executable for all users.
func copyProgram(t testing.TB, dir string) {
	t.Helper()
	own, err := os.Executable()
	check(t, err)
	to := filepath.Join(dir, program)
	if os.Link(own, to) != nil { // on another file system
		text, err := os.ReadFile(own)
		check(t, err)
		check(t, os.WriteFile(to, text, 0o755))
	}
}

// newNode starts a node, with the given cgroup.procs files.
func newNode(t testing.TB, jobs ...*os.File) *node {
	t.Helper()
	require.Root(t)
	return startNode(t, newRoot(t), jobs...)
}

func startNode(t testing.TB, root string, jobs ...*os.File) *node {
	t.Helper()
	n := &node{t: t, root: root, path: filepath.Join(t.TempDir(), "agent.sock")}
	l, err := fdsocket.Listen(n.path, 0o600)
	check(t, err)
	listener, err := l.File()
	check(t, err)
	var numbers []string
	for i := range jobs {
		numbers = append(numbers, fmt.Sprint(4+i))
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstID, Size: 65536}}
	c := exec.Command(filepath.Join(root, program), root)
	c.Args[0] = stageName
	c.Env = []string{"GOMAXPROCS=1", "GODEBUG=disablethp=1", nodeVariable + "=node-1", jobsVariable + "=" + strings.Join(numbers, ",")}
	c.Stderr = os.Stderr
	c.ExtraFiles = append([]*os.File{listener}, jobs...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS |
			unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
	}
	check(t, c.Start())
	n.pid = c.Process.Pid
	t.Cleanup(func() {
		c.Process.Kill()
		if c.Wait(); c.ProcessState.String() != "signal: killed" {
			t.Errorf("the agent has ended before: %v", c.ProcessState)
		}
	})
	listener.Close()
	l.Close()
	_, err = Ping(t.Context(), n.dial())
	check(t, err)
	return n
}

// runStage makes root the root of this process's mount namespace and becomes the agent.
func runStage(root string) error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	mounts := []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{root, root, "", unix.MS_BIND, ""},
		{"/usr", root + "/usr", "", unix.MS_BIND | unix.MS_REC, ""},
		{"proc", root + "/proc", "proc", 0, ""},
		{"devpts", root + "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"/dev/null", root + "/dev/null", "", unix.MS_BIND, ""},
		{"/dev/tty", root + "/dev/tty", "", unix.MS_BIND, ""},
	}
	if fileExists(root + "/" + otherSudo) {
		mounts = append(mounts, mount{root + "/" + otherSudo, root + "/usr/bin/sudo", "", unix.MS_BIND, ""})
	}
	for _, name := range []string{"/dev/null", "/dev/tty"} {
		if err := os.WriteFile(root+name, nil, 0o666); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := unix.Sethostname([]byte("alpha")); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if lo, err := net.InterfaceByName("lo"); err != nil || setUp(lo) != nil {
		return fmt.Errorf("lo: %v, %v", err, setUp(lo))
	}
	runtime.LockOSThread()
	if err := sandbox.Node(); err != nil {
		return err
	}
	agent := "/" + program
	if real := "/" + realProgram; fileExists(real) {
		agent = real
	}
	return syscall.Exec(agent, []string{Argv0}, os.Environ())
}

// setUp enables an interface.
func setUp(i *net.Interface) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(i.Name)
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) dial() *fdsocket.Conn {
	n.t.Helper()
	c, err := fdsocket.Dial(n.t.Context(), n.path)
	check(n.t, err)
	return c
}

// start starts a command with pipes and returns the ends of its input and output.
func (n *node) start(cmd Command) (p *Process, in, out *os.File) {
	n.t.Helper()
	theirIn, in := n.pipe()
	out, theirOut := n.pipe()
	p, err := Exec(n.t.Context(), n.dial(), cmd, []*os.File{theirIn, theirOut, theirOut})
	check(n.t, err)
	theirIn.Close()
	theirOut.Close()
	n.t.Cleanup(func() { p.Close() })
	return p, in, out
}

func (n *node) pipe() (r, w *os.File) {
	n.t.Helper()
	r, w, err := os.Pipe()
	check(n.t, err)
	n.t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// run runs a command and returns its output and its exit.
func (n *node) run(cmd Command) (string, Exit) {
	n.t.Helper()
	p, in, out := n.start(cmd)
	in.Close()
	text, err := readAll(out)
	check(n.t, err)
	exit, err := p.Wait()
	check(n.t, err)
	p.Close()
	return text, exit
}

// line runs a line as an account and returns its output.
func (n *node) line(user, line string) string {
	n.t.Helper()
	text, exit := n.run(Command{User: user, Line: line})
	if exit.Status != 0 {
		n.t.Fatalf("%s: %s: exit %+v: %s", user, line, exit, text)
	}
	return strings.TrimSuffix(text, "\n")
}

// readAll reads a pipe or a terminal until its end.
func readAll(f *os.File) (string, error) {
	f.SetReadDeadline(time.Now().Add(30 * time.Second))
	var text []byte
	for b := make([]byte, 4096); ; {
		k, err := f.Read(b)
		text = append(text, b[:k]...)
		if err != nil {
			if err.Error() == "EOF" || strings.Contains(err.Error(), "input/output error") { // a closed terminal
				return string(text), nil
			}
			return string(text), err
		}
	}
}

func queueSignal(pid int, s unix.Signal, info *[32]int32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(s), uintptr(unsafe.Pointer(info)))
	if errno != 0 {
		return errno
	}
	return nil
}

func withTimeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
