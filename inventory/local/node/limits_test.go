package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMemoryBinds(t *testing.T) {
	h := openHost(t, "node-memory")
	s := spec("n1", testImage(t))
	s.Limits.Memory = 48 << 20
	r := launch(t, h, s)
	if out, exit := sh(t, h, "n1", "head -c 300M /dev/zero | tail > /dev/null"); exit.Signal == 0 && exit.Status != 137 {
		t.Errorf("300 MB in 48 MB of memory: %q %+v", out, exit)
	}
	// A tmpfs is memory, too, and is bounded apart.
	if out, exit := sh(t, h, "n1", "head -c 300M /dev/zero > /dev/shm/x; rm /dev/shm/x"); !strings.Contains(out, "No space") {
		t.Errorf("300 MB in /dev/shm: %q %+v", out, exit)
	}
	want(t, h, "n1", "echo alive", "alive\n")
	if found, ok := h.Find(t.Context(), "n1"); !ok || found != r {
		t.Error("the node did not live through it")
	}
}

func TestProcessesBindAndLeaveRoomForLogins(t *testing.T) {
	h := openHost(t, "node-pids")
	s := spec("n1", testImage(t))
	s.Limits.PIDs = 64
	launch(t, h, s)
	// The shell gives up at the first process it cannot start; the others stay.
	if out, exit := sh(t, h, "n1", "i=0; while [ $i -lt 200 ]; do sleep 60 > /dev/null 2>&1 & i=$((i+1)); done; echo all"); strings.Contains(out, "all") {
		t.Errorf("200 processes where 64 may be: %q %+v", out, exit)
	}
	if u, err := h.Usage("n1"); err != nil || u.PIDs < 40 || u.PIDs > 64 {
		t.Errorf("usage %+v %v, want between 40 and 64 processes", u, err)
	}
	want(t, h, "n1", "echo in", "in\n") // a full node takes a login
	want(t, h, "n1", "kill -9 -1", "")
	want(t, h, "n1", "sleep 0 & wait; echo free", "free\n")
}

func TestProcessorBinds(t *testing.T) {
	h := openHost(t, "node-cpu")
	s := spec("n1", testImage(t))
	s.Limits.CPUs = 0.2
	launch(t, h, s)
	began := time.Now()
	out, _ := sh(t, h, "n1", "(while :; do :; done) & sleep 1; cat /proc/$!/stat; kill $!")
	took := time.Since(began)
	fields := strings.Fields(out)
	if len(fields) < 15 {
		t.Fatalf("the loop's processor time is not to be had: %q", out)
	}
	// In hundredths of a second, of about one; without a limit it would be 100,
	// or half of that on a host that is busy.
	ticks, err := strconv.Atoi(fields[13])
	if err != nil || float64(ticks) > 45*took.Seconds() {
		t.Errorf("used %d/100 s of processor time in %v (%v)", ticks, took, err)
	}
	if n := throttled(t, h); n == 0 {
		t.Error("the kernel held nothing back")
	}
}

