package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// TestNoCoreDumps proves that providers inherit a core size of 0. The provider reports
// its limit.
func TestNoCoreDumps(t *testing.T) {
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	provider, told := filepath.Join(dir, "rack.prov"), filepath.Join(dir, "told")
	script := "#!/bin/sh\n{ ulimit -S -c; ulimit -H -c; } >" + told + "\n"
	if err := os.WriteFile(provider, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	// The provider has no describe, so the check fails.
	out, _ := exec.Command(filepath.Join(bin, "patchbay"), "check", provider).CombinedOutput()
	text, err := os.ReadFile(told)
	if err != nil {
		t.Fatalf("the provider was not run: %v\n%s", err, out)
	}
	if got := strings.Fields(string(text)); strings.Join(got, " ") != "0 0" {
		t.Errorf("cores of %v blocks may be dumped, want 0 now and for good", got)
	}
}
