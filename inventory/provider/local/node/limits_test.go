package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
)

// TestDiskLimit fills a node's disk, which does not affect the host, and restarts the node with the
// full disk.
func TestDiskLimit(t *testing.T) {
	h := openHost(t, "node-disk")
	s := spec("n1", testImage(t))
	s.Limits.Disk = 24 << 20
	launch(t, h, s)
	restart := func(between func()) {
		t.Helper()
		runLine(t, h, "n1", "sync")
		kill(t, h, "n1")
		between()
		start(t, h, s)
	}
	for range 2 { // the second time with the spare files that the first restarts have made again
		for _, file := range []string{"/full", "/usr/full", "/var/full"} {
			if out, exit := runLine(t, h, "n1", "head -c 100M /dev/zero > "+file); !strings.Contains(out, "No space") {
				t.Errorf("100 MB to %s: %q %+v", file, out, exit)
			}
		}
		runLine(t, h, "n1", "i=0; while echo x > /var/$i; do i=$((i+1)); done") // until the last block
		u, err := h.Usage("n1")
		if err != nil || u.Disk < 16<<20 || u.Disk > 26<<20 {
			t.Errorf("usage %+v %v, want a disk of about 24 MB", u, err)
		}
		restart(func() { useReserve(t, filepath.Join(h.Dir("n1"), diskFile)) })
		expectOutput(t, h, "n1", "test -s /full && rm -f /full /usr/full /var/* && echo new > /new && cat /new", "new\n")
		if out, exit := runLine(t, h, "n1", "i=0; while : > /var/$i; do i=$((i+1)); done"); !strings.Contains(out, "No space") { // until the last inode
			t.Errorf("files without end: %q %+v", out, exit)
		}
		restart(func() {})
		expectOutput(t, h, "n1", "rm -f /var/* && echo new > /new && cat /new", "new\n")
	}
}

// useReserve uses a third of the 122 blocks that ext4 keeps for its metadata. Ext4 may do so itself when
// it writes in pieces what a slow host has not written at once.
func useReserve(t *testing.T, path string) {
	t.Helper()
	disk, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer disk.Close()
	device, err := AttachLoop(disk)
	must(t, err)
	defer device.Close()
	at := t.TempDir()
	must(t, unix.Mount(device.Name(), at, "ext4", 0, ""))
	defer unix.Unmount(at, 0)
	must(t, os.WriteFile("/sys/fs/ext4/"+filepath.Base(device.Name())+"/reserved_clusters", []byte("80"), 0))
	f, err := os.Create(filepath.Join(at, "reserve"))
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	var left unix.Statfs_t
	must(t, unix.Statfs(at, &left))
	if !errors.Is(err, unix.ENOSPC) || left.Bfree > 80 {
		t.Errorf("%v, and %d blocks are free", err, left.Bfree)
	}
}

// Space freed in a node is soon free on the host.
func TestFreedDiskIsReturnedToTheHost(t *testing.T) {
	h := openHost(t, "node-freed")
	launch(t, h, spec("n1", testImage(t)))
	expectOutput(t, h, "n1", "head -c 40M /dev/urandom > /var/big && sync", "")
	if u, err := h.Usage("n1"); err != nil || u.Disk < 40<<20 {
		t.Errorf("usage %+v %v, want a disk of more than 40 MiB", u, err)
	}
	expectOutput(t, h, "n1", "rm /var/big && sync", "")
	wait.Clear(t, func() string {
		u, err := h.Usage("n1")
		if err == nil && u.Disk < 20<<20 {
			return ""
		}
		return fmt.Sprintf("the disk takes %d bytes (%v)", u.Disk, err)
	})
}

func TestGatewayAndVSwitchCgroups(t *testing.T) {
	h := openHost(t, "node-gw")
	groups := map[string]func(int, Limits) error{gatewayGroup: h.LimitGateway}
	for _, slice := range []string{"s1", "s2"} {
		groups[vswitchGroup+slice] = func(pid int, l Limits) error { return h.LimitVSwitch(slice, pid, l) }
	}
	for group, place := range groups {
		for range 2 { // the second replaces one that ended
			child := startSleeper(t)
			must(t, place(child, Limits{Memory: 64 << 20, PIDs: 64}))
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", child))
			at := "/patchbay-local-programs/node-gw/" + group
			if n := strings.Count(string(b), "/patchbay-local"); err != nil || n == 0 || strings.Count(string(b), at+"\n")+strings.Count(string(b), at+"/init\n") != n {
				t.Errorf("%s is in %s (%v)", group, b, err)
			}
		}
	}
	if ids, err := h.IDs(); err != nil || len(ids) > 0 {
		t.Errorf("nodes %v %v", ids, err)
	}
	if err := h.LimitVSwitch("../x", os.Getpid(), Limits{}); err == nil {
		t.Error("SetLimits accepted a slice name that is a path")
	}
	if err := h.RemoveVSwitchGroup("../x"); err == nil {
		t.Error("RemoveLimits accepted a slice name that is a path")
	}
	if err := h.RemoveVSwitchGroup("s1"); err == nil {
		t.Error("the group of a running vswitch was removed")
	}
	if err := h.KillHelpers(t.Context()); err != nil {
		t.Error(err)
	}
	for group := range groups {
		if pids, err := h.processTree.PIDs(group); err != nil || len(pids) > 0 {
			t.Errorf("%s still has %v (%v)", group, pids, err)
		}
	}
	if err := errors.Join(h.RemoveVSwitchGroup("s1"), h.RemoveVSwitchGroup("s3")); err != nil {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestVSwitchCgroupsAreRemoved(t *testing.T) {
	h := openHost(t, "node-vswitches")
	for _, slice := range []string{"s1", "s2"} {
		child := startSleeper(t)
		must(t, h.LimitVSwitch(slice, child, Limits{Memory: 64 << 20, PIDs: 64}))
		must(t, unix.Kill(child, unix.SIGKILL))
		// While it runs, its cgroup is not empty.
		must(t, unix.Waitid(unix.P_PID, child, nil, unix.WEXITED|unix.WNOWAIT, nil))
	}
	if err := h.RemoveVSwitchGroup("s1"); err != nil {
		t.Error(err)
	}
	// The other cgroup is removed when the host is opened next.
	again, err := Open(h.State, h.Instance, nil)
	must(t, err)
	defer again.closeFolders()
	if ids, err := h.tree.IDs(); err != nil || len(ids) > 0 {
		t.Errorf("groups %v are left (%v)", ids, err)
	}
}

// startSleeper starts a process that runs as long as the test.
func startSleeper(t *testing.T) int {
	t.Helper()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
	must(t, err)
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
	})
	return p.Pid
}
