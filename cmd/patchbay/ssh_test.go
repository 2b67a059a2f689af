package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/testkit/program"
)

// TestSSHUsesStoredManifest proves that ssh, status and down report an aggregate that
// does not answer, and that ssh uses the stored login.
func TestSSHUsesStoredManifest(t *testing.T) {
	dir := program.NewSite(t, []string{"user", "alice"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	request, folder := filepath.Join(t.TempDir(), "one.xml"), filepath.Join(t.TempDir(), "alice")
	program.Write(t, request, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="web"/></rspec>`)
	if code, out := runCommand(t, "up", request, "--url", s.url, "--config", dir); code != 0 {
		t.Fatal(out)
	}
	if err := program.Execute("cp", "-a", filepath.Join(dir, "users", "alice"), folder); err != nil {
		t.Fatal(err)
	}
	program.Write(t, filepath.Join(folder, userfolder.AggregateName), "url: "+s.url+"\n")
	s.stop()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\necho \"it runs $*\" >&2\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	code, out := runCommand(t, "ssh", "--user", folder, "web", "hostname")
	if code != 7 {
		t.Errorf("exit status %d, want that of ssh, 7", code)
	}
	program.WantTexts(t, out, "nothing listens at 127.0.0.1", "The login is from the stored manifest.", "it runs -F "+folder+"/ssh_config web.one.patchbay hostname")
	for _, verb := range []string{"status", "down"} {
		if code, out := runCommand(t, verb, "--user", folder); code != 1 || !strings.Contains(out, "nothing listens at 127.0.0.1") {
			t.Errorf("%s: %d: %s", verb, code, out)
		}
		if code, out := runCommand(t, verb, "--url", s.url, "--config", dir); code != 1 || !strings.Contains(out, "the site is not running; start it with: "+display.CommandAt(dir, "serve")) {
			t.Errorf("%s: %d: %s", verb, code, out)
		}
	}
}
