package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/site"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
	"patchbay/cmd/patchbay/command"
)

// copySite copies a site with cp -a. The copy uses the providers, and so the nodes, of
// the original.
func copySite(t *testing.T, dir string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "staging")
	if out, err := exec.Command("cp", "-a", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	os.Remove(filepath.Join(copied, site.SocketName))
	appendLine(t, filepath.Join(copied, site.ConfigName), "providers: "+filepath.Join(dir, "providers"))
	return copied
}

func appendLine(t *testing.T, file, line string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n" + line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serveRefused runs serve, which must fail, and returns its output.
func serveRefused(t testing.TB, dir string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out := new(wait.Buffer)
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--config", dir}, args...), command.Console{Out: out, Err: out})
	}()
	wait.Until(t, "serve ends, or serves", func() bool { return len(ended) > 0 || listeningLine.MatchString(out.String()) })
	stop()
	if code := <-ended; code != 1 || listeningLine.MatchString(out.String()) {
		t.Errorf("serve of %s ended with %d:\n%s", dir, code, out)
	}
	return out.String()
}

// serveReadySite serves a site with simulated nodes on which the slice first is ready.
func serveReadySite(t *testing.T) (k *backupTest, s *serverProcess, alice func(url string, args ...string) (int, string)) {
	t.Helper()
	k = newBackupTest(t)
	program.RemoveSimulatedDelays(t, k.dir)
	home := filepath.Join(t.TempDir(), "alice") // outside the site, which moves
	if err := os.CopyFS(home, os.DirFS(k.path("users/alice"))); err != nil {
		t.Fatal(err)
	}
	alice = func(url string, args ...string) (int, string) {
		return runCommand(t, append([]string{"call", "--url", url, "--user", home, "--slice", "first", "--urns"}, args...)...)
	}
	s = serve(t, k.dir)
	k.allocate(s, "first")
	for _, step := range []struct {
		args  []string
		state string
	}{{[]string{"Provision"}, "geni_notready"}, {[]string{"PerformOperationalAction", "start"}, "geni_ready"}} {
		if code, out := alice(s.url, step.args...); code != 0 {
			t.Fatal(out)
		}
		wait.Until(t, step.state, func() bool { _, out := alice(s.url, "Status"); return strings.Count(out, step.state) == 2 })
	}
	return k, s, alice
}

// TestTwoServersDoNotActOnTheSameNodes serves a site and then a copy of it, as for a test
// of a new version. Leases in the copy end soon, so it would remove the nodes.
func TestTwoServersDoNotActOnTheSameNodes(t *testing.T) {
	t.Parallel()
	k, s, alice := serveReadySite(t)
	k.runOK([]string{"renew", "first", "--for", "10s"})
	staging := copySite(t, k.dir)
	k.runOK([]string{"renew", "first", "--for", "3h"})
	alive := func() {
		t.Helper()
		if _, out := alice(s.url, "Status"); strings.Count(out, "geni_ready") != 2 {
			t.Fatalf("the nodes of the served site:\n%s", out)
		}
		get := exec.Command(k.path("providers/simulated.prov"), "ral_action=get")
		get.Dir, get.Stdin = k.path("providers"), strings.NewReader(`{"names": []}`)
		if out, err := get.Output(); err != nil || strings.Count(string(out), `"present"`) != 2 {
			t.Fatalf("the nodes of the provider: %v\n%s", err, out)
		}
	}
	ways := []string{"state.db: it is a copy: the site was served with a file that had inode ", "patchbay move --config " + staging, "patchbay serve --read-only --config " + staging}
	at := func(args ...string) (int, string) { return runCommand(t, append(args, "--config", staging)...) }
	refused := func(parts []string, args ...string) {
		t.Helper()
		code, out := at(args...)
		if code != 1 {
			t.Errorf("%q: exit status %d", args, code)
		}
		program.WantTexts(t, out, parts...)
	}

	program.WantTexts(t, serveRefused(t, staging), ways...)
	alive()
	refused(ways, "check")
	for _, args := range [][]string{{"release", "first"}, {"renew", "first", "--for", "1h"}, {"thaw", "first"},
		{"check", "--life", "pc1", filepath.Join(k.dir, "providers", "simulated.prov")}} {
		refused(ways, args...)
	}
	for _, args := range [][]string{{"slices"}, {"slivers"}, {"nodes"}, {"tasks"}, {"journal"}, {"lockdown"}, {"check", "--user", "alice"}, {"manifest", "first"}, {"backup", filepath.Join(t.TempDir(), "b.db")}} {
		if code, out := at(args...); code != 0 {
			t.Errorf("%q of a copy: exit status %d\n%s", args, code, out)
		}
	}

	refused([]string{"is served (process ", "stop that one first"}, "move")
	alive()

	s.stop()
	if code, out := at("move"); code != 0 {
		t.Fatal(out)
	} else {
		program.WantTexts(t, out, "All sessions and links of the pages have ended", "is the database of the site from now on", "Do not serve the original any more")
	}
	s = serve(t, k.dir)
	program.WantTexts(t, serveRefused(t, staging), "another server (process ", ") uses the providers in "+k.path("providers"))
	alive()

	// The lock ends with the server; then the copy can become the site.
	s.stop()
	moved := serve(t, staging)
	wait.Until(t, "the copy ends its leases", func() bool { _, out := alice(moved.url, "Status"); return strings.Contains(out, "SEARCHFAILED") })
	program.WantTexts(t, serveRefused(t, k.dir), ") uses the providers in ")
	moved.stop()
}