// throttled is how often the kernel made the node wait for processor time.
func throttled(t *testing.T, h *Host) int {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/cpu*/patchbay-local/%s/n1/cpu.stat", "/sys/fs/cgroup/patchbay-local/%s/n1/cpu.stat"} {
		files, _ := filepath.Glob(fmt.Sprintf(pattern, h.Instance))
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, after, ok := strings.Cut(string(b), "nr_throttled ")
			if !ok {
				continue
			}
			n, err := strconv.Atoi(strings.Fields(after)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no cpu.stat was found")
	return 0
}

// TestDiskBinds fills a node's disk, which leaves the host its own, and starts
// the node again with it full.
func TestDiskBinds(t *testing.T) {
	h := openHost(t, "node-disk")
	s := spec("n1", testImage(t))
	s.Limits.Disk = 24 << 20
	launch(t, h, s)
	for _, file := range []string{"/full", "/usr/full", "/var/full"} {
		if out, exit := sh(t, h, "n1", "head -c 100M /dev/zero > "+file); !strings.Contains(out, "No space") {
			t.Errorf("100 MB to %s: %q %+v", file, out, exit)
		}
	}
	sh(t, h, "n1", "i=0; while echo x > /var/$i; do i=$((i+1)); done; sync") // the last block and inode
	u, err := h.Usage("n1")
	if err != nil || u.Disk < 16<<20 || u.Disk > 26<<20 {
		t.Errorf("usage %+v %v, want a disk of about 24 MB", u, err)
	}
	kill(t, h, "n1")
	start(t, h, s)
	want(t, h, "n1", "test -s /full && rm -f /full /var/* && echo new > /new && cat /new", "new\n")
}

func TestSmallMountsAreBounded(t *testing.T) {
	h := openHost(t, "node-small")
	s := spec("n1", testImage(t))
	s.Limits.Memory = 256 << 20
	launch(t, h, s)
	for _, dir := range []string{"/run", "/dev"} {
		if out, exit := sh(t, h, "n1", "head -c 100M /dev/zero > "+dir+"/x; rm "+dir+"/x"); !strings.Contains(out, "No space") {
			t.Errorf("100 MB in %s: %q %+v", dir, out, exit)
		}
		if out, exit := sh(t, h, "n1", "i=0; while [ $i -lt 20000 ] && : > "+dir+"/f$i; do i=$((i+1)); done"); !strings.Contains(out, "No space") {
			t.Errorf("20000 files in %s: %q %+v", dir, out, exit)
		}
		sh(t, h, "n1", "cd "+dir+" && rm -f f*")
	}
}

func TestTerminalsBind(t *testing.T) {
	h := openHost(t, "node-pty")
	launch(t, h, spec("n1", testImage(t)))
	if out, _ := sh(t, h, "n1", "grep ' /dev/pts ' /proc/self/mountinfo"); !strings.Contains(out, ",max="+terminals) {
		t.Errorf("a node can take all terminals of the host: %s", out)
	}
}

func TestGatewayAndRelaysHaveTheirPlaces(t *testing.T) {
	h := openHost(t, "node-gw")
	groups := map[string]func(int, Limits) error{gatewayGroup: h.PlaceGateway}
	for _, slice := range []string{"s1", "s2"} {
		groups[relayGroup+slice] = func(pid int, l Limits) error { return h.PlaceRelay(slice, pid, l) }
	}
	for group, place := range groups {
		for range 2 { // a new one in the place of one that died
			child := sleeper(t)
			if err := place(child, Limits{Memory: 64 << 20, PIDs: 64}); err != nil {
				t.Fatal(err)
			}
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
	if err := h.PlaceRelay("../x", os.Getpid(), Limits{}); err == nil {
		t.Error("a relay of a slice that is a path was placed")
	}
	if err := h.LeaveRelay("../x"); err == nil {
		t.Error("a relay of a slice that is a path was left")
	}
	if err := h.LeaveRelay("s1"); err == nil {
		t.Error("the group of a relay that lives was removed")
	}
	if err := h.EndPlaced(t.Context()); err != nil {
		t.Error(err)
	}
	for group := range groups {
		if pids, err := h.programs.PIDs(group); err != nil || len(pids) > 0 {
			t.Errorf("%s still has %v (%v)", group, pids, err)
		}
	}
	if err := errors.Join(h.LeaveRelay("s1"), h.LeaveRelay("s3")); err != nil {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestRelaysLeaveNothing(t *testing.T) {
	h := openHost(t, "node-relays")
	for _, slice := range []string{"s1", "s2"} {
		child := sleeper(t)
		if err := h.PlaceRelay(slice, child, Limits{Memory: 64 << 20, PIDs: 64}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(child, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// Until it has ended its group is not empty.
		if err := unix.Waitid(unix.P_PID, child, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.LeaveRelay("s1"); err != nil {
		t.Error(err)
	}
	// Of the other nobody was told: its group goes when the next one opens the host.
	again, err := Open(h.State, h.Instance, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.release()
	if ids, err := h.tree.IDs(); err != nil || len(ids) > 0 {
		t.Errorf("groups %v are left (%v)", ids, err)
	}
}

// sleeper is a process that lives as long as the test.
func sleeper(t *testing.T) int {
	t.Helper()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
	})
	return p.Pid
}
