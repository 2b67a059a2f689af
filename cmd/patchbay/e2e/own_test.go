package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/client/userfolder"
	"patchbay/am/site"
	"patchbay/am/site/create"
	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// ownSiteUser runs our programs as a user of this host with an empty folder.
type ownSiteUser struct {
	t        *testing.T
	bin, dir string
	// uid is the user, if not 0; otherwise the user of this process.
	uid int
	// sudo runs commands as root, as sudo does for the user.
	sudo bool
	env  []string // more environment variables of commands
}

// unprivilegedID is a user that every host has.
const unprivilegedID = 65534

// newOwnSiteUser creates the folder of a user; not root's, if this process may change
// users.
func newOwnSiteUser(t *testing.T) *ownSiteUser {
	t.Helper()
	from, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := &ownSiteUser{t: t, bin: t.TempDir(), dir: t.TempDir()}
	for _, name := range []string{"patchbay", "patchbay-local"} {
		if err := program.Execute("cp", filepath.Join(from, name), p.bin); err != nil {
			t.Fatal(err)
		}
	}
	for dir := p.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		p.uid = unprivilegedID
		if err := os.Chown(p.dir, p.uid, p.uid); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if out, code := p.run("down", "--all", "--yes"); code != 0 {
			t.Errorf("down --all: %s", out)
		}
	})
	return p
}

func (p *ownSiteUser) state() string { return filepath.Join(p.dir, "patchbay") }

// rootsSite returns the folder of root's site for the user.
func (p *ownSiteUser) rootsSite() string {
	p.t.Helper()
	root, err := user.LookupId("0")
	if err != nil {
		p.t.Fatal(err)
	}
	return filepath.Join(root.HomeDir, fmt.Sprint(".local/state/patchbay-", p.uid))
}

// run runs patchbay.
func (p *ownSiteUser) run(args ...string) (out string, code int) {
	p.t.Helper()
	return p.program(append([]string{filepath.Join(p.bin, "patchbay")}, args...)...)
}

func (p *ownSiteUser) program(words ...string) (out string, code int) {
	p.t.Helper()
	cmd := p.command(words...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	p.t.Logf("$ %s\n%s", strings.Join(words, " "), text)
	return string(text), cmd.ProcessState.ExitCode()
}

// command returns a command that runs in the user's folder.
func (p *ownSiteUser) command(words ...string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "XDG_STATE_HOME=" + p.dir, "LANG=C.UTF-8"}
	cmd.Env = append(cmd.Env, p.env...)
	switch {
	case p.sudo:
		cmd.Env = append(cmd.Env, fmt.Sprint("SUDO_UID=", p.uid))
	case p.uid != 0:
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	}
	return cmd
}

// runOK runs patchbay, which must succeed and print texts.
func (p *ownSiteUser) runOK(args []string, texts ...string) string {
	p.t.Helper()
	out, code := p.run(args...)
	if code != 0 {
		p.t.Fatalf("%q: exit status %d:\n%s", args, code, out)
	}
	program.WantTexts(p.t, out, texts...)
	return out
}

// processes returns the command lines on this host that name the user's folders.
func (p *ownSiteUser) processes() (list []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && (strings.Contains(string(text), p.dir) || strings.Contains(string(text), p.rootsSite())) {
			list = append(list, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return list
}

// wantNothingLeft proves that down --all leaves no files and no processes.
func (p *ownSiteUser) wantNothingLeft() {
	p.t.Helper()
	p.runOK([]string{"down", "--all", "--yes"}, "Your own site was removed")
	if list := p.processes(); len(list) > 0 {
		p.t.Errorf("processes are left: %q", list)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		p.t.Errorf("%s is left", e.Name())
	}
	if userfolder.FileExists(p.rootsSite()) {
		p.t.Errorf("%s is left", p.rootsSite())
	}
}

// kill kills the server of the user's site.
func (p *ownSiteUser) kill() {
	p.t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(text), "\x00serve\x00") || !strings.Contains(string(text), p.state()) && !strings.Contains(string(text), p.rootsSite()) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(f, "/proc/%d/", &pid); err != nil {
			p.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			p.t.Fatal(err)
		}
		wait.Until(p.t, "the server is gone", func() bool {
			text, err := os.ReadFile(f)
			return err != nil || len(text) == 0
		})
		wait.Until(p.t, "what it has started is gone", func() bool { return len(p.processes()) == 0 })
	}
}

