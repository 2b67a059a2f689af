package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// atTerminal runs a command line at a terminal, where somebody types an answer, and
// returns its exit status and what the terminal shows.
func atTerminal(t *testing.T, answer string, args ...string) (int, string) {
	t.Helper()
	master, terminal := newTerminal(t)
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
	var errs bytes.Buffer
	code := run(t.Context(), args, console{terminal, &errs})
	terminal.Close()
	return code, <-shown + errs.String()
}

// TestOrdersThatCannotBeUndoneAskAtATerminal proves who is asked, and that nothing is
// changed without a yes.
func TestOrdersThatCannotBeUndoneAskAtATerminal(t *testing.T) {
	dir := prepared(t, []string{"user", "ann"}, []string{"slice", "first", "--owner", "ann"})
	quick(t, dir)
	s := serve(t, dir)
	call := func(args ...string) []string {
		return append([]string{"call", "--url", s.url, "--user", filepath.Join(dir, "users", "ann"), "--slice", "first"}, args...)
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
		code, out := tell(t, allocate...) // what is there already is refused
		if code != 0 && !strings.Contains(out, "ALREADYEXISTS") {
			t.Log(out)
		}
		code, out = atTerminal(t, c.answer, c.args...)
		if code != c.code || strings.Contains(out, c.lacks) {
			t.Errorf("%s: exit status %d, want %d, and not %q in:\n%s", c.rule, code, c.code, c.lacks, out)
		}
		has(t, strings.ReplaceAll(out, "\r\n", "\n"), c.has...)
	}
	// Where there is no terminal nobody is asked.
	tell(t, allocate...)
	if code, out := tell(t, call("Delete")...); code != 0 || strings.Contains(out, "[y/N]") {
		t.Errorf("without a terminal: %d %s", code, out)
	}
}
