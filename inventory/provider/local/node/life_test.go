package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

func TestLifecycle(t *testing.T) {
	h := openHost(t, "node-life")
	ctx := t.Context()
	s := spec("n1", testImage(t))
	if _, err := h.Start(ctx, s); err == nil || !strings.Contains(err.Error(), "not prepared") {
		t.Errorf("start of a missing node: %v", err)
	}
	prepare(t, h, s)
	prepare(t, h, s) // repeated, as after a crash
	r := start(t, h, s)
	if found, ok := h.Find(ctx, "n1"); !ok || found != r {
		t.Errorf("found %+v %v, want %+v", found, ok, r)
	}
	expectOutput(t, h, "n1", "hostname; id -u; cat /sys/class/net/*/operstate", "n1.example.org\n0\nunknown\n")
	if _, err := h.Start(ctx, s); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second start: %v", err)
	}
	if _, ok := h.Find(ctx, "n1"); !ok {
		t.Error("a second start ended the node")
	}
	u, err := h.Usage("n1")
	if err != nil || u.Memory <= 0 || u.Memory > s.Limits.Memory || u.PIDs < 1 || u.Disk <= 0 || u.Disk > 4<<20 {
		t.Errorf("usage %+v %v", u, err)
	}
	if ids, err := h.IDs(); err != nil || !slices.Equal(ids, []string{"n1"}) {
		t.Errorf("nodes %v %v", ids, err)
	}
	kill(t, h, "n1")
	if _, ok := h.Find(ctx, "n1"); ok {
		t.Error("found after its end")
	}
	if died, _ := h.Died("n1"); died {
		t.Error("it is said to have died, and was killed")
	}
	if err := unix.Kill(r.PID, 0); err != unix.ESRCH {
		t.Errorf("PID 1 after its end: %v", err)
	}
	if _, err := h.Agent(ctx, "n1"); err == nil {
		t.Error("the agent of a dead node was reached")
	}
	if u, err := h.Usage("n1"); err != nil || u.Memory != 0 || u.PIDs != 0 || u.Disk <= 0 {
		t.Errorf("usage of a stopped node: %+v %v", u, err)
	}
	dir := h.Dir("n1")
	for range 2 { // removing a missing node succeeds
		if err := h.Remove(ctx, "n1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
	if ids, err := h.IDs(); err != nil || len(ids) > 0 {
		t.Errorf("nodes %v %v", ids, err)
	}
}

func TestFilesOutliveStops(t *testing.T) {
	h := openHost(t, "node-files")
	s := spec("n1", testImage(t))
	launch(t, h, s)
	runLine(t, h, "n1", "echo one > /etc/kept; echo two > /usr/local/bin/kept; rm /usr/bin/env; echo run > /run/gone; ln -s /usr/bin/true /usr/bin/mine")
	for range 2 {
		kill(t, h, "n1")
		start(t, h, s)
		expectOutput(t, h, "n1", "cat /etc/kept /usr/local/bin/kept; ls /run/gone /usr/bin/env 2>/dev/null; readlink /usr/bin/mine", "one\ntwo\n/usr/bin/true\n")
	}
	if _, err := os.Stat("/usr/bin/env"); err != nil {
		t.Errorf("the host's file: %v", err)
	}
	if _, err := os.Lstat("/usr/bin/mine"); err == nil {
		t.Error("the node wrote to the host's /usr")
	}
}

func TestImageWithItsOwnUsr(t *testing.T) {
	h := openHost(t, "node-whole")
	image := Image{Root: "/"} // the host's root as an image with its own /usr
	s := spec("n1", image)
	launch(t, h, s)
	expectOutput(t, h, "n1", "echo $((6*7)) > /usr/answer; cat /usr/answer; df --output=target /usr | tail -n 1", "42\n/\n")
	kill(t, h, "n1")
	start(t, h, s)
	expectOutput(t, h, "n1", "cat /usr/answer", "42\n")
}

func TestInstancesDoNotSeeEachOther(t *testing.T) {
	b := openHost(t, "node-right")
	a, err := Open(filepath.Join(t.TempDir(), "state"), "node-left", nil)
	must(t, err)
	t.Cleanup(func() { // if the test fails before
		if a, err := Open(a.State, a.Instance, nil); err == nil {
			removeAll(t, a)
			a.Close()
		}
	})
	sa, sb := spec("same", testImage(t)), spec("same", testImage(t))
	sb.Base += idCount
	launch(t, a, sa)
	rb := launch(t, b, sb)
	runLine(t, a, "same", "echo a > /mark; echo a > /dev/shm/mark; echo a > /tmp/mark")
	expectOutput(t, b, "same", "ls /mark /dev/shm/mark /tmp/mark 2>/dev/null; ls -d /proc/[0-9]* | wc -l | sed 's/^[0-9]$/few/'", "few\n")
	must(t, a.Remove(t.Context(), "same"))
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if found, ok := b.Find(t.Context(), "same"); !ok || found != rb {
		t.Errorf("the node of the other instance: %+v %v", found, ok)
	}
	expectOutput(t, b, "same", "echo alive", "alive\n")
}

// The nodes' folders must not occur in the host's mounts.
func TestMountsAreHiddenFromTheHost(t *testing.T) {
	h := openHost(t, "node-mounts")
	s := spec("n1", testImage(t))
	launch(t, h, s)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for _, path := range []string{h.State, s.Image.Root} {
		if strings.Contains(string(mounts), path) {
			t.Errorf("%s is in the host's list of mounts", path)
		}
	}
	inside, _ := runLine(t, h, "n1", "cat /proc/mounts /proc/self/mountinfo; grep -r . /sys/block /sys/class/block 2>/dev/null; ls -l /proc/self/exe")
	for _, path := range []string{h.State, s.Image.Root, "/tmp/"} {
		if strings.Contains(inside, path) {
			t.Errorf("the node sees %s:\n%s", path, inside)
		}
	}
	// The host's kernel command line, and the disk activity of other nodes.
	expectOutput(t, h, "n1", "cat /proc/cmdline /proc/diskstats /proc/partitions /sys/kernel/vmcoreinfo 2>/dev/null; ls /proc/pressure /sys/class/bdi /sys/kernel/boot_params 2>/dev/null | grep -v : | tr -d '\\n'", "")
}

func TestFindIgnoresOtherProcesses(t *testing.T) {
	h := openHost(t, "node-find")
	ctx := t.Context()
	s := spec("n1", testImage(t))
	r := launch(t, h, s)
	again := reopenBeside(t, h)
	if found, ok := again.Find(ctx, "n1"); !ok || found != r {
		t.Errorf("another program found %+v %v, want %+v", found, ok, r)
	}
	record := filepath.Join(h.Dir("n1"), recordFile)
	good, err := os.ReadFile(record)
	must(t, err)
	for name, text := range map[string]string{
		"OtherBoot":    strings.Replace(string(good), h.boot, "00000000-0000-0000-0000-000000000000", 1),
		"OtherStart":   strings.Replace(string(good), r.Started, r.Started+"1", 1),
		"OtherProcess": strings.Replace(string(good), fmt.Sprint(r.PID), fmt.Sprint(os.Getpid()), 1),
		"NoProcess":    strings.Replace(string(good), fmt.Sprint(r.PID), "-1", 1),
		"Nonsense":     "{", "Empty": "", "Huge": strings.Repeat(" ", 1<<20) + string(good),
	} {
		must(t, os.WriteFile(record, []byte(text), 0o600))
		if found, ok := h.Find(ctx, "n1"); ok {
			t.Errorf("%s: found %+v", name, found)
		}
		if died, boot := h.Died("n1"); name == "OtherBoot" && (!died || !boot) {
			t.Errorf("it ran when its host was booted, and Died says %v %v", died, boot)
		}
	}
	must(t, os.WriteFile(record, good, 0o600))
	if _, ok := h.Find(ctx, "n1"); !ok {
		t.Error("not found with its record back")
	}
	must(t, unix.Kill(r.PID, unix.SIGSTOP))
	if found, ok := h.Find(ctx, "n1"); !ok || found != r {
		t.Errorf("an agent that is too slow to answer: found %+v %v", found, ok)
	}
	must(t, unix.Kill(r.PID, unix.SIGCONT))
	// Another program's socket in its place.
	socket := filepath.Join(h.Dir("n1"), socketFile)
	l, err := fdsocket.Listen(socket, 0o600)
	must(t, err)
	l.Close()
	if _, ok := h.Find(ctx, "n1"); ok {
		t.Error("found although no process listens at its socket")
	}
	kill(t, h, "n1") // the agent is not involved
}

// reopenBeside opens the same instance as another program would.
func reopenBeside(t *testing.T, h *Host) *Host {
	again, err := Open(h.State, h.Instance, nil)
	must(t, err)
	t.Cleanup(again.closeFolders)
	return again
}

// An agent is killed without the knowledge of the testbed, which is its parent.
func TestDeadAgentsAreReaped(t *testing.T) {
	h := openHost(t, "node-reap")
	s := spec("n1", testImage(t))
	dies := func(r Running) {
		t.Helper()
		if h.Reap(r) {
			t.Error("a living agent was reaped")
		}
		must(t, unix.Kill(r.PID, unix.SIGKILL))
		for range 3000 {
			if _, state, err := ProcessStat(r.PID); err != nil || state == zombie {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, state, err := ProcessStat(r.PID); err != nil || state != zombie {
			t.Fatalf("a dead agent is %q %v, want a zombie", state, err)
		}
		if _, ok := h.Find(t.Context(), "n1"); ok {
			t.Error("found though it is dead")
		}
		if died, boot := h.Died("n1"); !died || boot {
			t.Errorf("it has died, and Died says %v %v", died, boot)
		}
	}
	prepare(t, h, s)
	r := start(t, h, s)
	dies(r)
	wait.Until(t, "the agent is not reaped", func() bool { return h.Reap(r) }) // a dead one may still have threads
	if h.Reap(r) {
		t.Error("reaped twice")
	}
	if _, _, err := ProcessStat(r.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after that: %v", err)
	}
	r = start(t, h, s)
	dies(r)
	kill(t, h, "n1")
	if _, _, err := ProcessStat(r.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Kill: %v", err)
	}
	// Other children are not reaped.
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	must(t, err)
	for range 3000 {
		if _, state, _ := ProcessStat(child.Pid); state == zombie {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if h.Reap(Running{PID: child.Pid, Started: "1", Boot: h.boot}) {
		t.Error("reaped a child that is no agent")
	}
	if state, err := child.Wait(); err != nil || !state.Success() {
		t.Error(state, err)
	}
}

// Several goroutines start, kill and remove a node. In the end nothing is left.
func TestChangesOfOneNodeWaitForEachOther(t *testing.T) {
	h := openHost(t, "node-turns")
	s := spec("n1", testImage(t))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 4 {
				if i%2 == 0 {
					if h.Prepare(ctx, s) == nil {
						h.Start(ctx, s) // it may run already, or be removed
					}
				} else if err := h.Remove(context.WithoutCancel(ctx), "n1"); err != nil {
					t.Error(err)
				}
				if i == 3 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	time.Sleep(30 * time.Millisecond)
	cancel()
	wg.Wait()
	removeAll(t, h)
	checkNothingLeft(t, h, s)
}

// checkNothingLeft fails if anything of a node is left.
func checkNothingLeft(t testing.TB, h *Host, specs ...Spec) {
	t.Helper()
	if ids, err := h.IDs(); err != nil || len(ids) > 0 {
		t.Errorf("left: nodes %v %v", ids, err)
	}
	for _, folder := range []string{nodesFolder, trashFolder, assemblyFolder} {
		if entries, err := fs.ReadDir(h.state.FS(), folder); err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v %v", folder, entries, err)
		}
	}
	for pid, uid := range livingProcesses(t) {
		for _, s := range specs {
			if uid >= s.Base && uid < s.Base+idCount {
				t.Errorf("left: process %d of user %d", pid, uid)
			}
		}
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	must(t, err)
	for _, loop := range loops {
		if b, err := os.ReadFile(loop); err == nil && strings.HasPrefix(string(b), h.State) {
			t.Errorf("left: %s: %s", loop, b)
		}
	}
	infos, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	must(t, err)
	for _, info := range infos {
		if b, err := os.ReadFile(info); err == nil && strings.Contains(string(b), h.State) {
			t.Errorf("left: mounts in %s", info)
		}
	}
}

// livingProcesses returns all processes that have not ended, with their users.
func livingProcesses(t testing.TB) map[int]uint32 {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	all := make(map[int]uint32)
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if _, state, err := ProcessStat(pid); err == nil && state != zombie {
			all[pid] = info.Sys().(*syscall.Stat_t).Uid
		}
	}
	return all
}