// TestUpWithoutRoot proves that up without root creates a site with simulated nodes. The
// site outlives the command, restarts after its server was killed, also on another port,
// and down --all removes everything.
func TestUpWithoutRoot(t *testing.T) {
	t.Parallel()
	p := newOwnSiteUser(t)
	p.runOK([]string{"status"}, "You have no experiment. Begin with:", "up --example")
	p.runOK([]string{"down"}, "You have no experiment.")
	if out, code := p.run("ssh", "server"); code != 1 || !strings.Contains(out, "up --example") {
		t.Errorf("%d: %s", code, out)
	}
	if entries, _ := os.ReadDir(p.dir); len(entries) > 0 {
		t.Errorf("commands that only look have made %v", entries)
	}
	p.runOK([]string{"up", "--example"}, "Nodes are simulated", "real ones need root: sudo", "server  (simulated)  lan 10.0.0.1", "next:", "pages: http://127.0.0.1:")
	p.runOK([]string{"web"}, "http://127.0.0.1:", "/ui/sign-in/", "works once")
	p.runOK([]string{"web", "--operator", "--print", "--config", p.state()}, "http://127.0.0.1:")
	p.runOK([]string{"up", "--example"}, "Nothing to change in the slice lan.")
	if out, code := p.run("ssh", "server"); code != 1 || !strings.Contains(out, "simulated, so there is nothing to log in to") {
		t.Errorf("%d: %s", code, out)
	}
	p.runOK([]string{"call", "GetVersion"}, "SUCCESS")
	info, err := os.Stat(p.state())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v %v", info, err)
	}

	p.kill() // like a reboot of the host
	p.runOK([]string{"status"}, "Slice lan", "server  ready", "client  ready")

	p.kill()
	config, err := site.ReadConfig(filepath.Join(p.state(), site.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	wait.Success(t, "the port is taken", func() error { // a connection of another process may have it for a while
		taken, err := net.Listen("tcp", config.Listen)
		if err == nil {
			t.Cleanup(func() { taken.Close() })
		}
		return err
	})
	p.runOK([]string{"status"}, "server  ready")
	if now, err := site.ReadConfig(filepath.Join(p.state(), site.ConfigName)); err != nil || now.Listen == config.Listen || now.PublicURL != "https://"+now.Listen {
		t.Errorf("the port: %v, %v", now, err)
	}

	p.kill()
	inventory := filepath.Join(p.state(), site.InventoryName)
	if err := os.WriteFile(inventory, []byte("components: nothing like it\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := p.run("status"); code != 1 || !strings.Contains(out, "the server of your own site ended at once") || !strings.Contains(out, "inventory.yaml:1") || !strings.Contains(out, "down --all") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := p.run("down", "--all"); code != 1 || !strings.Contains(out, "nothing was changed; repeat the command with --yes") || !userfolder.FileExists(p.state()) {
		t.Errorf("without a terminal: %d: %s", code, out)
	}
	p.wantNothingLeft()
	p.runOK([]string{"down", "--all"}, "You have no site of your own")
}

// TestUpUnderSudoOnAHostThatCannotRunNodes proves that up gives up the rights of root if
// it does not need them: the site is the user's, and simulated.
func TestUpUnderSudoOnAHostThatCannotRunNodes(t *testing.T) {
	t.Parallel()
	require.Root(t)
	p := newOwnSiteUser(t)
	p.sudo = true
	p.env = []string{"PATH=" + t.TempDir()} // without ssh
	p.runOK([]string{"up", "--example"}, "this host cannot run real ones:", "there is no ssh on the PATH", "server  (simulated)")
	p.wantOwner(p.state(), unprivilegedID)
	if userfolder.FileExists(p.rootsSite()) {
		t.Error("there is a site of root")
	}
	p.runOK([]string{"status"}, "server  ready")
	p.wantNothingLeft()
}

// TestUpIsInterrupted proves that an interrupted up keeps and reports its reservations,
// and that the same command continues.
func TestUpIsInterrupted(t *testing.T) {
	t.Parallel()
	p := newOwnSiteUser(t)
	cmd, out := p.command(filepath.Join(p.bin, "patchbay"), "up", "--example"), new(wait.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "nodes are being made", func() bool { return strings.Contains(out.String(), "create nodes") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it succeeds")
	}
	program.WantTexts(t, out.String(), "interrupted", "2 nodes of the slice lan remain", "repeat the command to continue", "down lan")
	p.runOK([]string{"up", "--example"}, "server  (simulated)")
	p.wantNothingLeft()
}

// TestTwoUpsAtOnce proves that two concurrent commands create one site and two
// experiments, and that they ignore variables for other sites.
func TestTwoUpsAtOnce(t *testing.T) {
	t.Parallel()
	p := newOwnSiteUser(t)
	p.env = []string{"PATCHBAY_PUBLIC_URL=https://127.0.0.1:1", "PATCHBAY_LISTEN=127.0.0.1:1", "PATCHBAY_AUTHORITY=other.example.org"}
	results := make(chan string, 2)
	for _, name := range []string{"one", "two"} {
		go func() {
			out, code := p.run("up", "--example", "--slice", name)
			results <- fmt.Sprint(code, " ", out)
		}()
	}
	for range 2 {
		if out := <-results; !strings.HasPrefix(out, "0 ") {
			t.Error(out)
		}
	}
	p.runOK([]string{"status"}, "Slice one", "Slice two")
	p.wantNothingLeft()
}

// watchKilledNode kills the node server, which has the file note, while its page has an open stream of events. The stream must have an
// event, and the page must show the node ready again, as the testbed starts it from its disk.
func (p *ownSiteUser) watchKilledNode() {
	p.t.Helper()
	const page = "/ui/experiment/-/lan"
	link := linkLine.FindString(p.runOK([]string{"web"}))
	pages, _, _ := strings.Cut(link, "/ui/")
	v := (&servedSite{t: p.t, pages: pages}).visit()
	if a := v.post("/ui/sign-in", "link", linkOf(p.t, link)); a.status != http.StatusSeeOther {
		p.t.Fatalf("sign-in: %d %s", a.status, a.text)
	}
	if a := v.get(page); !strings.Contains(a.text, "ssh ") || strings.Count(a.text, `s-ready">ready<`) < 3 {
		p.t.Errorf("the page of real nodes: %d %s", a.status, a.text)
	}
	events := v.stream(page + "/events?since=0")
	next := func() {
		for {
			line, err := events.ReadString('\n')
			if err != nil {
				p.t.Fatal(err)
			}
			if strings.HasPrefix(line, "id: ") {
				return
			}
		}
	}
	next()
	killed := false
	roots, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, root := range roots {
		name, _ := os.ReadFile(filepath.Join(root, "etc/hostname"))
		notes, _ := filepath.Glob(filepath.Join(root, "home/*/note"))
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(root), "status"))
		if strings.TrimSpace(string(name)) != "server" || len(notes) == 0 || !isInit.Match(status) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(root)))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if killed = err == nil; !killed {
			p.t.Error(err)
		}
	}
	if !killed {
		p.t.Fatal("the node server has no process")
	}
	next()
	wait.Until(p.t, "the page shows three ready nodes", func() bool { return strings.Count(v.get(page).text, `s-ready">ready<`) >= 3 })
}

