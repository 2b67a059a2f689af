package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/fdsocket"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/provider"
)

// BenchmarkLocal creates nodes, logs in and removes them. It does the same with Debian's
// runc, if that is installed, and prints all figures as one table: make bench B=Local.
//
// A node is created when it runs from its own disk and has endpoints, without an account.
// It is ready when the login of an account is proven. Both are measured as the testbed
// reports them to the manager.
func BenchmarkLocal(b *testing.B) {
	var figures benchTable
	b.Run("First", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			t := newTestSite(b, "bench-f"+strconv.Itoa(i))
			began := time.Now()
			b.StartTimer()
			t.node(b, nodeID(0), nil)
			b.StopTimer()
			figures.add("the first node of a testbed, ready", "1", "ms", milliseconds(began))
			b.StartTimer()
		}
	})
	t := newTestSite(b, "bench-l")
	t.node(b, nodeID(0), nil) // the image is there from here on, and the disk
	t.remove(b, nodeID(0))
	for _, n := range []int{1, 20, 100, 300} {
		b.Run("Nodes"+strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				t.measure(b, n, &figures)
			}
		})
	}
	t.node(b, nodeID(0), nil)
	b.Run("Exec", func(b *testing.B) {
		for b.Loop() {
			began := time.Now()
			t.agentExec(b, nodeID(0))
			figures.add("exec of true", "1", "ms", milliseconds(began))
		}
	})
	b.Run("Login", func(b *testing.B) {
		for b.Loop() {
			began := time.Now()
			if out, err := t.ssh(b, nodeID(0), "true"); err != nil {
				b.Fatal(out, err)
			}
			figures.add("login with ssh, and the client's start", "1", "ms", milliseconds(began))
		}
	})
	t.remove(b, nodeID(0))
	b.Run("Runc", func(b *testing.B) { benchRunc(b, &figures) })
	figures.print(os.Stdout)
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

func nodeID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", i) }

// measure creates n nodes, once without and once with an account, and removes them.
func (b *testSite) measure(tb *testing.B, n int, figures *benchTable) {
	count := strconv.Itoa(n)
	add := func(what, unit string, value float64) { figures.add(what, count, unit, value) }
	began := time.Now()
	b.makeNodes(tb, n, []string{})
	add("created, with a disk and endpoints", "ms", milliseconds(began))
	began = time.Now()
	b.removeNodes(tb, n)
	add("deleted, without accounts", "ms", milliseconds(began))
	began, used := time.Now(), b.processorTime()
	b.makeNodes(tb, n, []string{b.user("alice")})
	add("ready: account made, login proven", "ms", milliseconds(began))
	add("ready: processor time of all that", "ms", float64((b.processorTime() - used).Milliseconds()))
	tb.StopTimer()
	time.Sleep(time.Second) // lets delayed reports arrive
	b.measureMemory(tb, add)
	began = time.Now()
	all, err := b.provider.Get(tb.Context(), nil)
	if err != nil || len(all) != n {
		tb.Fatalf("get: %d nodes, %v", len(all), err)
	}
	add("the provider's get", "ms", milliseconds(began))
	began = time.Now()
	b.setAll(tb, n, provider.Present, provider.Resource{"client_id": "other"})
	add("the provider's set", "ms", milliseconds(began))
	tb.StartTimer()
	began = time.Now()
	b.removeNodes(tb, n)
	add("deleted", "ms", milliseconds(began))
}

// measureMemory measures the memory of the testbed's processes and of its nodes.
func (b *testSite) measureMemory(tb *testing.B, add func(what, unit string, value float64)) {
	a, err := b.request(local.Request{Action: local.ActionList})
	var list local.List
	if err == nil {
		err = json.Unmarshal(a.Output, &list)
	}
	if err != nil {
		tb.Fatal(err)
	}
	var pss, anonymous, groups, disks int
	for _, n := range list.Nodes {
		pss += kilobytes(tb, n.PID, "smaps_rollup", "Pss:")
		anonymous += kilobytes(tb, n.PID, "smaps_rollup", "Anonymous:")
		groups += int(n.Memory >> 10)
		disks += int(n.Disk >> 10)
	}
	each := float64(len(list.Nodes))
	add("agent, its share of memory (Pss)", "kB", float64(pss)/each)
	add("agent, memory of its own", "kB", float64(anonymous)/each)
	add("what a node's memory limit counts", "kB", float64(groups)/each)
	add("what a node's disk takes", "kB", float64(disks)/each)
	add("up, resident", "kB", float64(kilobytes(tb, b.up.Process.Pid, "status", "VmRSS:")))
	add("gateway, resident", "kB", float64(kilobytes(tb, b.gatewayPID(tb), "status", "VmRSS:")))
}

// processorTime returns the processor time of "up", the nodes' processes and the gateway.
// On a busy host it says more than elapsed time. It contains only a part of the kernel's
// work for them.
func (b *testSite) processorTime() time.Duration {
	const tick = 10 * time.Millisecond
	var used time.Duration
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.up.Process.Pid))
	_, after, _ := strings.Cut(string(text), ") ")
	for _, field := range strings.Fields(after)[11:15] { // of the process and its ended children
		n, _ := strconv.Atoi(field)
		used += time.Duration(n) * tick
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/cpuacct/patchbay-local*/" + b.instance + "/cpuacct.usage")
	for _, path := range groups {
		text, _ := os.ReadFile(path)
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		used += time.Duration(n)
	}
	return used
}

