package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/site"
	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/local"
)

// examineHost runs patchbay-local doctor once for all tests, since it starts nodes and takes seconds.
var examineHost = sync.OnceValues(func() ([]byte, error) {
	bin, err := program.Build()
	if err != nil {
		return nil, err
	}
	return exec.Command(filepath.Join(bin, "patchbay-local"), "doctor", "--quiet").Output()
})

// requireLocalHost skips the test on a host that cannot run the local testbed, or fails
// it if that is required.
func requireLocalHost(t testing.TB) {
	t.Helper()
	require.Root(t)
	require.SSH(t)
	if _, err := program.Build(); err != nil {
		t.Fatal(err)
	}
	out, err := examineHost()
	switch {
	case err == nil:
	case require.Required("local"):
		t.Fatalf("this host cannot run nodes, though PATCHBAY_REQUIRE says so: %v\n%s", err, out)
	default:
		t.Skipf("this host cannot run nodes: %v\n%s", err, out)
	}
}

// localSite is a site on the local testbed, served by the real program as root,
// with users of its trial authority.
type localSite struct {
	*servedSite
	settings string
	instance string
}

func newLocalSite(t testing.TB, name string) *localSite {
	t.Helper()
	requireLocalHost(t)
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := &localSite{servedSite: &servedSite{t: t, bin: bin, name: name, dir: filepath.Join(t.TempDir(), "site")}}
	if code, out := program.Run(t, "init", "--authority", name, "--provider", "local", "--listen", "127.0.0.1:0", s.dir); code != 0 {
		t.Fatal(out)
	}
	s.settings = filepath.Join(s.dir, "providers", "local.yaml")
	program.Edit(t, s.settings, "port_rest: 10m", "port_rest: 0s")
	settings, err := local.ReadSettings(s.settings)
	if err != nil {
		t.Fatal(err)
	}
	s.instance = settings.Instance
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		s.clean()
		if t.Failed() {
			const most = 12000
			text := routineLine.ReplaceAllString(program.ReadFile(t, s.log.Name()), "")
			t.Logf("the server's log, without routine, ends with:\n%s", text[max(0, len(text)-most):])
		}
		s.log.Close()
	})
	return s
}

// routineLine matches lines of a log about successes.
var routineLine = regexp.MustCompile(`(?m)^.* (msg=call .* code=0 |msg="gateway: login|msg="task done").*\n`)

// clean removes everything of the testbed, which has ended with its server.
func (s *localSite) clean() {
	wait.Clear(s.t, func() string {
		out, err := exec.Command(filepath.Join(s.bin, "patchbay-local"), "clean", s.settings).CombinedOutput()
		if err == nil {
			return ""
		}
		problem := fmt.Sprintf("patchbay-local clean: %v\n%s", err, out)
		if !strings.Contains(string(out), "already; stop it first") {
			s.t.Error(problem)
			return ""
		}
		return problem
	})
}

// local runs patchbay-local COMMAND on the site's settings.
func (s *localSite) local(command string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(s.bin, "patchbay-local"), append([]string{command, s.settings}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Errorf("patchbay-local %s: %v\n%s", command, err, out)
	}
	return string(out)
}

// call makes a call as alice about the slice first, which must succeed.
func (s *localSite) call(args ...string) string {
	s.t.Helper()
	code, out := program.Run(s.t, append([]string{"call", "--url", s.url, "--user", filepath.Join(s.dir, "users", "alice"), "--slice", "first", "--urns"}, args...)...)
	if code != 0 {
		s.t.Fatalf("%v: %d\n%s", args, code, out)
	}
	return out
}

// createNodes allocates and provisions a request with so many nodes, requests their start
// at once, and waits until they are ready.
func (s *localSite) createNodes(request string, slivers int) {
	s.t.Helper()
	s.call("Allocate", request)
	s.call("Provision")
	s.call("PerformOperationalAction", "start")
	s.await("geni_ready", slivers)
}

// await waits until all of the slice's slivers are in a state.
func (s *localSite) await(state string, slivers int) {
	s.t.Helper()
	last := ""
	defer func() {
		if s.t.Failed() {
			s.t.Log(last)
		}
	}()
	wait.Until(s.t, state, func() bool {
		last = s.call("Status")
		return strings.Count(last, state) >= slivers
	})
}

// logins returns the logins in the manifest, by node.
func (s *localSite) logins() map[string]login {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "manifest.xml")
	s.call("-o", file, "Describe")
	list, err := logins(program.ReadFile(s.t, file))
	if err != nil {
		s.t.Fatal(err)
	}
	doors := make(map[string]login)
	for _, l := range list {
		doors[l.node] = l
	}
	return doors
}

// ssh runs a command in a node with OpenSSH's client. It accepts a host key the first
// time, which must then stay.
func (s *localSite) ssh(user string, l login, command string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := s.session(ctx, user, l, command)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, problems.String())
	}
	return string(out), err
}

