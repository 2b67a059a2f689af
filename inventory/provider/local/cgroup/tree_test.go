package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// openTree returns the groups of a test instance, which end with the test.
func openTree(t testing.TB, instance string) *Tree {
	t.Helper()
	require.Root(t)
	tree, err := Open(instance)
	must(t, err)
	cleanUp(t, tree)
	return tree
}

func cleanUp(t testing.TB, tree *Tree) {
	t.Cleanup(func() {
		ids, err := tree.IDs()
		for _, id := range ids {
			err = errors.Join(err, end(tree, id))
		}
		if err = errors.Join(err, tree.Close()); err != nil {
			t.Error(err)
		}
	})
}

func end(tree *Tree, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(tree.Kill(ctx, id), tree.Remove(ctx, id))
}

// versionOne returns the groups as on a host without version 2. It skips the test if
// there is no version 1.
func versionOne(t *testing.T, instance string) *Tree {
	t.Helper()
	require.Root(t)
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	var lines []string
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, " - cgroup2 ") {
			lines = append(lines, line)
		}
	}
	all, err := detect(strings.NewReader(strings.Join(lines, "")))
	if err != nil {
		t.Skip("the host has no controllers of version 1:", err)
	}
	tree := &Tree{parent: nodesParent, instance: instance, all: all}
	must(t, tree.makeParents())
	cleanUp(t, tree)
	return tree
}

// onBothVersions runs f with the groups of this host, and with those of version 1.
func onBothVersions(t *testing.T, instance string, f func(t *testing.T, tree *Tree)) {
	t.Run("AsMounted", func(t *testing.T) { f(t, openTree(t, instance)) })
	t.Run("VersionOneOnly", func(t *testing.T) { f(t, versionOne(t, instance+"1")) })
}

// shell starts sh -c line in a group.
func shell(t testing.TB, tree *Tree, id, line string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sh", "-c", line)
	must(t, tree.Start(id, c))
	return c
}

func TestGroupLifecycle(t *testing.T) {
	onBothVersions(t, "node-cg", func(t *testing.T, tree *Tree) {
		must(t, tree.Make("a", Limits{CPUs: 0.5, Memory: 64 << 20, PIDs: 64}))
		if err := tree.Make("a", Limits{}); !errors.Is(err, os.ErrExist) {
			t.Errorf("a second group of that name: %v", err)
		}
		c := shell(t, tree, "a", "sleep 60 & wait")
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.Process.Pid))
		must(t, err)
		if pids, err := tree.PIDs("a"); err != nil || !slices.Contains(pids, c.Process.Pid) || slices.Contains(pids, os.Getpid()) {
			t.Errorf("processes %v %v, want %d among them and not %d", pids, err, c.Process.Pid, os.Getpid())
		}
		var u Usage
		for range 3000 { // the shell starts the other, and the thread that started the shell ends
			pids, err := tree.PIDs("a")
			must(t, err)
			if u, err = tree.Usage("a"); err != nil {
				t.Fatal(err)
			}
			if len(pids) == 2 && u.PIDs == 2 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if u.PIDs != 2 || u.Memory <= 0 {
			t.Errorf("usage %+v, want 2 processes and some memory", u)
		}
		if ids, err := tree.IDs(); err != nil || !slices.Equal(ids, []string{"a"}) {
			t.Errorf("groups %v %v", ids, err)
		}
		must(t, end(tree, "a"))
		c.Wait()
		if !c.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Errorf("the process ended by itself: %v", c.ProcessState)
		}
		for _, h := range tree.all {
			want := strings.TrimPrefix(tree.leaf(h, "a"), h.path) + "\n"
			if !strings.Contains(string(groups), want) {
				t.Errorf("the process was not in %s of %s:\n%s", want, h.path, groups)
			}
			if _, err := os.Stat(tree.dir(h, "a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", tree.dir(h, "a"), err)
			}
		}
		if err := end(tree, "a"); err != nil {
			t.Errorf("removing a missing group: %v", err)
		}
	})
}

// TestKillIsFasterThanForks kills a group whose processes start others all the time.
func TestKillIsFasterThanForks(t *testing.T) {
	onBothVersions(t, "node-forks", func(t *testing.T, tree *Tree) {
		must(t, tree.Make("a", Limits{PIDs: 100}))
		c := shell(t, tree, "a", `f() { f | f & }; while :; do f; done`)
		time.Sleep(50 * time.Millisecond)
		must(t, end(tree, "a"))
		c.Wait()
	})
}

// limit reads the file of the group with the controller, by version.
func limit(t *testing.T, tree *Tree, controller, one, two string, names ...string) string {
	t.Helper()
	for _, h := range tree.all {
		if h.has(controller) {
			file := one
			if h.v2 {
				file = two
			}
			b, err := os.ReadFile(filepath.Join(tree.dir(h, names...), file))
			must(t, err)
			return strings.TrimSpace(string(b))
		}
	}
	t.Fatalf("no controller %s", controller)
	return ""
}

