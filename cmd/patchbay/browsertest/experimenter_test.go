package browsertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// withLogins gives the nodes of a site logins, which simulated nodes do not have, by another name of the provider.
func withLogins(t testing.TB, dir string) {
	program.Edit(t, filepath.Join(dir, "providers", "simulated.prov"), "--name simulated", "--name lab")
	for _, suffix := range []string{".prov", ".yaml"} {
		from := filepath.Join(dir, "providers", "simulated"+suffix)
		if err := os.Rename(from, filepath.Join(dir, "providers", "lab"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	program.Edit(t, filepath.Join(dir, "inventory.yaml"), "\nprovider: simulated\n", "\nprovider: lab\n")
}

// sshKey returns a new public key.
func sshKey(t testing.TB) string {
	t.Helper()
	require.SSH(t)
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@home", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v %s", err, out)
	}
	return strings.TrimSpace(program.ReadFile(t, file+".pub"))
}

func TestWebExperimenter(t *testing.T) {
	t.Parallel()
	s := newSite(t, withLogins, []string{"user", "alice"}, []string{"user", "bob"})
	p := s.member("alice")
	p.see("You have no experiment.")
	p.press("Remove…")
	p.press("Yes, remove this key")
	p.see("You have no key")
	p.fill("Add a public key", "ssh-ed25519 wrong")
	p.press("Add key")
	p.see("No key was added")
	p.fill("Add a public key", sshKey(t))
	p.press("Add key")
	p.see("The key is added", "alice@home")

	p.press("Start an experiment")
	p.see("2 nodes", "It fits now")
	example := get[string](p, `document.getElementById("text").value`)
	p.fill("The request", strings.Replace(example, "<link_type", "<<link_type", 1))
	p.see("Line 10 <<link_type", "invalid element name")
	p.fill("The request", example)
	p.see("It fits now")
	p.fill("Name", "lab")
	p.press("Start")
	get[bool](p, "window.isFirst = true")
	p.see("lab", "2 nodes: 2 ready")
	p.pressIn("server", "Copy")
	p.pressIn("server", "Copied")
	if command := get[string](p, `document.querySelector("[data-copy]").dataset.copy`); !strings.HasPrefix(command, "ssh ") {
		t.Errorf("the command to log in is %q", command)
	}
	if !get[bool](p, "window.isFirst") {
		t.Error("the page was loaded again to show new states")
	}

	p.press("1 day")
	p.see("The experiment is kept until")
	p.fill("server", "yes")
	p.press("Stop")
	p.see("asked to stop server", "1 stopped, 1 ready")
	p.fill("server", "yes")
	p.press("Start")
	p.see("2 nodes: 2 ready")
	p.fill("server", "yes")
	p.press("Restart")
	p.see("asked to restart server", "2 nodes: 2 ready")

	p.fill("Add a partner", "bob")
	p.press("Add")
	p.see("bob is a partner now", "bob MEMBER")
	bob := s.signIn(s.patchbay("web", "--print", "--url", s.at.API, "--user", "bob"))
	bob.press("lab")
	bob.see("2 nodes: 2 ready", "bob MEMBER")

	p.press("End experiment…")
	p.press("Yes, end lab")
	p.see("The experiment has ended.")
	bob.see("It ended now: alice")
	p.press("Sign out")
	p.press("make one first")
	p.press("Make a link")
	p.see("The link signs you in once")
	p.press("Sign out")
	p.press("Sign out")
	p.see("You are signed out")
	p.open("/ui/mine")
	p.see("You sign in with a link that works once.")
}

// TestWebWithoutScript starts and ends an experiment in a browser that runs no script, by forms and reloads.
func TestWebWithoutScript(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(t testing.TB, dir string) { program.RemoveSimulatedDelays(t, dir) }, []string{"user", "alice"})
	p := s.member("alice")
	if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	p.press("Start")
	p.fill("The request", "<rspec/>")
	p.press("Check")
	p.see("It cannot be started")
	p.fill("The request", request("vm:web"))
	p.press("Check")
	p.see("1 node", "It fits now")
	p.fill("Name", "lab")
	p.press("Start")
	wait.Clear(t, func() string {
		p.open("/ui/experiment/-/lab")
		return get[string](p, `see(["1 node: 1 ready"])`)
	})
	p.press("1 hour")
	p.see("The experiment is kept until")
	p.press("End experiment…")
	p.press("Yes, end lab")
	p.see("The experiment has ended.")
	p.press("Calendar")
	p.press("Later")
	p.pressBar("pc1: free")
	p.fill("Name", "course")
	p.press("Start")
	p.see("The nodes are reserved for you from")
	p.press("Delete reservation…")
	p.press("Yes, delete course")
	p.see("The reservation was deleted.")
}
