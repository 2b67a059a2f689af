package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

// runCommand runs a command line in this process, and returns its exit status and all
// output.
func runCommand(t testing.TB, args ...string) (int, string) {
	t.Helper()
	dir, err := program.Build() // init needs patchbay-local
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(os.Getenv("PATH"), dir) {
		if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code := run(t.Context(), args, command.Console{Out: &out, Err: &out})
	return code, out.String()
}
