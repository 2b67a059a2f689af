package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/testkit/wait"
	"patchbay/am/urn"
	"patchbay/inventory"
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

func TestWhoReachesIntoMaintenance(t *testing.T) {
	inv, err := inventory.Parse(inventory.SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	p, err := maintenance.Parse([]byte(`planned:
  - {components: [pc1, pc2], from: 2030-01-01T08:00:00Z, until: 2030-01-01T10:00:00Z, text: x}
  - {from: 2030-01-01T12:00:00Z, until: 2030-01-01T13:00:00Z, text: y}
  - {components: [pc1], from: 2029-01-01T12:00:00Z, until: 2029-01-01T13:00:00Z, text: over}
`), "maintenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hour := func(n int) time.Time { return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC) }
	on := func(slice, component string, until int) am.Sliver {
		return am.Sliver{
			URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: slice + component}, Slice: urn.URN{Authority: "example.org", Type: urn.Slice, Name: slice},
			Component: urn.URN{Authority: "example.org", Type: urn.Node, Name: component}, Expires: hour(until), Status: am.Status{Allocation: am.Provisioned},
		}
	}
	frozen := on("d", "pc3", 1)
	frozen.Frozen = true
	released := on("e", "pc1", 20)
	released.Status.Allocation = am.Unallocated
	reserved := on("f", "pc4", 7)
	reserved.Status.Allocation = am.Allocated
	s := stateOf(p, inv, []am.Sliver{
		on("a", "pc1", 8),  // ends as it begins
		on("b", "pc1", 9),  // reaches into the first
		on("b", "pc2", 11), // so does this
		on("c", "pc3", 14), // into the second
		on("c", "gone", 14), frozen, released, reserved,
	}, hour(6))
	var got []string
	for _, r := range s.Reaches {
		got = append(got, strings.TrimPrefix(r.String(), "urn:publicid:IDN+example.org+slice+"))
	}
	want := "b: 2 slivers, until 2030-01-01T11:00:00Z, c: 1 sliver, until 2030-01-01T14:00:00Z, d: 1 sliver, shut down and kept"
	if strings.Join(got, ", ") != want || s.Reaches[0].Planned != 0 || s.Reaches[2].Planned != 1 {
		t.Errorf("who reaches into it: %q", got)
	}
	if s.Slivers != 6 || s.Slices != 4 || s.Reserved != 1 {
		t.Errorf("%d slivers of %d slices, and %d reserved", s.Slivers, s.Slices, s.Reserved)
	}
}
