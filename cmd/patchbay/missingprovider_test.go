package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingProviderOfLiveSliversIsTold holds that check, reload and a start tell of
// a provider that is gone while slivers need it, even if the inventory does not.
func TestMissingProviderOfLiveSliversIsTold(t *testing.T) {
	dir, file, s, _ := reloadSite(t)
	defer func() { s.stop() }()
	providers := filepath.Join(dir, "providers")
	for _, suffix := range []string{".prov", ".yaml"} {
		text := readFile(t, filepath.Join(providers, "simulated"+suffix))
		if err := os.WriteFile(filepath.Join(providers, "other"+suffix), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	edit(t, file, "provider: simulated", "provider: other")
	gone := filepath.Join(providers, "simulated.prov")
	const orphaned = "can be neither looked after nor removed"
	told := func(want bool, args ...string) {
		t.Helper()
		code, out := tell(t, append(args, "--config", dir)...)
		if code != 0 {
			t.Errorf("%q answers %d: %s", args, code, out)
		}
		if want {
			has(t, out, "warning", "the provider simulated has made 2 slivers of urn:publicid:IDN+testbed.example.org+slice+first, which "+orphaned, gone+" is not there; put it back")
		} else if strings.Contains(out, orphaned) {
			t.Errorf("%q tells of orphans: %s", args, out)
		}
	}
	told(false, "check")
	if err := os.Rename(gone, gone+".away"); err != nil {
		t.Fatal(err)
	}
	told(true, "check")
	told(true, "reload")
	has(t, s.out.String(), "slivers were made by a provider that is missing", "provider=simulated")
	s.stop()
	told(true, "check")
	s = serve(t, dir)
	has(t, s.out.String(), "slivers were made by a provider that is missing", "provider=simulated")
	if err := os.Rename(gone+".away", gone); err != nil {
		t.Fatal(err)
	}
	told(false, "reload")
	s.stop()
	told(false, "check")
}
