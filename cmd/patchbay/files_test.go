package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/site"
)

// TestPipesAreRefused proves that commands refuse pipes as files, and suggest - where
// they accept it.
func TestPipesAreRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const refused, remedy = "it is not a regular file but a pipe; name a regular file", "; or give - and pipe the content in"
	if _, err := site.ReadRegular(pipe); err == nil || !strings.HasSuffix(err.Error(), refused) {
		t.Errorf("where - is not taken: %v", err)
	}
	for _, args := range [][]string{{"check", pipe}, {"draw", pipe}} {
		code, out := runCommand(t, args...)
		if code == 0 || !strings.Contains(out, refused+remedy) {
			t.Errorf("%q: %d %s", args, code, out)
		}
	}
	if _, err := readInput(pipe); err == nil || !strings.HasSuffix(err.Error(), refused+remedy) {
		t.Errorf("a call: %v", err)
	}
	if _, err := readInput(t.TempDir()); err == nil || strings.Contains(err.Error(), remedy) {
		t.Errorf("a folder: %v", err)
	}
}