// isInit matches the status of a process that is PID 1 of a namespace below another.
var isInit = regexp.MustCompile(`(?m)^NSpid:.*\t1$`)

// wantOwner proves that a folder and everything in it belongs to a user.
func (p *ownSiteUser) wantOwner(dir string, uid uint32) {
	p.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != uid {
			p.t.Errorf("%s belongs to user %d, want %d", path, info.Sys().(*syscall.Stat_t).Uid, uid)
		}
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
}

// TestOnHostUpToDown runs up, ssh and down with real nodes: as root for a user who called
// sudo, then without sudo. At the end nothing is left on the host.
func TestOnHostUpToDown(t *testing.T) {
	requireLocalHost(t)
	p := newOwnSiteUser(t)
	as := func(sudo bool) *ownSiteUser { p.sudo = sudo; return p }
	t.Cleanup(func() { p.sudo = true })
	take := func(mark string) hoststate.State {
		t.Helper()
		now, err := hoststate.Take(hoststate.Options{Only: []string{mark}, Roots: []string{"/run/patchbay-local", "/var/lib/patchbay-local"}})
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	before := take(p.rootsSite())
	// A link in the user's folder does not lead root elsewhere.
	elsewhere := t.TempDir()
	if err := errors.Join(os.Symlink(elsewhere, p.state()), os.Lchown(p.state(), unprivilegedID, unprivilegedID)); err != nil {
		t.Fatal(err)
	}
	if out, code := as(true).run("up", "--example"); code != 1 || !strings.Contains(out, "permission denied") {
		t.Errorf("%d: %s", code, out)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("root was led to write %v, %v", entries, err)
	}
	if err := os.Remove(p.state()); err != nil {
		t.Fatal(err)
	}
	p.runOK([]string{"down", "--all", "--yes"}, "Your own site was removed")

	as(true).runOK([]string{"up", "--example"}, "server  "+filepath.Join(p.bin, "patchbay")+" ssh server  lan 10.0.0.1", "next:", "pages: http://127.0.0.1:")

	// The site belongs to root, with the programs that root runs. Everything in the
	// user's folder belongs to the user, and root runs nothing in it.
	p.wantOwner(p.rootsSite(), 0)
	p.wantOwner(p.state(), unprivilegedID)
	for _, name := range []string{site.ConfigName, site.ProvidersDir, site.AuthorityDir} {
		if userfolder.FileExists(filepath.Join(p.state(), name)) {
			t.Errorf("the user's folder has %s", name)
		}
	}
	for _, line := range p.processes() {
		if strings.Contains(line, p.bin) {
			t.Errorf("root runs what a user may change: %s", line)
		}
	}
	companion, err := site.OpenCompanion(t.Context(), filepath.Join(p.rootsSite(), site.ProvidersDir), create.Local)
	if err != nil || companion == nil {
		t.Fatal(companion, err)
	}
	ofTestbed := func() []string { return hoststate.Diff(before, take(companion.Settings.Instance)) }
	if len(ofTestbed()) == 0 {
		t.Error("nothing of the testbed is on the host")
	}

	as(false).runOK([]string{"web"}, "http://127.0.0.1:", "/ui/sign-in/")
	if out := p.runOK([]string{"ssh", "server", "hostname"}); out != "server\n" {
		t.Errorf("hostname says %q", out)
	}
	if out, code := p.run("ssh", "server", "exit 7"); code != 7 {
		t.Errorf("exit status %d, want that of ssh, 7: %s", code, out)
	}
	p.runOK([]string{"status"}, "server  ready", "client  ready")
	p.runOK([]string{"call", "Status"}, "SUCCESS")
	config := strings.TrimSpace(p.runOK([]string{"ssh", "--print-config"}))
	program.Write(t, filepath.Join(p.dir, "note"), "from outside\n")
	if out, code := p.program("scp", "-q", "-F", config, "note", "server.lan.patchbay:"); code != 0 {
		t.Fatal(out)
	}
	p.runOK([]string{"ssh", "server", "cat note"}, "from outside")

	// Nodes that the request does not change stay; a new node has a new host key.
	changed := filepath.Join(p.dir, "lan.xml")
	program.Write(t, changed, strings.Replace(program.ReadFile(t, "../../../am/client/experiment/lan.xml"), "</rspec>", `<node client_id="third" exclusive="false"/></rspec>`, 1))
	as(true).runOK([]string{"up", changed, "--yes"}, "keep  server", "add   third")
	as(false).runOK([]string{"ssh", "server", "cat note"}, "from outside")
	p.watchKilledNode()
	program.Write(t, changed, strings.Replace(program.ReadFile(t, "../../../am/client/experiment/lan.xml"), "</rspec>", `<node client_id="third" exclusive="false"><services><execute shell="sh" command="true"/></services></node></rspec>`, 1))
	p.runOK([]string{"ssh", "third", "hostname"}, "third")
	as(true).runOK([]string{"up", changed, "--yes"}, "replace  third   its first setup changed: execute 1 of 1, true")
	as(false).runOK([]string{"ssh", "third", "hostname"}, "third")

	// Commands that need root report that without it.
	if out, code := p.run("down", "--all"); code != 1 || !strings.Contains(out, "which need root; use: sudo") {
		t.Errorf("%d: %s", code, out)
	}
	p.kill()
	if out, code := p.run("status"); code != 1 || !strings.Contains(out, "your own site is not running, as after a reboot; start it with: sudo") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := p.run("ssh", "server"); code == 0 || !strings.Contains(out, "start it with: sudo") || !strings.Contains(out, "Connection refused") {
		t.Errorf("ssh goes by the manifest that is kept: %d: %s", code, out)
	}
	as(true).runOK([]string{"status"}, "server  ready")
	as(false).runOK([]string{"ssh", "server", "cat note"}, "from outside")

	as(false).runOK([]string{"extend", "3h"}, "in 27h")
	p.runOK([]string{"down"}, "Slice lan: all nodes are deleted.")
	for _, name := range []string{"note", "lan.xml"} {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	as(true).wantNothingLeft()
	wait.Until(t, "nothing is left on the host", func() bool { return len(ofTestbed()) == 0 })
}
