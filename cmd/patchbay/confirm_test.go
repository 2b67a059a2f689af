package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// runAtTerminal runs a command line at a terminal and types an answer. It returns the
// exit status and the text on the terminal.
func runAtTerminal(t *testing.T, answer string, args ...string) (int, string) {
	t.Helper()
	master, terminal := program.NewTerminal(t)
	in := os.Stdin
	os.Stdin = terminal
	defer func() { os.Stdin = in }()
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // ends with an error when the terminal is closed
		shown <- string(text)
	}()
	if _, err := master.WriteString(answer + "\n"); err != nil {
		t.Fatal(err)
	}
	code := run(t.Context(), args, command.Console{Out: terminal, Err: terminal})
	terminal.Close()
	return code, strings.ReplaceAll(<-shown, "\r\n", "\n")
}

// TestIrreversibleCommandsAskAtATerminal checks which commands ask, and that nothing is
// changed without a yes.
func TestIrreversibleCommandsAskAtATerminal(t *testing.T) {
	dir := program.NewSite(t, []string{"user", "alice"}, []string{"slice", "first", "--owner", "alice"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	call := func(args ...string) []string {
		return append([]string{"call", "--url", s.url, "--user", filepath.Join(dir, "users", "alice"), "--slice", "first"}, args...)
	}
	release := []string{"release", "first", "--config", dir}
	allocate := call("Allocate", filepath.Join(dir, "request.xml"))
	const no, changed = "nothing was changed", "SUCCESS (0)"
	for _, c := range []struct {
		rule, answer string
		args         []string
		code         int
		has          []string
		lacks        string
	}{
		{"Delete of the slice", "n", call("Delete"), 1, []string{"Delete all slivers of urn:publicid:IDN+testbed.example.org+slice+first, with everything on them? [y/N]", no}, changed},
		{"no answer is no", "", call("delete"), 1, []string{no}, changed},
		{"Shutdown says what it is", "no", call("Shutdown"), 1, []string{"This is an emergency stop", "only the operators of the aggregate can undo it", no}, changed},
		{"DeleteSliver", "n", call("--api-version", "2", "DeleteSliver"), 1, []string{no}, changed},
		{"release shows what it would take", "n", release, 1, []string{"2 slivers of slice urn:publicid:IDN+testbed.example.org+slice+first: ", "server", "client", no}, "Released"},
		{"one sliver", "n", call("Delete", "client"), 0, []string{changed}, "[y/N]"},
		{"other methods", "n", call("Status"), 0, []string{changed}, "[y/N]"},
		{"yes", "yes", call("Delete"), 0, []string{"[y/N]", changed}, no},
		{"--yes", "n", call("--yes", "Delete"), 0, []string{changed}, "[y/N]"},
		{"release, yes", "y", release, 0, []string{"[y/N]", "Released: 2 slivers"}, no},
		{"release --yes", "n", append(release, "--yes"), 0, []string{"Released: 2 slivers"}, "[y/N]"},
	} {
		code, out := runCommand(t, allocate...) // refused, since the slivers exist
		if code != 0 && !strings.Contains(out, "ALREADYEXISTS") {
			t.Log(out)
		}
		code, out = runAtTerminal(t, c.answer, c.args...)
		if code != c.code || strings.Contains(out, c.lacks) {
			t.Errorf("%s: exit status %d, want %d, and not %q in:\n%s", c.rule, code, c.code, c.lacks, out)
		}
		program.WantTexts(t, strings.ReplaceAll(out, "\r\n", "\n"), c.has...)
	}
	// Without a terminal no command asks.
	runCommand(t, allocate...)
	if code, out := runCommand(t, call("Delete")...); code != 0 || strings.Contains(out, "[y/N]") {
		t.Errorf("without a terminal: %d %s", code, out)
	}
}

// TestRenewOverAsksAtATerminal checks that renew --over lists the reservations that it would release, and needs a yes.
func TestRenewOverAsksAtATerminal(t *testing.T) {
	dir := program.NewSite(t, []string{"user", "alice"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	file := filepath.Join(t.TempDir(), "pc1.xml")
	program.Write(t, file, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="web" component_id="urn:publicid:IDN+testbed.example.org+node+pc1" exclusive="true"/></rspec>`)
	for _, times := range [][]string{{"--slice", "now", "--for", "2h"}, {"--slice", "later", "--at", "+3h", "--until", "+1h"}} {
		if code, out := runCommand(t, append([]string{"up", file, "--url", s.url, "--config", dir}, times...)...); code != 0 {
			t.Fatal(out)
		}
	}
	const ask, released = "Release these reservations? [y/N]", "Released: later/web on pc1"
	for _, c := range []struct {
		rule, answer, end string
		code              int
		has               []string
		lacks             string
	}{
		{"nothing in the way", "n", "150m", 0, []string{"The leases of 1 sliver"}, ask},
		{"no", "n", "4h", 1, []string{"later/web on pc1 from ", ask, "nothing was changed"}, released},
		{"yes", "y", "4h", 0, []string{ask, released, "The leases of 1 sliver"}, "nothing was changed"},
	} {
		code, out := runAtTerminal(t, c.answer, "renew", "now", "--for", c.end, "--over", "--config", dir)
		if code != c.code || strings.Contains(out, c.lacks) {
			t.Errorf("%s: exit status %d, want %d, and not %q in:\n%s", c.rule, code, c.code, c.lacks, out)
		}
		program.WantTexts(t, out, c.has...)
	}
}

// TestVerbsAskAtATerminal checks that up asks before it changes nodes, and down before it
// deletes them, and that neither does anything without a yes.
func TestVerbsAskAtATerminal(t *testing.T) {
	dir := program.NewSite(t, []string{"user", "alice"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	verb := func(args ...string) []string { return append(args, "--url", s.url, "--config", dir) }
	one, two := filepath.Join(t.TempDir(), "one.xml"), filepath.Join(t.TempDir(), "two.xml")
	program.Write(t, one, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="web"/></rspec>`)
	program.Write(t, two, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3"><node client_id="web"/><node client_id="db"/></rspec>`)
	for _, c := range []struct {
		rule, answer string
		args         []string
		code         int
		has          []string
		lacks        string
	}{
		{"what is new needs no answer", "n", verb("up", one), 0, []string{"web", "next:"}, "[y/N]"},
		{"nor what stays", "n", verb("up", one), 0, []string{"Nothing to change"}, "[y/N]"},
		{"up, no", "n", verb("up", two, "--slice", "one"), 1, []string{"keep  web", "add   db", "Change it? [y/N]", "nothing was changed"}, "next:"},
		{"no answer is no", "", verb("up", two, "--slice", "one"), 1, []string{"nothing was changed"}, "next:"},
		{"up, yes", "y", verb("up", two, "--slice", "one"), 0, []string{"Change it? [y/N]", "db", "next:"}, "nothing was changed"},
		{"--yes", "n", verb("up", one, "--yes"), 0, []string{"remove  db"}, "[y/N]"},
		{"a second slice", "n", verb("up", one, "--slice", "other"), 0, []string{"next:"}, "[y/N]"},
		{"down of all, no", "n", verb("down"), 1, []string{"Delete all nodes of the slices one, other, with everything on them? [y/N]", "nothing was changed"}, "are deleted"},
		{"down of one, no", "n", verb("down", "other"), 1, []string{"Delete all nodes of the slice other, with everything on them? [y/N]", "nothing was changed"}, "are deleted"},
		{"down of one, yes", "y", verb("down", "other"), 0, []string{"[y/N]", "are deleted"}, "nothing was changed"},
		{"down --yes", "n", verb("down", "--yes"), 0, []string{"are deleted"}, "[y/N]"},
	} {
		code, out := runAtTerminal(t, c.answer, c.args...)
		if code != c.code || strings.Contains(out, c.lacks) {
			t.Errorf("%s: exit status %d, want %d, and not %q in:\n%s", c.rule, code, c.code, c.lacks, out)
		}
		program.WantTexts(t, out, c.has...)
	}
}
