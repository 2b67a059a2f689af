package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

var update = flag.Bool("update", false, "record a release anew")

// TestReleases updates a site of each release. testdata/releases/VERSION.tar.gz is the
// site's folder, with a slice that was shut down, since its leases do not end, and the
// output of the release for that slice: slivers.json and manifest.xml. With -update the
// test records the newest release of CHANGELOG.md.
func TestReleases(t *testing.T) {
	versions := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindAllStringSubmatch(program.ReadFile(t, "../../CHANGELOG.md"), -1)
	if len(versions) == 0 {
		t.Fatal("CHANGELOG.md names no release")
	}
	for i, v := range versions {
		file, err := filepath.Abs(filepath.Join("testdata/releases", v[1]+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && *update {
			recordRelease(t, file)
		}
		t.Run(v[1], func(t *testing.T) {
			dir := t.TempDir()
			if err := program.Execute("tar", "-xzf", file, "-C", dir); err != nil {
				t.Fatalf("there is no site of this release (%v); record it: go test ./cmd/patchbay -run TestReleases -update", err)
			}
			upgrade(t, filepath.Join(dir, "site"))
		})
	}
}

// upgrade serves the site of an earlier release, and compares what it lists.
func upgrade(t *testing.T, site string) {
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	// The update keeps the paths of the programs.
	prov := filepath.Join(site, "providers", "simulated.prov")
	text := regexp.MustCompile(`exec \S+/patchbay-local`).ReplaceAllLiteralString(program.ReadFile(t, prov), "exec "+filepath.Join(bin, "patchbay-local"))
	if err := os.WriteFile(prov, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) string {
		t.Helper()
		code, out := runCommand(t, append(args, "--config", site)...)
		if code != 0 {
			t.Fatalf("%s: exit status %d\n%s", args[0], code, out)
		}
		return out
	}
	command("move") // an archive is a copy of the site
	if out := command("check"); strings.Contains(out, "error ") {
		t.Errorf("check:\n%s", out)
	}
	s := serve(t, site)
	if got, want := command("slivers", "--slice", "first", "--json"), program.ReadFile(t, filepath.Join(site, "slivers.json")); got != want {
		t.Errorf("slivers: got\n%s\nwant\n%s", got, want)
	}
	generated := regexp.MustCompile(`generated(_by)?="[^"]*"`)
	if got, want := generated.ReplaceAllString(command("manifest", "first"), ""), generated.ReplaceAllString(program.ReadFile(t, filepath.Join(site, "manifest.xml")), ""); got != want {
		t.Errorf("manifest: got\n%s\nwant\n%s", got, want)
	}
	command("release", "first", "--frozen", "--yes")
	wait.Until(t, "the nodes are free", func() bool { return command("slivers", "--json") == "" })
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with %d:\n%s", code, s.out)
	}
}

// recordRelease makes a site and archives it.
func recordRelease(t *testing.T, file string) {
	site := program.NewSite(t, []string{"user", "alice"}, []string{"slice", "first", "--owner", "alice"})
	program.RemoveSimulatedDelays(t, site)
	s := serve(t, site)
	for _, args := range [][]string{{"Allocate", filepath.Join(site, "request.xml")}, {"Provision", "--wait"}, {"Shutdown", "--yes"}} {
		if code, out := runCommand(t, append([]string{"call", "--url", s.url, "--user", filepath.Join(site, "users/alice"), "--slice", "first"}, args...)...); code != 0 {
			t.Fatalf("%s: %s", args[0], out)
		}
	}
	for name, args := range map[string][]string{"slivers.json": {"slivers", "--slice", "first", "--json"}, "manifest.xml": {"manifest", "first"}} {
		var out string
		wait.Until(t, "the nodes are off", func() bool {
			_, out = runCommand(t, append(args, "--config", site)...)
			_, tasks := runCommand(t, "tasks", "--json", "--config", site)
			return tasks == ""
		})
		if err := os.WriteFile(filepath.Join(site, name), []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	if err := program.Execute("mkdir", "-p", filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if err := program.Execute("tar", "-czf", file, "-C", filepath.Dir(site), "--owner=0", "--group=0", "site"); err != nil {
		t.Fatal(err)
	}
}