func TestLimitsAreSetAndChanged(t *testing.T) {
	onBothVersions(t, "node-limits", func(t *testing.T, tree *Tree) {
		must(t, tree.Make("a", Limits{}))
		for _, c := range []struct {
			limits                  Limits
			memory, all, jobs       string
			quota, quotaWhereTwoHas string
		}{
			{Limits{CPUs: 1.5, Memory: 100 << 20, PIDs: 2560}, "104857600", "2560", "2528", "150000", "150000 100000"},
			{Limits{CPUs: 0.25, Memory: 300 << 20, PIDs: 160}, "314572800", "160", "140", "25000", "25000 100000"},
			{Limits{CPUs: 0.25, Memory: 50 << 20, PIDs: 64}, "52428800", "64", "48", "25000", "25000 100000"},
			{Limits{CPUs: 0.0001, Memory: 50 << 20, PIDs: 20}, "52428800", "20", "10", "1000", "1000 100000"},
			{Limits{}, "", "max", "max", "-1", "max 100000"},
		} {
			if err := tree.Update("a", c.limits); err != nil {
				t.Fatalf("%+v: %v", c.limits, err)
			}
			cpu := limit(t, tree, "cpu", "cpu.cfs_quota_us", "cpu.max", "a")
			if cpu != c.quota && cpu != c.quotaWhereTwoHas {
				t.Errorf("%+v: processor %q, want %q", c.limits, cpu, c.quota)
			}
			if got := limit(t, tree, "memory", "memory.limit_in_bytes", "memory.max", "a"); got != c.memory && c.memory != "" {
				t.Errorf("%+v: memory %q, want %q", c.limits, got, c.memory)
			}
			for _, h := range tree.all {
				if !h.has("memory") || h.v2 {
					continue
				}
				got, err := number(tree.dir(h, "a"), "memory.kmem.tcp.limit_in_bytes")
				if err != nil && !errors.Is(err, os.ErrNotExist) || err == nil && c.limits.Memory > 0 && got != c.limits.Memory/socketShare {
					t.Errorf("%+v: memory of sockets %d, %v", c.limits, got, err)
				}
			}
			if got := limit(t, tree, "pids", "pids.max", "pids.max", "a"); got != c.all {
				t.Errorf("%+v: processes %q, want %q", c.limits, got, c.all)
			}
			if got := limit(t, tree, "pids", "pids.max", "pids.max", "a", jobsLeaf); got != c.jobs {
				t.Errorf("%+v: processes of jobs %q, want %q", c.limits, got, c.jobs)
			}
		}
	})
}

// TestSharedLimitsLeaveRoomForHost checks the group of the nodes of all instances, and
// that of programs, which is not limited by it.
func TestSharedLimitsLeaveRoomForHost(t *testing.T) {
	onBothVersions(t, "node-sum", func(t *testing.T, tree *Tree) {
		memory, err := strconv.ParseInt(limit(t, tree, "memory", "memory.limit_in_bytes", "memory.max", ".."), 10, 64)
		if host := hostMemory(); err != nil || memory > host-host/memoryPart || memory < host/2 {
			t.Errorf("all nodes may have %d bytes of memory (%v) of the host's %d", memory, err, host)
		}
		pids, err := strconv.ParseInt(limit(t, tree, "pids", "pids.max", "pids.max", ".."), 10, 64)
		if host := min(readLimit("/proc/sys/kernel/pid_max"), readLimit("/proc/sys/kernel/threads-max")); err != nil || pids > host-host/pidsPart || pids < host/2 {
			t.Errorf("all nodes may have %d processes (%v) of the host's %d", pids, err, host)
		}
		if got, err := tree.SharedLimits(); err != nil || got.Memory != memory || int64(got.PIDs) != pids {
			t.Errorf("together %+v, %v, want %d and %d", got, err, memory, pids)
		}
	})
	programs, err := OpenPrograms("node-sum")
	must(t, err)
	cleanUp(t, programs)
	if got := limit(t, programs, "pids", "pids.max", "pids.max", ".."); got != "max" {
		t.Errorf("the testbed's programs have %s processes together, want no limit", got)
	}
}

func TestSharedLimitsBySize(t *testing.T) {
	for _, tt := range []struct{ memory, pids, forMemory, forPIDs int64 }{
		{24 << 30, 32768, 21 << 30, 24576},
		{2 << 30, 65536, 3 << 29, 49152},
		{512 << 20, 1000, 256 << 20, 750},
	} {
		if got := sharedLimits(tt.memory, tt.pids); got.Memory != tt.forMemory || int64(got.PIDs) != tt.forPIDs {
			t.Errorf("a host with %d bytes and %d processes spares %+v", tt.memory, tt.pids, got)
		}
	}
}

