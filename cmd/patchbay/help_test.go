package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// shellWords splits a command line that has no quotes but single ones.
func shellWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// TestEveryCommandHasAGroupAndExamples proves that help lists each command in a group, and
// that its examples are command lines of it.
func TestEveryCommandHasAGroupAndExamples(t *testing.T) {
	if code, out := runCommand(t, "--help"); code != 0 {
		t.Error(out)
	} else {
		program.WantTexts(t, out, "For experimenters:\n  call ", "To set up and maintain a site:\n", "To operate a site:\n", "Users and slices of the trial authority:\n", "Documents:\n",
			"completion  Generate the autocompletion script", "patterns ")
	}
	free := []string{"version", "help", "completion", "patterns"}
	for _, cmd := range rootCommand(command.Console{Out: io.Discard, Err: io.Discard}).Commands() {
		name := cmd.Name()
		if slices.Contains(free, name) {
			continue
		}
		if cmd.GroupID == "" || cmd.Example == "" {
			t.Errorf("%s has the group %q and the examples %q", name, cmd.GroupID, cmd.Example)
		}
		for line := range strings.Lines(cmd.Example) {
			words := shellWords(line)
			if len(words) < 2 || words[0] != "patchbay" || words[1] != name {
				t.Errorf("%s: the example %q is no command line of it", name, line)
				continue
			}
			// A new command, since flags keep the values of the example before.
			root := rootCommand(command.Console{Out: io.Discard, Err: io.Discard})
			own, _, err := root.Find(words[1:2])
			if err == nil {
				err = own.ParseFlags(words[2:])
			}
			if err != nil {
				t.Errorf("%s: %q: %v", name, line, err)
			}
		}
	}
}

// TestListsExplainPatternsOnce proves that commands that list refer to one help topic.
func TestListsExplainPatternsOnce(t *testing.T) {
	if code, out := runCommand(t, "help", "patterns"); code != 0 || !strings.Contains(out, "A PATTERN is a name or a URN, in which * stands for any") {
		t.Errorf("help patterns: %d %s", code, out)
	}
	for _, name := range []string{"slices", "slivers", "nodes", "tasks", "journal"} {
		_, out := runCommand(t, name, "--help")
		if !strings.Contains(strings.ReplaceAll(out, "\n", " "), "patchbay help patterns") || strings.Contains(out, "* stands for any") {
			t.Errorf("%s --help: %s", name, out)
		}
	}
}
