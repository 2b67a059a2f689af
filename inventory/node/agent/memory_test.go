package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

// realNodes starts nodes whose agent is the executable as built for users.
func realNodes(t testing.TB, count int) []*node {
	t.Helper()
	require.Root(t)
	own := filepath.Join(t.TempDir(), "patchbay-local")
	build := exec.Command("go", "build", "-o", own, "patchbay/cmd/patchbay-local")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var nodes []*node
	var first string
	for range count {
		root := newRoot(t)
		to := filepath.Join(root, realProgram)
		if first == "" {
			first = to
			text, err := os.ReadFile(own)
			check(t, err)
			check(t, os.WriteFile(to, text, 0o755))
		} else {
			check(t, os.Link(first, to)) // they share its pages, as real nodes do
		}
		nodes = append(nodes, startNode(t, root))
	}
	return nodes
}

// proportionalMemory returns the memory of a process in kB, with shared pages counted in parts (PSS).
func proportionalMemory(t testing.TB, pid int) map[string]int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	check(t, err)
	m := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		m[name], _ = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
	}
	return m
}

// mostMemory bounds the private memory of an idle agent in kB: a configured one has 1,080 to
// 1,540, depending on the kernel and the release of Go. Pages shared with agents of other nodes are
// counted once for all.
const mostMemory = 1700

func TestMemory(t *testing.T) {
	nodes := realNodes(t, 10)
	own := func(when string) int {
		t.Helper()
		all, private := 0, 0
		for _, n := range nodes {
			m := proportionalMemory(t, n.pid)
			all += m["Pss"] / len(nodes)
			private += m["Pss_Anon"] / len(nodes)
		}
		t.Logf("%s: %d kB a node of its own, %d kB with its part of what %d share", when, private, all, len(nodes))
		return private
	}
	if kb := own("started"); kb > mostMemory {
		t.Errorf("an agent has %d kB, at most %d", kb, mostMemory)
	}
	for _, n := range nodes {
		n.configure(someKeys)
	}
	if kb := own("configured"); kb > mostMemory {
		t.Errorf("a configured agent has %d kB, at most %d", kb, mostMemory)
	}
	for _, n := range nodes {
		for range 20 {
			n.line("alice", "true")
		}
	}
	own("after 20 commands")
}
