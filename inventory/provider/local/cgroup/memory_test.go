package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
)

// begin starts a command, which ends with the test.
func begin(t *testing.T, c *exec.Cmd) {
	t.Helper()
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// job starts a command among the jobs of a group.
func job(t *testing.T, tree *Tree, id string, c *exec.Cmd) {
	t.Helper()
	files, err := tree.Jobs(id)
	must(t, err)
	begin(t, c)
	for _, f := range files {
		if _, err := fmt.Fprint(f, c.Process.Pid); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func TestMemoryOfAGroup(t *testing.T) {
	tree := openTree(t, "cg-memory")
	must(t, tree.Make("a", Limits{Memory: 32 << 20, PIDs: 64}))
	m, err := tree.Memory("a")
	if err != nil || m.Limit != 32<<20 || m.Files != 0 || m.Stalled != 0 {
		t.Fatalf("%+v, %v: want a group with its limit, and nothing in it", m, err)
	}
	// A file larger than the group's limit. A file system in memory would count as memory of processes.
	dir, err := os.MkdirTemp("/var/tmp", "group")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := exec.Command("sh", "-c", `read go; head -c 64M /dev/zero > "$0"; read end`, filepath.Join(dir, "file"))
	in, err := c.StdinPipe()
	must(t, err)
	begin(t, c)
	must(t, tree.Join("a", c.Process.Pid))
	fmt.Fprintln(in, "go")
	wait.Until(t, "the group is full", func() bool {
		full, err := tree.IsNearlyFull("a")
		must(t, err)
		return full
	})
	if m, err = tree.Memory("a"); err != nil || m.Files < 16<<20 || m.Files > m.Used || m.Used > m.Limit {
		t.Errorf("%+v, %v: want it full of a file", m, err)
	}
	if m, err := tree.Memory("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a group that is missing: %+v, %v", m, err)
	}
}

func TestKillLargest(t *testing.T) {
	tree := openTree(t, "cg-largest")
	must(t, tree.Make("a", Limits{PIDs: 64}))
	if _, _, err := tree.KillLargest("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a group without jobs: %v", err)
	}
	// PID 1 is larger than all jobs, and is not one of them.
	first := exec.Command("sh", "-c", `x=$(head -c 30000000 /dev/zero | tr '\0' x); echo; read end`)
	hold, err := first.StdinPipe()
	must(t, err)
	defer hold.Close()
	grown, err := first.StdoutPipe()
	if err == nil {
		err = tree.Start("a", first)
	}
	must(t, err)
	if _, err := grown.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	small := exec.Command("sleep", "100")
	job(t, tree, "a", small)
	large := exec.Command("sh", "-c", `x=$(head -c 10000000 /dev/zero | tr '\0' x); echo; read end`)
	stay, err := large.StdinPipe()
	must(t, err)
	defer stay.Close()
	if grown, err = large.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	job(t, tree, "a", large)
	if _, err := grown.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []*exec.Cmd{large, small} {
		pid, name, err := tree.KillLargest("a")
		if err != nil || pid != want.Process.Pid || !strings.Contains(want.Path, name) {
			t.Fatalf("ended %d %q, %v; want %d, %s", pid, name, err, want.Process.Pid, want.Path)
		}
		wait.Until(t, "it has ended", func() bool {
			pids, err := tree.PIDs("a")
			return err == nil && !strings.Contains(fmt.Sprint(pids), fmt.Sprint(pid))
		})
	}
	if pids, err := tree.PIDs("a"); err != nil || len(pids) == 0 || pids[0] != first.Process.Pid {
		t.Errorf("processes %v, %v: want PID 1 to stay", pids, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := tree.Kill(ctx, "a"); err != nil {
		t.Error(err)
	}
	_ = first.Wait()
}

// Groups of version 2 include the counts of the groups below, those of version 1 do not.
func TestOOMKillsOfBothVersions(t *testing.T) {
	for version, c := range map[string]struct {
		v2    bool
		files map[string]string
		want  int64
	}{
		"Two":      {true, map[string]string{"memory.events": "oom 9\noom_kill 4\noom_group_kill 0\n"}, 4},
		"One":      {false, map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "jobs/memory.oom_control": "oom_kill 2\n"}, 3},
		"OneAlone": {false, map[string]string{"memory.oom_control": "under_oom 0\noom_kill 7\n"}, 7},
		"Old":      {false, map[string]string{"memory.oom_control": "under_oom 0\n"}, 0},
	} {
		t.Run(version, func(t *testing.T) {
			tree := &Tree{parent: "p", instance: "i", all: []hierarchy{{path: t.TempDir(), v2: c.v2, controllers: []string{"memory"}}}}
			for name, text := range c.files {
				path := filepath.Join(tree.dir(tree.all[0], "a"), name)
				must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must(t, os.WriteFile(path, []byte(text), 0o644))
			}
			if n, err := tree.OOMKills("a"); n != c.want || err != nil {
				t.Errorf("%d, %v: want %d", n, err, c.want)
			}
			if _, err := tree.OOMKills("none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of a group that is not there: %v", err)
			}
		})
	}
}
