package main

import (
	"fmt"
	"path/filepath"
	"testing"
)

func TestDemoShowsAnExperiment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	code, out := tell(t, "demo", "--keep", dir)
	if code != 0 {
		t.Fatal(out)
	}
	has(t, out, "24 nodes, 24 of them free", "Allocate request.xml", "geni_provisioned", "geni_ready, geni_ready", "ssh -i", "SEARCHFAILED (12)", "24 nodes are free, as before", "patchbay serve --config")
	for i := range 11 {
		has(t, out, fmt.Sprintf("\n%2d. ", i+1))
	}
	if code, out := tell(t, "check", "--config", dir); code != 0 {
		t.Errorf("the kept site: %s", out)
	}
}
