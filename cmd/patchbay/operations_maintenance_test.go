package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/wait"
)

// TestMaintenanceAsAnOperatorSeesIt plans, lists and takes back maintenance of a
// site that is served.
func TestMaintenanceAsAnOperatorSeesIt(t *testing.T) {
	dir, site := lockable(t)
	s := serve(t, dir, "--listen", "127.0.0.1:0")
	call := func(args ...string) string {
		t.Helper()
		_, out := tell(t, append([]string{"call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first"}, args...)...)
		return out
	}
	good := func(args ...string) string {
		t.Helper()
		code, out := site(args...)
		if code != 0 {
			t.Fatalf("%q: exit status %d\n%s", args, code, out)
		}
		return out
	}
	bound := func(component string) string {
		file := filepath.Join(t.TempDir(), "request.xml")
		text := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="` + component + `" component_id="urn:publicid:IDN+testbed.example.org+node+` + component + `"/></rspec>`
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	has(t, good("maintenance"), "No maintenance is planned.")
	has(t, call("Allocate", bound("pc3")), "SUCCESS (0)")
	has(t, call("Provision"), "SUCCESS (0)")

	out := good("maintenance", "pc1..pc4", "vm1", "--from", "2h", "--for", "4h", "new disks")
	has(t, out, "Maintenance 1 is planned, of pc1..pc4 vm1, from ", "Experimenters are told: new disks",
		"These slices have slivers there for longer, which are left alone:", "slice+first: 1 sliver, until ")
	out = good("maintenance", "pc1", "--until", "1h", "fan")
	has(t, out, "Maintenance 2 is planned, of pc1, from ", "No sliver reaches into it.")
	out = good("maintenance")
	if !regexp.MustCompile(`(?m)^1 +in (2h|1h5\dm) +\S+ to \S+ +pc1\.\.pc4 vm1 +new disks\n +reaches into it: \S+slice\+first: 1 sliver, until .*\n2 +now +.*pc1 +fan$`).MatchString(out) {
		t.Errorf("the list is\n%s", out)
	}
	has(t, good("check"), "maintenance of pc1..pc4 vm1, from ", "pc1 is under maintenance, from ", ": fan")
	has(t, good("check", filepath.Join(dir, "maintenance.yaml")), "maintenance of pc1..pc4 vm1, from ")

	has(t, call("Allocate", bound("pc1")), "UNAVAILABLE (11)", "pc1 is under maintenance until ", ": fan; take another component")
	has(t, call("Allocate", bound("pc2")), "SUCCESS (0)", "its lease ends by ", "for maintenance begins then: new disks")
	has(t, call("Renew", "20h", "pc2"), "REFUSED (7)", "for maintenance begins at ")
	has(t, call("Delete"), "SUCCESS (0)")

	if code, out := site("maintenance", "--lift", "3"); code != 1 || !strings.Contains(out, "there is no number 3; the list has 2") {
		t.Errorf("lift of what is not there: %d %s", code, out)
	}
	has(t, good("maintenance", "--lift", "2"), "Taken back: pc1, ", ": fan\n")
	has(t, call("Allocate", bound("pc1")), "SUCCESS (0)")
	good("maintenance", "pc5", "--from", "1h", "--for", "1h", "lamp")
	good("maintenance", "pc6", "--from", "1h", "--for", "1h", "belt")
	has(t, good("maintenance", "--lift", "1,3"), "Taken back: pc1..pc4 vm1, ", ": new disks\nTaken back: pc6, ", ": belt\n")
	if out := good("maintenance"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "lamp") {
		t.Errorf("what is left is\n%s", out)
	}
	has(t, good("maintenance", "--all", "--for", "1h", "move"), "of the whole site")
	has(t, call("Allocate", filepath.Join(dir, "request.xml")), "UNAVAILABLE (11)", "under maintenance until ", ": move")

	// By hand, with a name that nothing has.
	file := filepath.Join(dir, "maintenance.yaml")
	if err := os.WriteFile(file, []byte("planned: [{components: [pc1..pc21], from: 2030-01-01T00:00:00Z, until: 2030-01-02T00:00:00Z, text: x}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a file edited by hand counts", func() bool { return strings.Contains(s.out.String(), "component=pc21") })
	if code, out := site("check"); code != 1 || !strings.Contains(out, `maintenance.yaml:1: the inventory has no component "pc21"; did you mean pc1?; correct the name`) {
		t.Errorf("check: %d %s", code, out)
	}
}
