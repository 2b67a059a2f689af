package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

// newGroups creates the cgroups "init" and "jobs" in a hierarchy and returns their folders.
func newGroups(t testing.TB, hierarchy string) (beginning, jobs string) {
	t.Helper()
	above := filepath.Join(hierarchy, fmt.Sprintf("agent-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(above, 0o755); err != nil {
		require.Missing(t, "root", "no group of processes can be made: %v", err)
	}
	beginning, jobs = filepath.Join(above, "init"), filepath.Join(above, "jobs")
	t.Cleanup(func() {
		for _, dir := range []string{beginning, jobs, above} {
			for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
					break
				} else if time.Now().After(until) {
					t.Error(err)
					break
				}
			}
		}
	})
	check(t, os.Mkdir(beginning, 0o755))
	check(t, os.Mkdir(jobs, 0o755))
	return beginning, jobs
}

// hierarchies returns the mounted cgroup hierarchies in which the test creates cgroups: one of
// each version that is mounted.
func hierarchies() []string {
	var list []string
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			list = append(list, dir)
		}
	}
	return list
}

func TestJobsStartInTheirCgroup(t *testing.T) {
	require.Root(t)
	var jobs []*os.File
	var starts, names []string
	for _, h := range hierarchies() {
		beginning, group := newGroups(t, h)
		f, err := os.OpenFile(filepath.Join(group, "cgroup.procs"), os.O_WRONLY, 0)
		check(t, err)
		defer f.Close()
		jobs = append(jobs, f)
		starts = append(starts, beginning)
		names = append(names, filepath.Base(filepath.Dir(group))+"/jobs\n")
	}
	if len(jobs) == 0 {
		require.Missing(t, "root", "there are no cgroups")
	}
	n := newNode(t, jobs...)
	for _, dir := range starts {
		check(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, n.pid), 0))
	}
	check := func(cmd Command) {
		t.Helper()
		cmd.User = "bob"
		text, exit := n.run(cmd)
		for _, name := range names {
			if exit.Status != 0 || !strings.Contains(text, name) {
				t.Errorf("not in %q: %+v\n%s", name, exit, text)
			}
		}
	}
	// The program and a process that it forks immediately.
	check(Command{Argv: []string{"/bin/cat", "/proc/self/cgroup"}})
	check(Command{Line: "cat /proc/self/cgroup & wait"})
	for _, dir := range starts {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(n.pid) {
			t.Errorf("%s: %q, %v; the agent stays", dir, text, err)
		}
	}
}

// A process that cannot be moved into its cgroup is not started.
func TestJobsOutsideOfTheirCgroupAreKilled(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(t, err)
	defer full.Close()
	n := newNode(t, full)
	r, w := n.pipe()
	_, err = Exec(t.Context(), n.dial(), Command{User: "bob", Line: "touch /tmp/started"}, []*os.File{r, w, w})
	if err == nil || !strings.Contains(err.Error(), "into the node's cgroup") {
		t.Error(err)
	}
	w.Close()
	if text, err := readAll(r); text != "" || err != nil {
		t.Error(text, err)
	}
	if n.file("tmp/started") != "" {
		t.Error("it ran")
	}
	if _, err := os.Stat(filepath.Join(n.root, "tmp/started")); err == nil {
		t.Error("it ran")
	}
}
