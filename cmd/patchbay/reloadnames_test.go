package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// componentsYAML returns an inventory of machines with long component_ids.
func componentsYAML(n int, named, id string) string {
	var b strings.Builder
	b.WriteString("sliver_types:\n  - {name: raw-pc}\ncomponents:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: %s%d, component_id: \"urn:publicid:IDN+testbed.example.org+node+%s%d\", exclusive: true, provider: simulated, sliver_types: [raw-pc]}\n", named, i, id, i)
	}
	return b.String()
}

// TestLargeReloadReportIsLimited changes the whole inventory of a large site: the report
// is limited, counts what it leaves out, and the command can read it.
func TestLargeReloadReportIsLimited(t *testing.T) {
	const n, drained, told = 15_000, 900, 500
	dir := newSite(t)
	file := filepath.Join(dir, "inventory.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 150)
	write(componentsYAML(n, "n", "old-"+long))
	var drains strings.Builder
	drains.WriteString("drained:\n")
	for i := range drained {
		fmt.Fprintf(&drains, "- components: [n%d]\n", i)
	}
	s := serve(t, dir)
	defer s.stop()
	write(componentsYAML(n, "n", "new-"+long))
	code, out := runCommand(t, "reload", "--config", dir)
	if lines := strings.Count(out, "\n"); code != 0 || lines > told+10 || !strings.Contains(out, fmt.Sprintf("and %d more", n-told)) {
		t.Errorf("every component_id is another: %d, %d lines\n%.2000s", code, lines, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "maintenance.yaml"), []byte(drains.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	write(componentsYAML(n, "renamed", "new-"+long))
	code, out = runCommand(t, "reload", "--config", dir)
	if lines := strings.Count(out, "\n"); code != 1 || lines > told+10 || !strings.Contains(out, fmt.Sprintf("and %d more", drained-told)) {
		t.Errorf("every drained name is another: %d, %d lines\n%.2000s", code, lines, out)
	}
}