// TestInitHasHigherWeightThanJobs reads the weights from the kernel.
func TestInitHasHigherWeightThanJobs(t *testing.T) {
	onBothVersions(t, "node-weight", func(t *testing.T, tree *Tree) {
		must(t, tree.Make("a", Limits{CPUs: 0.5}))
		weight := func(leaf string) int {
			n, err := strconv.Atoi(limit(t, tree, "cpu", "cpu.shares", "cpu.weight", "a", leaf))
			must(t, err)
			return n
		}
		if first, jobs := weight(initLeaf), weight(jobsLeaf); first < 5*jobs {
			t.Errorf("init weighs %d and jobs weigh %d", first, jobs)
		}
		usual := weight("")
		for _, times := range []int{4, 0} {
			must(t, tree.Update("a", Limits{Weight: times}))
			if got := weight(""); got != max(times, 1)*usual || usual != weight(jobsLeaf) {
				t.Errorf("the weight %d times %d is %d", times, usual, got)
			}
		}
	})
}

// TestFailedFreezeThaws uses a freezer that never finishes, as if a process hung in the
// kernel: the group must be thawed again.
func TestFailedFreezeThaws(t *testing.T) {
	tree := &Tree{parent: nodesParent, instance: "i", all: []hierarchy{{path: t.TempDir(), controllers: []string{"freezer"}}}}
	dir := tree.dir(tree.all[0], "a")
	must(t, os.MkdirAll(dir, 0o755))
	state := filepath.Join(dir, "freezer.state")
	must(t, os.WriteFile(state, []byte("FREEZING"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := tree.Kill(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that time is over", err)
	}
	if b, err := os.ReadFile(state); err != nil || !strings.HasPrefix(string(b), "THAWED") {
		t.Errorf("the group is %q, %v, want it thawed", b, err)
	}
}

// TestJobsFilesWorkInUserNamespace tests what the agent relies on: a process without
// rights on the host moves another, and itself, through files opened outside.
func TestJobsFilesWorkInUserNamespace(t *testing.T) {
	onBothVersions(t, "node-jobs", func(t *testing.T, tree *Tree) {
		must(t, tree.Make("a", Limits{PIDs: 64}))
		files, err := tree.Jobs("a")
		must(t, err)
		var split []hierarchy
		for _, h := range tree.all {
			if len(h.leafControllers()) > 0 {
				split = append(split, h)
			}
		}
		if len(files) != len(split) {
			t.Fatalf("%d files, want one of each of the %d hierarchies that have init and jobs", len(files), len(split))
		}
		for _, f := range files {
			defer f.Close()
		}
		to := func(word string) string {
			all := ":"
			for i := range files {
				all += fmt.Sprintf(" && echo %s >&%d", word, 3+i)
			}
			return all
		}
		mapped := []syscall.SysProcIDMap{{HostID: 0x7fe00000, Size: 65536}}
		// Process 1 moves a child by its number in the namespace; then a child moves
		// itself and starts another.
		c := exec.Command("sh", "-c", "sleep 60 & "+to("$!")+" && sh -c '"+to("0")+" && sleep 60; :' & wait")
		c.ExtraFiles = files
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID, UidMappings: mapped, GidMappings: mapped,
			Credential: &syscall.Credential{},
		}
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		must(t, tree.Start("a", c))
		moved := func() int {
			n := 3
			for _, h := range split {
				b, _ := os.ReadFile(filepath.Join(tree.dir(h, "a", jobsLeaf), "cgroup.procs"))
				n = min(n, strings.Count(string(b), "\n"))
			}
			return n
		}
		for range 3000 {
			if moved() == 3 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := moved(); n != 3 {
			t.Errorf("%d processes were moved, want 3", n)
		}
		must(t, end(tree, "a"))
		c.Wait()
		if out.Len() > 0 {
			t.Error(out.String())
		}
	})
}

// TestMakeWhileOtherInstancesClose creates groups while other instances are opened and
// closed, and remove the parents.
func TestMakeWhileOtherInstancesClose(t *testing.T) {
	require.Root(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				tree, err := Open("node-busy" + strconv.Itoa(i))
				if err == nil {
					err = tree.Make("a", Limits{PIDs: 20})
				}
				if err == nil {
					err = end(tree, "a")
				}
				if err = errors.Join(err, tree.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestRemoveWaitsUntilContextEnds(t *testing.T) {
	tree := openTree(t, "node-wait")
	must(t, tree.Make("a", Limits{}))
	c := shell(t, tree, "a", "exec sleep 100")
	go c.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := tree.Remove(ctx, "a"); err == nil || !strings.Contains(err.Error(), "groups of a") {
		t.Errorf("error %v, want one about the groups of a", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = c.Process.Kill() })
	if err := tree.Remove(t.Context(), "a"); err != nil {
		t.Errorf("after the process ended: %v", err)
	}
}

// must ends the test after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
