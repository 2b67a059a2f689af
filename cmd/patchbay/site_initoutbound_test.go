package main

import (
	"os"
	"testing"

	"patchbay/am/testkit/program"
)

func TestInitAsksAtATerminalOnly(t *testing.T) {
	master, terminal := program.NewTerminal(t)
	for typed, want := range map[string]string{"y\n": "yes", " YES \n": "yes", "\n": "no", "no\n": "no", "yellow\n": "no", "\x04": "no"} {
		if _, err := master.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		if got := askOutbound(terminal, terminal); got != want {
			t.Errorf("%q means %s, want %s", typed, got, want)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got := askOutbound(r, terminal); got != "no" {
		t.Errorf("from a pipe: %s", got)
	}
}
