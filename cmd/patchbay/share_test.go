package main

import (
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// TestShare gives a partner a login by the files of the site. The partner then
// sees the nodes, and the nodes have the partner's account.
func TestShare(t *testing.T) {
	t.Parallel()
	dir := program.NewSite(t, []string{"user", "alice", "bob"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	defer s.stop()
	run := func(want string, args ...string) string {
		t.Helper()
		code, out := runCommand(t, args...)
		if !strings.Contains(out, want) || code != 0 {
			t.Fatalf("%v: %d\n%s", args, code, out)
		}
		return out
	}
	request := filepath.Join(dir, "request.xml")
	run("is its LEAD", "authority", "project", "course", "--lead", "alice", "--config", dir)
	run("course", "authority", "projects", "--config", dir)
	run("Removed", "authority", "project", "course", "--remove", "--config", dir)

	run("+alice until", strings.Fields("slice empty --owner alice --config "+dir)...)
	run("It has no nodes", strings.Fields("share empty bob --user alice --config "+dir+" --url "+s.url)...)
	run("NODE", "up", request, "--slice", "star", "--user", "alice", "--config", dir, "--url", s.url)
	for range 2 {
		run("has a login on its nodes", strings.Fields("share star bob --user alice --config "+dir+" --url "+s.url)...)
	}
	run("star, delegated to you", strings.Fields("status --user bob --config "+dir+" --url "+s.url)...)
	run(`username="bob"`, strings.Fields("call Describe -o - --user bob --slice star --config "+dir+" --url "+s.url)...)
}
