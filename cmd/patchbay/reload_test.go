package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/wait"
)

// reloadSite is a served site of which a slice has the first node.
func reloadSite(t *testing.T) (dir, inventory string, s *serving, call func(args ...string) (int, string)) {
	t.Helper()
	dir = made(t)
	tell(t, "user", "ann", "--config", dir)
	tell(t, "slice", "first", "--owner", "ann", "--config", dir)
	s = serve(t, dir)
	call = func(args ...string) (int, string) {
		return tell(t, append([]string{"call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first"}, args...)...)
	}
	for _, args := range [][]string{{"Allocate", filepath.Join(dir, "request.xml")}, {"Provision"}} {
		if code, out := call(args...); code != 0 {
			t.Fatal(out)
		}
	}
	return dir, filepath.Join(dir, "inventory.yaml"), s, call
}

func TestReload(t *testing.T) {
	dir, file, s, call := reloadSite(t)
	defer s.stop()
	reload := func(want int, words ...string) {
		t.Helper()
		code, out := tell(t, "reload", "--config", dir)
		if code != want {
			t.Errorf("reload answers %d, want %d: %s", code, want, out)
		}
		has(t, out, words...)
	}
	reload(0, "The inventory is as it was.", "No sliver is on anything")

	good := readFile(t, file)
	edit(t, file, "names: pc1..pc12", "names: pc1..pc12\n    colour: red")
	reload(1, "nothing has changed", "inventory.yaml:", "colour")
	_, ad := call("ListResources")
	if !strings.Contains(ad, "+node+pc1") || !strings.Contains(ad, "+node+pc12") {
		t.Error("a mistake has changed the advertisement")
	}
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}

	edit(t, file, "names: pc1..pc12", "names: [pc2..pc12, pc31]")
	_, manifest := call("Describe")
	code, out := tell(t, "check", "--config", dir)
	if code != 0 {
		t.Error(out)
	}
	has(t, out, "not in force yet: component pc1: is no longer there", "not in force yet: component pc31: is new", "warning", "pc1: it is not in the inventory", "slice+first, until ")
	reload(0, "component pc1: is no longer there", "warning", "pc1: it is not in the inventory", "slice+first, until ")
	if _, out := tell(t, "check", "--config", dir); !strings.Contains(out, "in force as it is") {
		t.Error(out)
	}
	_, ad = call("ListResources")
	if strings.Contains(ad, `+node+pc1"`) || !strings.Contains(ad, `+node+pc31"`) {
		t.Error("the advertisement does not follow")
	}
	if _, now := call("Describe"); factsOf(now) != factsOf(manifest) {
		t.Errorf("the manifest has changed:\n%s\nit was\n%s", now, manifest)
	}
	if code, out := call("Delete"); code != 0 {
		t.Error(out)
	}
	wait.Until(t, "its provider has removed the sliver", func() bool {
		_, out := tell(t, "reload", "--config", dir)
		return strings.Contains(out, "No sliver is on anything")
	})
	reload(0, "The inventory is as it was.", "No sliver is on anything")

	edit(t, filepath.Join(dir, "patchbay.yaml"), "authority: testbed.example.org", "authority: other.example.org")
	if code, out := tell(t, "check", "--config", dir); code == 0 || !strings.Contains(out, "reload would refuse") {
		t.Error(out)
	}
	reload(1, "a new authority is a new site")
}

// factsOf are the lines of a manifest that tell where its nodes are, and of what kind.
func factsOf(manifest string) string {
	var kept []string
	for line := range strings.Lines(manifest) {
		if strings.Contains(line, "component_id=") || strings.Contains(line, "disk_image") {
			kept = append(kept, line)
		}
		if i := strings.Index(line, "<hardware_type"); i >= 0 {
			kind, _, _ := strings.Cut(line[i:], "/>")
			kept = append(kept, kind)
		}
	}
	return strings.Join(kept, "")
}

func TestReloadOfASiteThatIsNotServed(t *testing.T) {
	dir := made(t)
	code, out := tell(t, "reload", "--config", dir)
	if code != 1 {
		t.Errorf("it answers %d", code)
	}
	has(t, out, "the site is not served", "check")
}

func TestHangupReloads(t *testing.T) {
	_, file, s, call := reloadSite(t)
	defer s.stop()
	edit(t, file, "names: pc1..pc12", "names: pc1..pc12\n    drained: true")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"inventory read", "are drained; they take nothing new", "pc1: it is drained"} {
		wait.Until(t, line, func() bool { return strings.Contains(s.out.String(), line) })
	}
	if code, out := call("Status"); code != 0 {
		t.Error(out)
	}
}

