package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
)

func TestDemoShowsAnExperiment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	code, out := runCommand(t, "demo", "--provider", "simulated", "--keep", dir)
	if code != 0 {
		t.Fatal(out)
	}
	program.WantTexts(t, out, "far:0     10.0.0.3", "Allocate request.xml", "3 notready", "3 ready", "ssh -i", "SEARCHFAILED (12)", "patchbay serve --config")
	for i := range 13 {
		program.WantTexts(t, out, fmt.Sprintf("\n%2d. ", i+1))
	}
	for _, name := range []string{"request.svg", "manifest.svg"} {
		program.WantTexts(t, program.ReadFile(t, filepath.Join(dir, name)), "<svg", "far")
	}
	if code, out := runCommand(t, "check", "--config", dir); code != 0 {
		t.Errorf("the kept site: %s", out)
	}
	// A second demonstration in the folder runs no step, and removes nothing of the
	// first.
	code, out = runCommand(t, "demo", "--provider", "simulated", "--keep", dir)
	if want := "patchbay: " + dir + " has a site already and was not changed; name a new folder\n"; code != 1 || out != want {
		t.Errorf("in a folder with a site: %d %q, want %q", code, out, want)
	}
}

// TestDemoWithoutRoot runs demo without the rights of root.
func TestDemoWithoutRoot(t *testing.T) {
	require.Root(t)
	runCommand(t, "version")
	dir, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.MkdirTemp("", "patchbay-demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(open)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"patchbay", "patchbay-local"} {
		if err := os.Link(filepath.Join(dir, name), filepath.Join(open, name)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(open, "patchbay"), args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("demo", "--provider", "local")
	if err == nil {
		t.Error("it plays on the local testbed without root")
	}
	program.WantTexts(t, out, "that needs root; run it as root, or with sudo")

	site := filepath.Join(open, "site")
	if out, err = run("init", "--provider", "local", "--authority", "a.example.org", site); err != nil {
		t.Fatal(out)
	}
	bin := "sudo " + open + "/patchbay-local "
	program.WantTexts(t, out, "\n  "+bin+"doctor\n", "\n  "+bin+"up "+site+"/providers/local.yaml\nin another terminal:\n")
}