// session returns a command that runs OpenSSH's client with a command in a node until ctx
// ends.
func (s *localSite) session(ctx context.Context, user string, l login, command string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", "-F", "/dev/null", "-i", filepath.Join(s.dir, "users", user, "id_ed25519"), "-p", l.port,
		"-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile="+filepath.Join(s.dir, "known_hosts"),
		user+"@"+l.host, command)
}

// wantOutput runs a command in a node, and compares its output.
func (s *localSite) wantOutput(user string, l login, command, want string) {
	s.t.Helper()
	if got, err := s.ssh(user, l, command); err != nil || got != want {
		s.t.Errorf("%s at %s: %s: %q, %v; want %q", user, l.node, command, got, err, want)
	}
}

// TestOnHostLife runs a whole experiment on real nodes with the built program, alice's
// calls and OpenSSH.
func TestOnHostLife(t *testing.T) {
	s := newLocalSite(t, "life.example.org")
	before := s.hostState()
	s.createUsers("first")
	s.runOK("user", "bob")
	s.start()
	program.WantTexts(t, s.call("Allocate", filepath.Join(s.dir, "request.xml")), "geni_allocated")
	s.call("Provision")
	s.await("geni_notready", 2)
	if doors := s.logins(); len(doors) > 0 {
		t.Errorf("doors of nodes that are off: %v", doors)
	}
	s.call("PerformOperationalAction", "start")
	s.await("geni_ready", 2)
	doors := s.logins()
	server, client := doors["server"], doors["client"]
	if server.port == "" || client.port == "" || server.port == client.port || server.host != "127.0.0.1" {
		t.Fatalf("doors %v", doors)
	}
	s.wantOutput("alice", server, "id -un; hostname", "alice\nserver\n")
	s.wantOutput("alice", client, "id -un; hostname", "alice\nclient\n")
	if _, err := s.ssh("alice", server, "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("exit 7: %v", err)
	}
	if _, err := s.ssh("bob", server, "true"); err == nil {
		t.Error("bob can log in before he has an account")
	}
	s.wantOutput("alice", server, "echo kept > note; sync; nohup sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pid", "")

	// In the node.
	s.wantOutput("alice", server, "geni-get client_id; geni-get slice_urn", "server\nurn:publicid:IDN+life.example.org+slice+first\n")
	s.wantOutput("alice", server, "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR client hostname", "client\n")

	// The server and its children are killed; the nodes continue.
	s.kill()
	wait.Until(t, "the testbed ends with the server", func() bool {
		_, err := local.Call(t.Context(), local.Socket(s.instance), local.Request{Action: local.ActionList})
		return errors.Is(err, local.ErrDown)
	})
	s.start()
	s.await("geni_ready", 2)
	wait.Until(t, "the door opens again", func() bool {
		_, err := s.ssh("alice", server, "true")
		return err == nil
	})
	s.wantOutput("alice", server, "kill -0 $(cat pid) && echo alive", "alive\n")

	// Restart keeps files and host keys, and ends processes.
	s.call("PerformOperationalAction", "restart")
	s.await("geni_ready", 2)
	if again := s.logins(); again["server"] != server {
		t.Errorf("the door was %v and is %v", server, again["server"])
	}
	s.wantOutput("alice", server, "cat note; kill -0 $(cat pid) 2>/dev/null || echo gone", "kept\ngone\n")

	// Adds a user, and removes one: a user without keys has no account.
	update := func(keys ...string) {
		t.Helper()
		text, err := json.Marshal([]map[string]any{{"urn": "urn:publicid:IDN+life.example.org+user+bob", "keys": append([]string{}, keys...)}})
		if err != nil {
			t.Fatal(err)
		}
		s.call("PerformOperationalAction", "update_users", "--option", "geni_users="+string(text))
		s.await("geni_ready", 2)
	}
	update(strings.TrimSpace(program.ReadFile(t, filepath.Join(s.dir, "users", "bob", "id_ed25519.pub"))))
	s.wantOutput("bob", client, "id -un", "bob\n")
	update()
	if _, err := s.ssh("bob", client, "true"); err == nil {
		t.Error("bob can log in without an account")
	}
	s.wantOutput("alice", client, "id -un", "alice\n")

	program.WantTexts(t, s.local("list"), "server", "client")
	s.call("Delete")
	wait.Until(t, "the nodes are gone", func() bool { return !strings.Contains(s.local("list"), "client") })
	if _, err := s.ssh("alice", server, "true"); err == nil {
		t.Error("a node that was given back is open")
	}
	s.stop()
	s.local("clean")
	hoststate.Await(t, before, time.Minute)
}

