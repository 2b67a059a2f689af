package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
)

// TestADrainOfARenamedComponentIsToldAtEachStart renames what is drained while the site
// is not served: it starts, and everything that an operator looks at tells how to mend it.
func TestADrainOfARenamedComponentIsToldAtEachStart(t *testing.T) {
	dir, file, s, _ := reloadSite(t)
	if code, out := tell(t, "drain", "pc5", "fan broken", "--config", dir); code != 0 {
		t.Fatal(out)
	}
	s.stop()
	edit(t, file, "names: pc1..pc12", "names: [pc1..pc4, pc6..pc12]")
	edit(t, file, "components:\n", "components:\n"+
		"  - {name: blade5, component_id: \"urn:publicid:IDN+testbed.example.org+node+pc5\", exclusive: true, sliver_types: [raw-pc]}\n")
	code, out := tell(t, "check", "--config", dir)
	if code != 1 {
		t.Errorf("check answers %d", code)
	}
	has(t, out, `the inventory has no component "pc5"`, "it keeps nothing out of service")
	const logged = "one that was renamed takes new work"
	for range 2 {
		s = serve(t, dir)
		has(t, s.out.String(), logged, "component=pc5")
		has(t, metricsOf(t, s), "\npatchbay_maintenance_unknown 1\n")
		if n := strings.Count(s.out.String(), logged); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
		for _, args := range [][]string{{"drain"}, {"nodes", "pc5"}, {"nodes", "--state", "missing"}} {
			_, out := tell(t, append(args, "--config", dir)...)
			has(t, out, "pc5", "names no component: drain its new name, then undrain this")
		}
		_, out = tell(t, "nodes", "pc5", "--wide", "--urns", "--config", dir)
		has(t, out, "pc5", "missing", "drained by", "fan broken")
		s.stop()
	}
	s = serve(t, dir)
	defer s.stop()
	for _, args := range [][]string{{"drain", "blade5", "fan broken"}, {"undrain", "pc5"}} {
		if code, out := tell(t, append(args, "--config", dir)...); code != 0 {
			t.Errorf("%q: %d %s", args, code, out)
		}
	}
	wait.Until(t, "it is mended", func() bool { return strings.Contains(metricsOf(t, s), "\npatchbay_maintenance_unknown 0\n") })
	_, out = tell(t, "drain", "--config", dir)
	if !strings.Contains(out, "blade5") || strings.Contains(out, "pc5 ") {
		t.Error(out)
	}
}

func metricsOf(t *testing.T, s *serving) string {
	t.Helper()
	_, text := get(t, s.admin+"/metrics")
	return text
}

// manyComponents is an inventory of machines with long component_ids.
func manyComponents(n int, named, id string) string {
	var b strings.Builder
	b.WriteString("sliver_types:\n  - {name: raw-pc}\ncomponents:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: %s%d, component_id: \"urn:publicid:IDN+testbed.example.org+node+%s%d\", exclusive: true, provider: simulated, sliver_types: [raw-pc]}\n", named, i, id, i)
	}
	return b.String()
}

// TestALargeReloadIsToldWithinBounds changes everything of a large site: what is told
// has an end, says how much more there is, and can be read by the command.
func TestALargeReloadIsToldWithinBounds(t *testing.T) {
	const n, drained, told = 15_000, 900, 500
	dir := made(t)
	file := filepath.Join(dir, "inventory.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 150)
	write(manyComponents(n, "n", "old-"+long))
	var drains strings.Builder
	drains.WriteString("drained:\n")
	for i := range drained {
		fmt.Fprintf(&drains, "- components: [n%d]\n", i)
	}
	s := serve(t, dir)
	defer s.stop()
	write(manyComponents(n, "n", "new-"+long))
	code, out := tell(t, "reload", "--config", dir)
	if lines := strings.Count(out, "\n"); code != 0 || lines > told+10 || !strings.Contains(out, fmt.Sprintf("and %d more", n-told)) {
		t.Errorf("every component_id is another: %d, %d lines\n%.2000s", code, lines, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "maintenance.yaml"), []byte(drains.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	write(manyComponents(n, "renamed", "new-"+long))
	code, out = tell(t, "reload", "--config", dir)
	if lines := strings.Count(out, "\n"); code != 1 || lines > told+10 || !strings.Contains(out, fmt.Sprintf("and %d more", drained-told)) {
		t.Errorf("every drained name is another: %d, %d lines\n%.2000s", code, lines, out)
	}
}
