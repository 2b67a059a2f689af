package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestHelpListsCommandsForPeople checks that help omits the commands that only provider files call,
// and that these have a help text of their own.
func TestHelpListsCommandsForPeople(t *testing.T) {
	help := func(args ...string) string {
		var b bytes.Buffer
		root := command()
		root.SetOut(&b)
		root.SetArgs(append(args, "--help"))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	list := help()
	for name, listed := range map[string]bool{"up": true, "doctor": true, "clean": true, "list": true, "enter": true, "image": true, "local": false, "simulated": false} {
		if strings.Contains(list, "\n  "+name+" ") != listed {
			t.Errorf("%s: want it listed: %v, in:\n%s", name, listed, list)
		}
	}
	if text := help("simulated"); !strings.Contains(text, "Act as the simulated provider") {
		t.Errorf("simulated --help: %s", text)
	}
}
