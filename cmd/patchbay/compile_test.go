package main

import (
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

func TestCompileAsksForParametersAtATerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.radl")
	program.Write(t, file, "system a (cpu.count >= @input.CPUs@ and memory.size >= @input.Memory@)\ndeploy a @input.N@")
	code, shown := runAtTerminal(t, "2\n512M", "compile", file, "--set", "N=1")
	if code != 0 || !strings.Contains(shown, "CPUs: ") || !strings.Contains(shown, "Memory: ") || strings.Contains(shown, "N: ") ||
		!strings.Contains(shown, `feature="cpu.count" op="ge" value="2"`) || !strings.Contains(shown, `feature="memory.size" op="ge" value="512M"`) {
		t.Errorf("exit status %d:\n%s", code, shown)
	}
	code, shown = runAtTerminal(t, "2", "up", file, "--set", "N=0", "--set", "Memory=1G")
	if code != 0 || strings.Contains(shown, "Memory: ") || !strings.Contains(shown, "nothing to do") {
		t.Errorf("exit status %d:\n%s", code, shown)
	}
}
