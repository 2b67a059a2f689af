package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// ownedByRoot returns the files of root below a folder.
func ownedByRoot(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Sys().(*syscall.Stat_t).Uid == 0 {
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		if name := d.Name(); (strings.HasSuffix(name, ".key") || strings.HasSuffix(name, "-key.pem") || name == "id_ed25519") && info.Mode().Perm()&^0o600 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRootOwnsNothingInUserSite runs each command as root on a site of another user, who
// can then continue with it. A command missing in its table fails the test.
func TestRootOwnsNothingInUserSite(t *testing.T) {
	t.Parallel()
	require.Root(t)
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	s := &servedSite{t: t, bin: bin, name: "testbed.example.org", dir: filepath.Join(t.TempDir(), "site")}
	must(os.Mkdir(s.dir, 0o755))
	must(os.Chown(s.dir, nobody, nobody))
	for _, dir := range []string{filepath.Dir(filepath.Dir(s.dir)), bin} {
		must(os.Chmod(dir, 0o755))
	}
	s.log, err = os.Create(filepath.Join(t.TempDir(), "log"))
	must(err)
	t.Cleanup(func() {
		s.kill()
		s.log.Close()
	})
	in := func(name string) string { return filepath.Join(s.dir, name) }
	radl := filepath.Join(t.TempDir(), "one.radl")
	must(os.WriteFile(radl, []byte("system one ()\ndeploy one 1\n"), 0o644))
	work := t.TempDir()
	tried := map[string]bool{}
	say := func(user *syscall.Credential, args ...string) string {
		t.Helper()
		tried[args[0]] = true
		switch args[0] {
		case "init", "draw", "call", "login":
		default:
			args = append(args, "--config", s.dir)
		}
		if user == nil { // root, as this process
			code, out := program.Run(t, args...)
			if code != 0 {
				t.Errorf("%q: exit status %d\n%s", args, code, out)
			}
			return out
		}
		c := exec.Command(filepath.Join(bin, "patchbay"), args...)
		c.Dir = work
		c.SysProcAttr = &syscall.SysProcAttr{Credential: user}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	all := func(user *syscall.Credential, lines ...[]string) (last string) {
		t.Helper()
		for _, args := range lines {
			last = say(user, args...)
			if found := ownedByRoot(t, s.dir); len(found) > 0 {
				t.Errorf("%q leaves to root: %q", args, found)
				for _, name := range found {
					must(os.Lchown(in(name), nobody, nobody))
				}
			}
		}
		return last
	}
	caller := func(args ...string) []string {
		return append([]string{"call", "--url", s.url + "/am/3.0", "--user", in("users/alice"), "--slice", "lab"}, args...)
	}
	settled := func() {
		t.Helper()
		wait.Until(t, "nothing is to be done", func() bool { return strings.Contains(say(s.user, "tasks"), "No pending tasks.") })
	}

	all(nil, []string{"init", "--authority", s.name, "--provider", "simulated", "--public-url", "https://am.example.org:8443", "--trial-authority", s.dir})
	program.Edit(t, in("patchbay.yaml"), "invite: no", "invite: yes")
	program.RemoveSimulatedDelays(t, s.dir)
	all(nil,
		[]string{"user", "alice"}, []string{"user", "bob"}, []string{"slice", "lab", "--owner", "alice"},
		[]string{"delegate", "lab", "--from", "alice", "--to", "bob"}, []string{"delegate", "lab", "--from", "alice", "--to", "bob", "-o", in("lent.xml")},
		[]string{"tool", "portal", "--for", "alice"},
		[]string{"draw", in("request.xml"), "--svg", in("request.svg")}, []string{"compile", radl, "-o", in("compiled.xml")},
		[]string{"check"}, []string{"maintenance", "pc3", "--reason", "new disks", "--for", "1h"},
	)

	// A server started by root by mistake.
	s.start()
	all(nil,
		caller("Allocate", in("request.xml"), "-o", in("manifest.xml")), caller("Provision"),
		[]string{"slices"}, []string{"slivers"}, []string{"nodes"}, []string{"tasks"}, []string{"journal"}, []string{"usage"}, []string{"calendar"}, []string{"manifest", "lab"},
		[]string{"renew", "lab", "--for", "2h"}, []string{"reload"}, []string{"backup", in("served.db")},
		[]string{"lockdown", "--reason", "back soon"}, []string{"lockdown", "--lift"}, []string{"drain", "pc2", "--reason", "broken"},
		caller("Shutdown"), []string{"thaw", "lab"}, []string{"shutdown", "lab", "--reason", "a test"}, []string{"thaw", "lab"},
		[]string{"web", "--operator", "--print"},
	)
	settled()
	_, invitation, _ := strings.Cut(say(nil, "authority", "invite", "carol", "--url", s.url), "login ")
	all(nil, append([]string{"login", "--dir", in("users/carol")}, strings.Fields(invitation)...), []string{"authority", "remove", "carol"},
		[]string{"probe", s.url, "--user", "alice", "--read-only", "--check", "version3", "--junit", in("report.xml")})
	all(nil, []string{"release", "lab"})
	settled()
	verb := func(args ...string) []string { return append(args, "--user", "alice", "--url", s.url+"/am/3.0") }
	all(nil, verb("up", in("request.xml"), "--slice", "mine"), verb("share", "mine", "bob"), verb("status"), verb("extend", "mine", "2h"), verb("export", "mine", "-o", in("mine.json")), verb("down", "mine"))
	settled()
	all(nil, []string{"tasks"})
	s.stop()
	tried["serve"] = true
	life := all(nil,
		[]string{"backup", in("backup.db")}, []string{"backup", "--force", in("backup.db")}, []string{"restore", in("backup.db"), "--yes"},
		[]string{"undrain", "pc2"}, []string{"user", "alice", "--renew"}, []string{"check", "--life", "pc1", in("providers/simulated.prov")},
	)
	program.WantTexts(t, life, "         restart the node\n", "simulated.prov: provider simulated of type node; a node was created on pc1 and removed")

	must(os.WriteFile(in("copy.db"), []byte(program.ReadFile(t, in("state.db"))), 0o600))
	must(os.Chown(in("copy.db"), nobody, nobody))
	must(os.Rename(in("copy.db"), in("state.db")))
	all(nil, []string{"move"})

	// The site's user continues.
	s.user = &syscall.Credential{Uid: nobody, Gid: nobody}
	s.start()
	all(s.user,
		[]string{"user", "guest"}, []string{"slice", "lab", "--owner", "alice"}, []string{"user", "alice", "--renew"},
		caller("Allocate", in("request.xml"), "-o", in("manifest.xml")), caller("Provision"), caller("Delete"),
	)
	settled()
	s.stop()

	// A link of this user does not lead root elsewhere.
	elsewhere := t.TempDir()
	must(os.Symlink(elsewhere, in("link")))
	must(os.Lchown(in("link"), nobody, nobody))
	must(os.RemoveAll(in("tools")))
	must(os.Symlink(elsewhere, in("tools")))
	must(os.Lchown(in("tools"), nobody, nobody))
	for _, args := range [][]string{
		{"tool", "portal", "--config", s.dir}, {"delegate", "lab", "--from", "alice", "--to", "bob", "-o", in("link/lent.xml"), "--config", s.dir},
		{"draw", in("request.xml"), "--svg", in("link/request.svg")}, {"compile", radl, "-o", in("link/compiled.xml")},
		{"backup", in("link/backup.db"), "--config", s.dir},
	} {
		if out, err := exec.Command(filepath.Join(bin, "patchbay"), args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "permission denied") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if found := ownedByRoot(t, elsewhere); len(found) > 1 { // besides the folder itself
		t.Errorf("root was led to write %q", found)
	}

	for name, why := range map[string]string{
		"demo": "makes a site of its own", "who": "only reads", "ssh": "only runs ssh", "version": "has no site", "guide": "has no site", "help": "has no site", "completion": "has no site",
	} {
		if tried[name] {
			t.Errorf("%s is tried, although it %s", name, why)
		}
		tried[name] = true
	}
	c := exec.Command(filepath.Join(bin, "patchbay"), "--help")
	help, err := c.Output()
	must(err)
	_, list, _ := strings.Cut(string(help), "\n"+"For experimenters:")
	list, _, _ = strings.Cut(list, "\nFlags:")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(list, -1)
	if len(commands) < 30 {
		t.Fatalf("the help lists %d commands:\n%s", len(commands), help)
	}
	for _, c := range commands {
		if !tried[c[1]] {
			t.Errorf("%s is not tried: run it here, so that root leaves nothing of its own with it", c[1])
		}
		delete(tried, c[1])
	}
	for name := range tried {
		t.Errorf("there is no command %s", name)
	}
}