// TestAnotherInventoryAtTheStart holds that a restart tells what a reload would have
// told, and that check tells it before.
func TestAnotherInventoryAtTheStart(t *testing.T) {
	dir, file, s, _ := reloadSite(t)
	s.stop()
	edit(t, file, "names: pc1..pc12", "names: pc2..pc12")
	want := "pc1: it is not in the inventory, and simulated looks after its slivers"
	code, out := tell(t, "check", "--config", dir)
	if code != 0 {
		t.Errorf("check answers %d", code)
	}
	has(t, out, want)
	again := serve(t, dir)
	has(t, again.out.String(), want)
	again.stop()
	once := serve(t, dir)
	defer once.stop()
	has(t, once.out.String(), "the inventory is as it was, and slivers are on what is otherwise")
	if strings.Contains(once.out.String(), want) {
		t.Error("a start with the same inventory tells it again")
	}
	code, out = tell(t, "reload", "--config", dir)
	if code != 0 || strings.Contains(out, want) {
		t.Errorf("a reload with the same inventory tells it again: %d", code)
	}
	has(t, out, "The inventory is as it was.", "nothing new for slivers; patchbay check tells 1 consequence as before")
}

// TestNoMachineIsGivenTwice holds that names of components do not move under slivers,
// by which two slices would get one machine: check says so, reload and the start
// refuse it.
func TestNoMachineIsGivenTwice(t *testing.T) {
	dir, file, s, _ := reloadSite(t)
	edit(t, file, "names: pc1..pc12", "names: pc3..pc12")
	edit(t, file, "components:\n", "components:\n"+
		"  - {name: pc1, component_id: \"urn:publicid:IDN+testbed.example.org+node+pc2\", exclusive: true, sliver_types: [raw-pc]}\n"+
		"  - {name: pc2, component_id: \"urn:publicid:IDN+testbed.example.org+node+pc1\", exclusive: true, sliver_types: [raw-pc]}\n")
	const want = "the component name pc1 goes to urn:publicid:IDN+testbed.example.org+node+pc2, but it is the machine of a sliver of "
	refused := func(what string, args ...string) {
		t.Helper()
		code, out := tell(t, append(args, "--config", dir)...)
		if code != 1 {
			t.Errorf("%s: it answers %d", what, code)
		}
		has(t, out, want)
	}
	refused("check while it is served", "check")
	refused("reload", "reload")
	s.stop()
	refused("check", "check")
	refused("the start", "serve")
}

// TestANodeWithAnotherURNIsStillHeld holds that operators see a sliver on its node
// when only the component_id has changed.
func TestANodeWithAnotherURNIsStillHeld(t *testing.T) {
	dir, file, s, _ := reloadSite(t)
	defer s.stop()
	edit(t, file, "names: pc1..pc12", "names: pc2..pc12")
	edit(t, file, "components:\n", "components:\n"+
		"  - {name: pc1, component_id: \"urn:publicid:IDN+testbed.example.org+node+blade1\", exclusive: true, sliver_types: [raw-pc]}\n")
	for _, tt := range []struct {
		args       []string
		want, none string
	}{
		{[]string{"reload"}, "its component_id was", "no longer there"},
		{[]string{"nodes", "pc1"}, "held", "missing"},
		{[]string{"slivers", "--component", "pc1"}, "pc1", "no such sliver"},
		{[]string{"drain", "pc1"}, "first", "No sliver is there"},
	} {
		code, out := tell(t, append(tt.args, "--config", dir)...)
		if code != 0 || !strings.Contains(out, tt.want) || strings.Contains(out, tt.none) {
			t.Errorf("%q: %d\n%s", tt.args, code, out)
		}
	}
}

// TestANewNameDoesNotEndADrain holds that what is drained stays so under another name.
func TestANewNameDoesNotEndADrain(t *testing.T) {
	dir, file, s, _ := reloadSite(t)
	defer s.stop()
	if code, out := tell(t, "drain", "pc5", "--config", dir); code != 0 {
		t.Fatal(out)
	}
	edit(t, file, "names: pc1..pc12", "names: [pc1..pc4, pc6..pc12]")
	edit(t, file, "components:\n", "components:\n"+
		"  - {name: blade5, component_id: \"urn:publicid:IDN+testbed.example.org+node+pc5\", exclusive: true, sliver_types: [raw-pc]}\n")
	code, out := tell(t, "reload", "--config", dir)
	if code != 1 {
		t.Errorf("it answers %d", code)
	}
	const refused = "pc5 is out of service under this name, and would be in service as blade5"
	has(t, out, refused)
	upkeep := filepath.Join(dir, "maintenance.yaml")
	good := readFile(t, upkeep)
	edit(t, upkeep, "drained:", "drianed:") // what it said stays in force
	if _, out := tell(t, "reload", "--config", dir); !strings.Contains(out, refused) {
		t.Errorf("with a mistake in the file: %s", out)
	}
	if err := os.WriteFile(upkeep, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := tell(t, "undrain", "pc5", "--config", dir); code != 0 {
		t.Fatal(out)
	}
	if code, out := tell(t, "reload", "--config", dir); code != 0 {
		t.Error(out)
	}
}
