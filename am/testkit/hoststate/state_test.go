package hoststate_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/require"
)

const inside = "CENSUS_TEST_INSIDE"

// TestMain runs the tests as root in mount, network and IPC namespaces of their own, so that
// their leaks do not affect the real host.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		if os.Getenv(inside) != "" {
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				fmt.Fprintln(os.Stderr, "cannot make mounts private:", err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	if err := again.Run(); err != nil {
		os.Exit(1)
	}
}

// name is a mark that no other run uses.
func name(t testing.TB) string { return fmt.Sprintf("state-%d-%s", os.Getpid(), t.Name()) }

func take(t testing.TB, o hoststate.Options) hoststate.State {
	t.Helper()
	c, err := hoststate.Take(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sleeper starts a process that outlives its parent, and ends it with undo. It
// bears no mark but what its environment says. The program may be another than
// sleep, and a command may stand before the shell that starts it.
func sleeper(t *testing.T, environ, program string, prefix ...string) (pid int, undo func()) {
	t.Helper()
	args := append(prefix, "sh", "-c", program+" 60 >&- 2>&- & echo $!")
	c := exec.Command(args[0], args[1:]...)
	c.Env, c.Dir = []string{"PATH=" + os.Getenv("PATH"), environ}, "/"
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil || pid < 2 {
		t.Fatalf("%q: no process number: %q", args, out)
	}
	return pid, func() { syscall.Kill(pid, syscall.SIGKILL) }
}

func mount(t *testing.T, source, target, kind string, flags uintptr) func() {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		t.Fatalf("mount at %s: %v", target, err)
	}
	return func() { unix.Unmount(target, unix.MNT_DETACH) }
}

func TestEveryKindOfLeakIsNamed(t *testing.T) {
	require.Root(t)
	mark, dir := name(t), t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	b, err := os.ReadFile("/bin/sleep")
	if err == nil {
		err = os.WriteFile(program, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := hoststate.Options{
		Only: []string{mark, dir, program}, Roots: []string{root, filepath.Join(dir, "absent")},
		Temp: []string{mark},
	}
	for _, c := range []struct {
		name string
		want string // a beginning of the line of this leak
		// plant makes the leak and tells how to undo it.
		plant func(t *testing.T) func()
	}{
		{"Process", "new: process ", func(t *testing.T) func() {
			_, undo := sleeper(t, "MARK="+mark, "sleep")
			return undo
		}},
		{"ProcessOfAProgramUnderAnotherName", "new: process ", func(t *testing.T) func() {
			other := filepath.Join(t.TempDir(), "other")
			if err := os.Link(program, other); err != nil {
				t.Fatal(err)
			}
			_, undo := sleeper(t, "A=B", other)
			return undo
		}},
		{"UnreapedChild", "ended and not waited for", func(t *testing.T) func() {
			c := exec.Command("true")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			var info unix.Siginfo // waits for the end and leaves the zombie
			if err := unix.Waitid(unix.P_PID, c.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
			return func() { c.Wait() }
		}},
		{"Cgroup", "new: cgroup /", func(t *testing.T) func() {
			path := filepath.Join(hierarchy(t), mark, "below")
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			return func() { unix.Rmdir(path); unix.Rmdir(filepath.Dir(path)) }
		}},
		{"MountOnTheHost", "new: mount on the host at /mnt: tmpfs", func(t *testing.T) func() {
			return mount(t, "tmpfs", "/mnt", "tmpfs", 0)
		}},
		{"MountOfOthers", "new: mount in mnt:[", func(t *testing.T) func() {
			_, undo := sleeper(t, "A=B", "sleep", "unshare", "-m", "sh", "-c", "mount -t tmpfs x "+root+" && exec \"$@\"", "x")
			return undo
		}},
		{"NamespaceOfAProcess", "new: namespace net:[", func(t *testing.T) func() {
			_, undo := sleeper(t, "MARK="+mark, "sleep", "unshare", "-n")
			return undo
		}},
		{"NamespaceOfAThread", "new: namespace uts:[", func(t *testing.T) func() {
			ready, end := make(chan error), make(chan bool)
			var thread func()
			thread = func() {
				runtime.LockOSThread() // never unlocked: the thread ends with its namespace
				if unix.Gettid() == os.Getpid() {
					go thread() // the first thread would not end
					<-end
					runtime.UnlockOSThread()
					return
				}
				ready <- unix.Unshare(unix.CLONE_NEWUTS)
				<-end
			}
			go thread()
			if err := <-ready; err != nil {
				t.Fatal(err)
			}
			return func() { close(end) }
		}},
		{"NamespaceOfADescriptor", "new: namespace net:[", func(t *testing.T) func() {
			pid, end := sleeper(t, "A=B", "sleep", "unshare", "-n")
			f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
			end()
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		}},
		{"NamespaceOfAMount", "nsfs net:[", func(t *testing.T) func() {
			pid, end := sleeper(t, "A=B", "sleep", "unshare", "-n")
			defer end()
			pin := filepath.Join(dir, "pin")
			if err := os.WriteFile(pin, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return mount(t, fmt.Sprintf("/proc/%d/ns/net", pid), pin, "", unix.MS_BIND)
		}},
		{"InterfaceOnTheHost", "new: network interface census0 on the host", func(t *testing.T) func() {
			require.TUN(t)
			f := tunnel(t, "census0")
			return func() { f.Close() }
		}},
		{"InterfaceOfAProcess", "new: network interface lo in net:[", func(t *testing.T) func() {
			_, undo := sleeper(t, "MARK="+mark, "sleep", "unshare", "-n")
			return undo
		}},
		{"LoopDevice", "new: loop device loop", func(t *testing.T) func() {
			return loop(t, filepath.Join(dir, "disk"))
		}},
		{"File", "new: file -rw------- " + root + "/sub/file, owner 0:0", func(t *testing.T) func() {
			sub := filepath.Join(root, "sub")
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(sub, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { os.RemoveAll(sub) }
		}},
		{"RightsOfAFolder", "gone: folder drwx------ " + root, func(t *testing.T) func() {
			if err := os.Chmod(root, 0o755); err != nil {
				t.Fatal(err)
			}
			return func() { os.Chmod(root, 0o700) }
		}},
		{"TemporaryFile", "new: temporary file ", func(t *testing.T) func() {
			path := filepath.Join(os.TempDir(), mark)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(path) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := take(t, o)
			undo := once(c.plant(t))
			defer undo()
			has := func(s string) bool { return strings.Contains(s, c.want) }
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
				lines := hoststate.Diff(before, take(t, o))
				if slices.ContainsFunc(lines, has) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("no line with %q in:\n%s", c.want, strings.Join(lines, "\n"))
				}
			}
			undo()
			hoststate.Await(t, before, 30*time.Second)
		})
	}
}

// once makes a function that does it once.
func once(f func()) func() {
	return func() {
		if f != nil {
			f()
			f = nil
		}
	}
}

// hierarchy is where cgroups can be made.
func hierarchy(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{" - cgroup2 ", " - cgroup "} {
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, kind) {
				return strings.Fields(line)[4]
			}
		}
	}
	t.Fatal("no cgroup hierarchy is mounted")
	return ""
}

// tunnel makes a network interface that is gone when the file is closed.
func tunnel(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	r.SetUint16(unix.IFF_TAP)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "tun")
}

// loop binds a file to a free loop device.
func loop(t *testing.T, path string) func() {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = f.Truncate(1 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	for range 20 { // others may take the free one first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			t.Fatal(err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		info := unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}
		copy(info.File_name[:], path)
		if err = unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(f.Fd())); err == nil {
			if err := unix.IoctlLoopSetStatus64(int(device.Fd()), &info); err != nil {
				t.Fatal(err)
			}
			return func() { device.Close(); os.Remove(path) }
		}
		device.Close()
	}
	t.Fatal("no loop device could be taken")
	return nil
}

func TestChangesOfOthersAreIgnored(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	o := hoststate.Options{Only: []string{"state-a1"}, Except: []string{"except-this"}, Roots: []string{dir}}
	before := take(t, o)
	pid, undo := sleeper(t, "MARK=state-a10", "sleep")
	defer undo()
	pin := filepath.Join(t.TempDir(), "pin")
	if err := os.WriteFile(pin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer mount(t, fmt.Sprintf("/proc/%d/ns/net", pid), pin, "", unix.MS_BIND)()
	if err := os.Symlink("state-a10/node", filepath.Join(dir, "1879113728")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state-a10", "state-a1-except-this", "plain"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("state-b1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if lines := hoststate.Diff(before, take(t, o)); len(lines) > 0 {
		t.Errorf("counted:\n%s", strings.Join(lines, "\n"))
	}
	for name, text := range map[string]string{"state-a1.x": "", "claim": "of state-a1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("state-a1/node", filepath.Join(dir, "1879048192")); err != nil {
		t.Fatal(err)
	}
	if lines := hoststate.Diff(before, take(t, o)); len(lines) != 3 {
		t.Errorf("a file by its name, one by its text and a link by its target are not reported:\n%s", strings.Join(lines, "\n"))
	}
}

// Tests of several packages run at the same time. An interface or a mount of another one may
// appear or disappear, and its name has its owner.
func TestChangesOfOtherTestsAreIgnored(t *testing.T) {
	require.TUN(t)
	require.Root(t)
	dir := t.TempDir()
	o := hoststate.Options{Only: []string{"state-n1"}}
	before := take(t, o)
	f := tunnel(t, "census1")
	defer f.Close()
	l, err := netlink.LinkByName("census1")
	if err != nil {
		t.Fatal(err)
	}
	defer mount(t, "tmpfs", dir, "tmpfs", 0)()
	for alias, want := range map[string]int{"patchbay-local state-n10": 0, "patchbay-local state-n1": 1} {
		if err := netlink.LinkSetAlias(l, alias); err != nil {
			t.Fatal(err)
		}
		lines := hoststate.Diff(before, take(t, o))
		if len(lines) != want || want > 0 && lines[0] != "new: network interface census1 on the host" {
			t.Errorf("with the alias %q counted:\n%s", alias, strings.Join(lines, "\n"))
		}
	}
	defer mount(t, "state-n1", dir, "tmpfs", 0)()
	if lines := hoststate.Diff(before, take(t, o)); !slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, "mount on the host at "+dir) }) {
		t.Errorf("the own mount is not reported:\n%s", strings.Join(lines, "\n"))
	}
}

// Waiting for a child that had ended before the test leaves the host as it was.
func TestChildrenThatAreWaitedForLater(t *testing.T) {
	require.Root(t)
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, c.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	before := take(t, hoststate.Options{Only: []string{name(t)}})
	c.Wait()
	if lines := hoststate.Diff(before, take(t, hoststate.Options{Only: []string{name(t)}})); len(lines) > 0 {
		t.Errorf("counted:\n%s", strings.Join(lines, "\n"))
	}
}

func TestEmptyMarksAreRefused(t *testing.T) {
	require.Root(t)
	for _, o := range []hoststate.Options{{}, {Only: []string{""}}, {Only: []string{"a"}, Except: []string{"a", ""}}, {Only: []string{"a"}, Temp: []string{""}}} {
		if _, err := hoststate.Take(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
