package main

import (
	"strings"
	"testing"
)

// TestShellsCompleteWords proves what can stand at places of command lines of a site.
func TestShellsCompleteWords(t *testing.T) {
	dir := prepared(t, []string{"user", "alice"}, []string{"user", "bob"}, []string{"slice", "first", "--owner", "alice"}, []string{"slice", "second", "--owner", "bob"})
	full := stocked(t)
	const files = "default" // the shell completes names of files
	for _, c := range []struct{ site, line, want string }{
		{dir, "call ", "Allocate Delete Describe GetVersion ListResources PerformOperationalAction Provision Renew Shutdown Status start stop restart"},
		{dir, "call st", "start stop"},
		{dir, "call --api-version 2 ", "CreateSliver DeleteSliver GetVersion ListResources RenewSliver Shutdown SliverStatus"},
		{dir, "call PerformOperationalAction ", "start stop restart update_users"},
		{dir, "call Allocate ", files},
		{dir, "call Status ", ""},
		{dir, "call --user ", "alice bob"},
		{dir, "call --slice ", "first second"},
		{dir, "call --user alice --slice ", "first"},
		{dir, "call -o ", files},
		{dir, "slice third --owner ", "alice bob"},
		{dir, "delegate ", "first second"},
		{dir, "delegate first --from ", "alice bob"},
		{dir, "drain pc2", "pc2 pc20"},
		{dir, "maintenance pc2", "pc2 pc20"},
		{dir, "nodes --state dr", "drained"},
		{dir, "slivers --state re", "ready removing"},
		{dir, "slivers --component vm1", "vm1"},
		{dir, "slivers --provider ", "simulated"},
		{dir, "tasks --goal ma", "make"},
		{full, "manifest ", "first frozen second"},
		{full, "release f", "first frozen"},
		{full, "slivers --slice s", "second"},
		{"", "init --provider ", "local simulated"},
		{"", "init --outbound ", "yes no"},
		{"", "init ", files},
		{"", "check ", files},
		{"", "serve ", ""},
		{"", "drain ", ""},
	} {
		words := strings.Split(c.line, " ")
		last := len(words) - 1
		args := []string{"__complete", words[0]}
		if c.site != "" {
			args = append(args, "--config", c.site)
		}
		code, out := tell(t, append(append(args, words[1:last]...), words[last])...)
		list, ending, _ := strings.Cut(out, ":")
		got := strings.Join(strings.Fields(list), " ")
		if strings.HasPrefix(ending, "0") {
			got = files
		}
		if code != 0 || got != c.want {
			t.Errorf("%q: %d %q, want %q", c.line, code, got, c.want)
		}
	}
}
