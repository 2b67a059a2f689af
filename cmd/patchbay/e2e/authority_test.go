package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
)

// TestLifeThroughTheAuthority runs a client that logs in at the authority of one site and uses the
// nodes of another site, which trusts that authority.
func TestLifeThroughTheAuthority(t *testing.T) {
	t.Parallel()
	python := require.Tool(t, "python3")
	home := program.NewSite(t, []string{"user", "alice"}, []string{"user", "bob"})
	partner := filepath.Join(t.TempDir(), "partner")
	for _, args := range [][]string{
		{"init", "--authority", "partner.example.org", "--listen", "127.0.0.1:0", partner},
		{"user", "alice", "--config", partner}, {"user", "bob", "--config", partner},
	} {
		if code, out := program.Run(t, args...); code != 0 {
			t.Fatal(out)
		}
	}
	trust := func(dir, authority string) {
		text, err := os.ReadFile(filepath.Join(authority, "trusted", "trial.pem"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "trusted", "other.pem"), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trust(home, partner)
	trust(partner, home)
	sites := map[string]string{}
	for _, dir := range []string{home, partner} {
		program.RemoveSimulatedDelays(t, dir)
		s := serve(t, dir)
		defer s.stop()
		sites[dir] = s.url
	}
	life := exec.Command(python, "-W", "ignore", "testdata/authority_life.py", sites[home], sites[partner],
		filepath.Join(home, "users", "alice"), "alice", filepath.Join(partner, "request.xml"))
	if out, err := life.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
