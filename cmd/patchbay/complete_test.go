package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// TestEveryFlagHasKnownCompletion proves what the shell offers for each flag with a value:
// files, words of the site or fixed words, or nothing. A new flag must be added here.
func TestEveryFlagHasKnownCompletion(t *testing.T) {
	want := map[string][]string{
		"files": {"against", "backup", "bundle", "ca", "config", "content", "credential", "dir", "fits", "junit", "keep", "links", "list", "out", "output", "passphrase-file", "request", "ssh-key", "svg", "with"},
		"words": {"user", "owner", "lead", "delegate from", "delegate to", "tool for", "login", "slice", "component", "provider", "life", "sliver-type", "image",
			"event", "state", "goal", "outbound", "api-version", "format", "group"},
		"nothing": {"at", "authority", "budget", "check", "content-url", "days", "end", "ends-before", "expires", "extend", "for", "from", "lift", "limit", "listen", "option", "public-url", "reason", "set", "since", "speaking-for", "start",
			"timeout", "until", "url", "wait", "width", "sliver", "import provider", "user slice", "login slice"},
	}
	kindOf := func(cmd, flag string) (kinds []string) {
		for _, name := range []string{cmd + " " + flag, flag} {
			for kind, flags := range want {
				if slices.Contains(flags, name) {
					kinds = append(kinds, kind)
				}
			}
			if kinds != nil {
				break
			}
		}
		return kinds
	}
	dir := program.NewSite(t, []string{"user", "alice"}, []string{"slice", "first", "--owner", "alice"})
	addSlivers(t, dir)
	for _, cmd := range rootCommand(command.Console{Out: io.Discard, Err: io.Discard}).Commands() {
		cmd.SetContext(t.Context())
		if cmd.Flags().Lookup("config") != nil {
			if err := cmd.Flags().Set("config", dir); err != nil {
				t.Fatal(err)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kinds := kindOf(cmd.Name(), f.Name)
			if f.NoOptDefVal != "" {
				return
			}
			if len(kinds) != 1 {
				t.Errorf("patchbay %s --%s: its completion must be one kind, not %q", cmd.Name(), f.Name, kinds)
				return
			}
			got := "files"
			if complete, registered := cmd.GetFlagCompletionFunc(f.Name); registered {
				words, directive := complete(cmd, nil, "")
				switch {
				case directive == cobra.ShellCompDirectiveDefault:
				case len(words) > 0:
					got = "words"
				default:
					got = "nothing"
				}
			}
			if got != kinds[0] {
				t.Errorf("patchbay %s --%s completes %s, want %s", cmd.Name(), f.Name, got, kinds[0])
			}
		})
	}
}

// TestShellsCompleteWords proves which words the shell offers at places of command lines.
func TestShellsCompleteWords(t *testing.T) {
	dir := program.NewSite(t, []string{"user", "alice"}, []string{"user", "bob"}, []string{"slice", "first", "--owner", "alice"}, []string{"slice", "second", "--owner", "bob"})
	full := newSiteWithSlivers(t)
	const files = "default" // the shell completes names of files
	for _, c := range []struct{ site, line, want string }{
		{dir, "call ", "Allocate Delete Describe GetVersion ListResources PerformOperationalAction Provision Renew Shutdown Status start stop restart update_users setup"},
		{dir, "call st", "start stop"},
		{dir, "call --api-version 2 ", "CreateSliver DeleteSliver GetVersion ListResources RenewSliver Shutdown SliverStatus"},
		{dir, "call Status ", ""},
		{dir, "call --user ", "alice bob"},
		{dir, "call --slice ", "first second"},
		{dir, "call --user alice --slice ", "first"},
		{dir, "slice third --owner ", "alice bob"},
		{dir, "delegate ", "first second"},
		{dir, "delegate first --from ", "alice bob"},
		{dir, "drain pc2", "pc2 pc20"},
		{dir, "nodes --state dr", "drained"},
		{dir, "slivers --state re", "ready removing"},
		{dir, "journal --event R", "Renew"},
		{dir, "check --user ", "alice bob"},
		{dir, "check --user alice --slice ", "first second"},
		{dir, "check --sliver-type ", "raw-pc vm"},
		{"", "draw --width ", ""},
		{"", "draw --svg ", files},
		{full, "manifest ", "first frozen second"},
		{full, "release f", "first frozen"},
		{full, "slivers --slice s", "second"},
		{"", "init --provider ", "local simulated"},
		{"", "init --outbound ", "yes no"},
		{"", "serve ", ""},
		{"", "drain ", ""},
	} {
		words := strings.Split(c.line, " ")
		last := len(words) - 1
		args := []string{"__complete", words[0]}
		if c.site != "" {
			args = append(args, "--config", c.site)
		}
		code, out := runCommand(t, append(append(args, words[1:last]...), words[last])...)
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