// TestOnHostSiteWithoutRights serves a site as a user without rights, with a testbed that
// root has started.
func TestOnHostSiteWithoutRights(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newLocalSite(t, "plain.example.org")
	s.createUsers("first")
	const nobody = 65534
	s.changeOwner(nobody)
	s.startNodes()
	s.start()
	s.createNodes(filepath.Join(s.dir, "request.xml"), 2)
	door := s.logins()["client"]
	s.wantOutput("alice", door, "hostname; geni-get slice_urn", "client\nurn:publicid:IDN+plain.example.org+slice+first\n")
	if out, err := s.ssh("alice", door, "geni-get manifest"); err != nil || !strings.Contains(out, `type="manifest"`) {
		t.Errorf("geni-get manifest: %.300q, %v", out, err)
	}
	s.call("Delete")
	wait.Until(t, "the nodes are gone", func() bool { return !strings.Contains(s.local("list"), "client") })
	s.stop()
	if log := program.ReadFile(t, s.log.Name()); strings.Contains(log, "level=ERROR") {
		t.Errorf("something went wrong:\n%s", log)
	}
}

// startNodes runs the testbed until the test ends.
func (s *localSite) startNodes() {
	s.t.Helper()
	up := exec.Command(filepath.Join(s.bin, "patchbay-local"), "up", s.settings)
	up.Stderr = s.log
	if err := up.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		up.Process.Signal(syscall.SIGTERM)
		if err := up.Wait(); err != nil {
			s.t.Errorf("patchbay-local up: %v", err)
		}
	})
	wait.Until(s.t, "the testbed answers", func() bool {
		_, err := local.Call(s.t.Context(), local.Socket(s.instance), local.Request{Action: local.ActionList})
		return err == nil
	})
}

// TestOnHostProviderFollowsContract runs the conformance suite for providers with the
// local testbed.
func TestOnHostProviderFollowsContract(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newLocalSite(t, "contract.example.org")
	s.startNodes()
	settings, err := local.ReadSettings(s.settings)
	if err != nil {
		t.Fatal(err)
	}
	program.WantTexts(t, s.runOK("check"), "the service of the provider local runs", "provider local of type node")
	code, out := program.Run(t, "check", "--config", s.dir, "--life", settings.Component, strings.TrimSuffix(s.settings, ".yaml")+".prov")
	if code != 0 {
		t.Errorf("the suite finds something wrong:\n%s", out)
	}
	program.WantTexts(t, out, "begin stage 1 again", "go back to stage 1", "a node was created on "+settings.Component+" and removed")
}

// changeOwner changes the owner of the site to a user that will serve it.
func (s *localSite) changeOwner(uid uint32) {
	s.t.Helper()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	must(filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(path, filepath.Join(s.dir, site.UsersDir)+"/") { // the keys keep their owner, or ssh refuses them
			return err
		}
		return os.Chown(path, int(uid), int(uid))
	}))
	for _, dir := range []string{filepath.Dir(filepath.Dir(s.dir)), s.bin} {
		must(os.Chmod(dir, 0o755))
	}
	s.user = &syscall.Credential{Uid: uid, Gid: uid}
}

// TestOnHostDemo runs the demonstration with the built programs, and interrupts a second
// one. The host is as before each time.
func TestOnHostDemo(t *testing.T) {
	requireLocalHost(t)
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kept")
	before, err := hoststate.Take(hoststate.Options{Only: []string{"demo-", dir, bin}, Roots: []string{"/run/patchbay-local", "/var/lib/patchbay-local"}, Temp: []string{"patchbay-demo-"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(bin, "patchbay"), "demo", "--provider", "local", "--keep", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program.WantTexts(t, string(out), "I am alice on server", "I am alice on near", "I am alice on far", "(bob)", "written before the restart", "greet.pl",
		"hello from server to 10.0.0.2", "hello from server to 10.0.0.3", "  with headers  ")
	hoststate.Await(t, before, time.Minute)
	program.WantTexts(t, program.ReadFile(t, filepath.Join(dir, "providers", "local.yaml")), "port_rest: 10m")

	cmd := exec.Command(filepath.Join(bin, "patchbay"), "demo", "--provider", "local")
	var text wait.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a login", func() bool { return strings.Contains(text.String(), "I am alice on server") })
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted demonstration succeeds")
	}
	hoststate.Await(t, before, time.Minute)
}

// hostState returns everything on this host that belongs to the site.
func (s *localSite) hostState() hoststate.State {
	s.t.Helper()
	c, err := hoststate.Take(hoststate.Options{Only: []string{s.instance, s.dir}, Roots: []string{"/run/patchbay-local", "/var/lib/patchbay-local"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// createUsers creates alice and their slices.
func (s *localSite) createUsers(slices ...string) {
	s.t.Helper()
	s.runOK("user", "alice")
	for _, name := range slices {
		s.runOK("slice", name, "--owner", "alice")
	}
}

// runOK runs an operator's command, which must succeed, and returns its output.
func (s *localSite) runOK(args ...string) string {
	s.t.Helper()
	code, out := program.Run(s.t, append(args, "--config", s.dir)...)
	if code != 0 {
		s.t.Fatalf("%q: exit status %d\n%s", args, code, out)
	}
	return out
}
