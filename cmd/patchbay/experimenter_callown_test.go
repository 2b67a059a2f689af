package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCallFindsTheOwnSite proves that call without flags uses the user's own site, and
// that a named site takes precedence.
func TestCallFindsTheOwnSite(t *testing.T) {
	dir := newSiteWith(t, []string{"user", "alice"}, []string{"slice", "first", "--owner", "alice"})
	s := serve(t, dir)
	edit(t, filepath.Join(dir, "patchbay.yaml"), "# public_url: https://testbed.example.org:8443", "public_url: "+strings.TrimSuffix(s.url, "/"))
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	if code, out := runCommand(t, "call", "GetVersion"); code != 1 || !strings.Contains(out, "no aggregate given: use --url https://HOST:PORT/am/3.0, or --config with a site of this host") {
		t.Errorf("without a site: %d %s", code, out)
	}
	if err := execute("ln", "-s", dir, filepath.Join(state, "patchbay")); err != nil {
		t.Fatal(err)
	}
	if code, out := runCommand(t, "call", "status"); code != 1 || !strings.Contains(out, "Status: SEARCHFAILED (12)") {
		t.Errorf("with a site of their own: %d %s", code, out)
	}
	if code, out := runCommand(t, "slices"); code == 0 || !strings.Contains(out, "to use the site that \"patchbay up\" created for you, add --config "+filepath.Join(state, "patchbay")) {
		t.Errorf("an operator's command: %d %s", code, out)
	}
	if code, out := runCommand(t, "call", "--config", t.TempDir(), "GetVersion"); code == 0 {
		t.Errorf("--config is passed over: %s", out)
	}
}