// kilobytes reads a figure of a process.
func kilobytes(t testing.TB, pid int, file, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n"+name)
	fields := strings.Fields(after)
	if len(fields) == 0 {
		t.Fatalf("%s of process %d does not tell %s", file, pid, name)
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gatewayPID returns the pid of the gateway, a child of "up".
func (b *testSite) gatewayPID(tb testing.TB) int {
	tb.Helper()
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.up.Process.Pid))
	for _, path := range all {
		children, _ := os.ReadFile(path)
		for pid := range strings.FieldsSeq(string(children)) {
			if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(line), gateway.Argv0) {
				n, _ := strconv.Atoi(pid)
				return n
			}
		}
	}
	tb.Fatal("up has no gateway")
	return 0
}

// setAll sets n nodes at once, through the provider.
func (b *testSite) setAll(tb *testing.B, n int, ensure string, should provider.Resource) {
	tb.Helper()
	updates := make([]provider.Update, n)
	for i := range updates {
		updates[i] = provider.Update{Name: nodeID(i), Is: provider.Resource{"ensure": ensure}, Should: should}
	}
	changes, err := b.provider.Set(tb.Context(), updates, false)
	if err != nil || slices.ContainsFunc(changes, func(c provider.Change) bool { return c.Err != nil }) {
		tb.Fatalf("set: %v, %.500v", err, changes)
	}
}

// makeNodes creates n nodes of one slice and waits until all are ready.
func (b *testSite) makeNodes(tb *testing.B, n int, users []string) {
	tb.Helper()
	b.setAll(tb, n, provider.Absent, node("localhost", provider.Resource{
		"power": "on", "users": users, "slice_urn": "urn:publicid:IDN+example.org+slice+" + b.instance,
	}))
	b.waitStates(tb, func(state map[string]int) bool { return state[provider.StateReady] == n })
}

// removeNodes removes n nodes and waits until they are gone.
func (b *testSite) removeNodes(tb *testing.B, n int) {
	tb.Helper()
	b.setAll(tb, n, provider.Present, provider.Resource{"ensure": provider.Absent})
	b.waitStates(tb, func(state map[string]int) bool { return len(state) == 0 })
}

// waitStates waits for numbers of nodes by state. It uses the socket itself, which costs
// less than a provider's process each time.
func (b *testSite) waitStates(tb *testing.B, enough func(state map[string]int) bool) {
	tb.Helper()
	for end := time.Now().Add(bedTime); ; time.Sleep(5 * time.Millisecond) {
		a, err := b.request(local.Request{Action: local.ActionGet, Input: json.RawMessage(`{}`)})
		var got struct {
			Resources []struct{ State, Message string }
		}
		if err == nil {
			err = json.Unmarshal(a.Output, &got)
		}
		state := map[string]int{}
		for _, r := range got.Resources {
			state[r.State]++
		}
		switch {
		case err != nil:
			tb.Fatal(err)
		case enough(state):
			return
		case time.Now().After(end) || state[provider.StateFailed] > 0:
			tb.Fatalf("nodes by state: %v, such as %v", state, got.Resources[0])
		}
		time.Sleep(time.Duration(len(got.Resources)) * 100 * time.Microsecond)
	}
}

// agentExec runs true in a node, without any client.
func (b *testSite) agentExec(tb *testing.B, name string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), bedTime)
	defer cancel()
	c, err := fdsocket.Dial(ctx, filepath.Join(b.state, "nodes", name, "agent.sock"))
	if err != nil {
		tb.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer null.Close()
	p, err := agent.Exec(ctx, c, agent.Command{User: "root", Argv: []string{"/bin/true"}}, []*os.File{null, null, null})
	if err != nil {
		tb.Fatal(err)
	}
	defer p.Close()
	if end, err := p.Wait(); err != nil || end.Status != 0 {
		tb.Fatal(end, err)
	}
}

// benchRunc does the same with Debian's runc as far as possible: containers that share
// this host's programs, without disk, login, or agent.
func benchRunc(b *testing.B, figures *benchTable) {
	if _, err := exec.LookPath("runc"); err != nil {
		b.Skip("runc is not installed (apt install runc); the table is without it")
	}
	r := newRunc(b)
	for _, n := range []int{1, 20, 100, 300} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			count := strconv.Itoa(n)
			for b.Loop() {
				began := time.Now()
				r.all(b, n, func(name string) error { return r.run("run", "--detach", "--bundle", r.bundle, name) })
				figures.add("runc: created and started", count, "ms", milliseconds(began))
				if n == 1 {
					for range 20 {
						began = time.Now()
						r.must(b, "exec", r.name(0), "/bin/true")
						figures.add("runc: exec of true", count, "ms", milliseconds(began))
					}
				}
				began = time.Now()
				r.all(b, n, func(name string) error { return r.run("delete", "--force", name) })
				figures.add("runc: deleted", count, "ms", milliseconds(began))
			}
		})
	}
}
