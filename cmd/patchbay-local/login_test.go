package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/gateway"
)

// clientTime is the time limit of one run of a client.
const clientTime = 40 * time.Second

// loginSite is a testbed with the nodes a and b of one slice and c of another. Users log in
// with OpenSSH's programs, which trust only the host keys that get reports.
type loginSite struct {
	*testSite
	configs map[string]string // file of OpenSSH's configuration, by user
}

var (
	loginNodes    = map[string]string{"a": nodeA, "b": nodeB, "c": nodeC}
	loginAccounts = map[string][]string{"a": {"alice", "bob"}, "b": {"alice"}, "c": {"bob"}}
)

// privateKey returns a user's key, which is always the same. Alice's is the site's key.
func privateKey(login string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("login " + login))
	return ed25519.NewKeyFromSeed(seed[:])
}

// loginUsers returns items of the attribute users, each with the user's own key.
func loginUsers(t testing.TB, logins ...string) []string {
	t.Helper()
	items := []string{}
	for _, login := range logins {
		key, err := ssh.NewPublicKey(privateKey(login).Public())
		if err != nil {
			t.Fatal(err)
		}
		item, err := json.Marshal(map[string]any{
			"login": login, "urn": "urn:publicid:IDN+example.org+user+" + login, "keys": []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))},
		})
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, string(item))
	}
	return items
}

func newLoginSite(t *testing.T) *loginSite {
	t.Helper()
	require.SSH(t)
	s := &loginSite{newTestSite(t, "nodes-t"), map[string]string{}}
	for hostname, id := range loginNodes {
		slice := map[string]string{"a": "one", "b": "one", "c": "two"}[hostname]
		s.set(t, id, node("localhost", provider.Resource{
			"power": "on", "users": loginUsers(t, loginAccounts[hostname]...), "hostname": hostname + ".exp.example.org", "client_id": hostname,
			"slice_urn": "urn:publicid:IDN+example.org+slice+" + slice, "sliver_urn": "urn:publicid:IDN+example.org+sliver+" + id,
		}))
	}
	// The gateway account is the host gw, and by-NODE is a node through it.
	known, hosts := "", ""
	for hostname, id := range loginNodes {
		r := s.await(t, id, provider.StateReady)
		for _, key := range r.List(provider.AttrHostKeys) {
			known += "node-" + hostname + " " + key + "\n"
		}
		logins := r.List(provider.AttrLogin)
		if len(logins) != 2 || len(r.List(provider.AttrHostKeys)) != 2 {
			t.Fatalf("node %s: %v", hostname, r)
		}
		_, port, _ := net.SplitHostPort(logins[0])
		name, _, _ := net.SplitHostPort(logins[1])
		_, proxy, _ := strings.Cut(r.Text(provider.AttrProxy), "@")
		_, gatewayPort, _ := net.SplitHostPort(proxy)
		hosts += fmt.Sprintf("Host %[1]s by-%[1]s\n\tHostKeyAlias node-%[1]s\nHost %[1]s\n\tHostName 127.0.0.1\n\tPort %[2]s\nHost by-%[1]s\n\tHostName %[3]s\n\tPort 22\n\tProxyJump gw\n", hostname, port, name)
		if hostname == "a" {
			hosts += fmt.Sprintf("Host gw\n\tUser %s\n\tHostName 127.0.0.1\n\tPort %s\n\tStrictHostKeyChecking accept-new\n\tUserKnownHostsFile %s\n", gateway.User, gatewayPort, s.file("known_gateway"))
		}
	}
	files := map[string]string{"known_hosts": known}
	for _, user := range []string{"alice", "bob", "carol"} {
		block, err := ssh.MarshalPrivateKey(privateKey(user), "")
		if err != nil {
			t.Fatal(err)
		}
		s.configs[user] = s.file("config_" + user)
		files["id_"+user] = string(pem.EncodeToMemory(block))
		files["config_"+user] = hosts + fmt.Sprintf(`Host *
	User %s
	IdentityFile %s
	IdentitiesOnly yes
	BatchMode yes
	UserKnownHostsFile %s
	GlobalKnownHostsFile /dev/null
	StrictHostKeyChecking yes
	ConnectTimeout 20
	LogLevel ERROR
`, user, s.file("id_"+user), s.file("known_hosts"))
	}
	for name, text := range files {
		if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *loginSite) file(name string) string { return filepath.Join(s.dir, name) }

// command returns one of OpenSSH's programs, with a user's configuration.
func (s *loginSite) command(ctx context.Context, user, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, append([]string{"-F", s.configs[user]}, args...)...)
}

// run runs one of OpenSSH's programs as a user.
func (s *loginSite) run(t testing.TB, user, input, program string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	c := s.command(ctx, user, program, args...)
	c.WaitDelay = 2 * time.Second
	return finish(c, strings.NewReader(input))
}

// result is the output and the status of a program; the status is -1 if it was killed.
type result struct {
	out, err string
	status   int
}

func finish(cmd *exec.Cmd, stdin io.Reader) result {
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &complaint
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		fmt.Fprint(&complaint, err)
	}
	return result{out.String(), complaint.String(), cmd.ProcessState.ExitCode()}
}

// expect checks the output and the status.
func (r result) expect(t testing.TB, out string, status int) {
	t.Helper()
	if r.status != status || r.out != out {
		t.Errorf("status %d, output %.300q, complaint %.300q; want %d, %.300q", r.status, r.out, r.err, status, out)
	}
}

// logins logs in with OpenSSH's programs: one case for each part of the way. The packages
// gateway, agent and testbed test the rules.
func (s *loginSite) logins(t *testing.T) {
	wait.Clear(t, func() string { // a learns of b shortly after b is ready
		if r := s.run(t, "alice", "", "ssh", "a", "getent hosts b"); r.status != 0 {
			return fmt.Sprintf("b is not known in a: %+v", r)
		}
		return ""
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "outside ", r.URL.Path) }))
	t.Cleanup(server.Close)
	outside := server.Listener.Addr().String()
	const refused, noWay = "Permission denied (publickey)", "stdio forwarding failed"
	for _, tt := range []struct {
		name, user string
		args       []string
		out        string // of ssh; beyond its end for a status of 255 the complaint
		status     int
	}{
		{"Status", "alice", []string{"a", "cat; id -un; hostname -s; exit 7"}, "typed\nalice\na\n", 7},
		{"Gateway", "bob", []string{"by-a", "cat; id -un; hostname -s; exit 7"}, "typed\nbob\na\n", 7},
		{"Root", "bob", []string{"-l", "root", "by-c", "id -un"}, "root\n", 0},
		{"NodeToNode", "alice", []string{"a", "ssh -o BatchMode=yes b ssh -o BatchMode=yes a.exp.example.org hostname -s"}, "a\n", 0},
		{"PortOfTheNode", "alice", []string{"-W", "localhost:22", "by-a"}, "SSH-2.0-", 0},
		{"PortOfTheClient", "alice", []string{"-R", "18080:" + outside, "a", `exec 3<>/dev/tcp/127.0.0.1/18080; printf 'GET /x HTTP/1.0\r\n\r\n' >&3; tail -n 1 <&3`}, "outside /x", 0},
		{"PortOfTheHost", "alice", []string{"-W", outside, "a"}, noWay, 255},
		{"NoAccount", "carol", []string{"a", "true"}, refused, 255},
		{"NoAccountAtTheGateway", "carol", []string{"by-a", "true"}, refused, 255},
		{"OtherNodeAtTheGateway", "alice", []string{"by-c", "true"}, noWay, 255},
		{"AccountOfAnother", "bob", []string{"-l", "alice", "a", "true"}, refused, 255},
		{"NoAccountAtThePeer", "bob", []string{"a", "ssh -o BatchMode=yes b true"}, refused, 255},
		{"NodeOfAnotherSlice", "bob", []string{"a", "ssh -o BatchMode=yes c true"}, "Could not resolve hostname c", 255},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.run(t, tt.user, "typed\n", "ssh", tt.args...)
			if r.status != tt.status || tt.status != 255 && !strings.HasPrefix(r.out, tt.out) || tt.status == 255 && (r.out != "" || !strings.Contains(r.err, tt.out)) {
				t.Errorf("%+v; want %q, %d", r, tt.out, tt.status)
			}
		})
	}
	t.Run("KeyOfTheSlice", func(t *testing.T) { // it opens nodes from inside only
		key := s.run(t, "alice", "", "ssh", "a", "cat .ssh/id_rsa")
		if err := os.WriteFile(s.file("slice_key"), []byte(key.out), 0o600); err != nil || !strings.Contains(key.out, "PRIVATE KEY") {
			t.Fatalf("%v, %+v", err, key)
		}
		config := strings.ReplaceAll(read(t, s.configs["alice"]), s.file("id_alice"), s.file("slice_key"))
		if err := os.WriteFile(s.file("config_slice"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"a", "by-a"} {
			r := finish(exec.CommandContext(t.Context(), "ssh", "-F", s.file("config_slice"), to, "true"), nil)
			if r.status != 255 || !strings.Contains(r.err, refused) {
				t.Errorf("%s: %+v", to, r)
			}
		}
	})
	t.Run("Files", s.files)
	t.Run("Withdrawn", s.withdrawn)
}

// files copies files to a node and back, with each program that experimenters use.
func (s *loginSite) files(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), t.TempDir()
	if err := os.CopyFS(from, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	rsync := func(args ...string) {
		t.Helper()
		args = append([]string{"-a", "-e", "ssh -F " + s.configs["alice"]}, args...)
		finish(exec.CommandContext(t.Context(), require.Tool(t, "rsync"), args...), nil).expect(t, "", 0)
	}
	rsync(from+"/", "by-a:rsync")
	for _, options := range [][]string{{"-r"}, {"-r", "-O"}} { // over sftp, and as before
		s.run(t, "alice", "", "scp", append(options, "-q", "a:rsync/", to+"/scp"+options[len(options)-1])...).expect(t, "", 0)
		s.run(t, "alice", "", "scp", append(options, "-q", to+"/scp"+options[len(options)-1], "by-a:")...).expect(t, "", 0)
	}
	batch := "cd rsync\nrename main.go two\nchmod 600 two\nsymlink two link\nget link " + to + "/sftp\ndf\n-rm nothing\npwd\n"
	if r := s.run(t, "alice", batch, "sftp", "-q", "-b", "-", "a"); r.status != 0 || !strings.Contains(r.out, "Remote working directory: /home/alice/rsync") {
		t.Errorf("sftp: %+v", r)
	}
	s.run(t, "alice", "", "ssh", "a", "stat -c %a rsync/two; readlink rsync/link; mv rsync/two rsync/main.go; rm rsync/link").expect(t, "600\ntwo\n", 0)
	rsync("a:rsync/", to+"/rsync")
	for _, name := range []string{"rsync", "scp-r", "scp-O"} {
		if out, err := exec.Command("diff", "-r", from, filepath.Join(to, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if r := s.run(t, "alice", "get /etc/shadow "+to+"\n", "sftp", "-q", "-b", "-", "a"); r.status == 0 || !strings.Contains(r.err, "ermission denied") {
		t.Errorf("/etc/shadow: %+v", r)
	}
}

// withdrawn removes an account while its user is logged in, and gives it back.
func (s *loginSite) withdrawn(t *testing.T) {
	own := s.run(t, "bob", "", "ssh", "a", "echo his >file; id -u; cat file").out
	var sessions []*exec.Cmd
	for _, args := range [][]string{{"a", "echo begun; sleep 700"}, {"-tt", "by-a", "echo begun; trap '' HUP TERM; sleep 700"}} {
		c := s.command(t.Context(), "bob", "ssh", args...)
		if _, err := io.ReadFull(startProgram(t, c), make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c)
	}
	update := func(logins ...string) {
		t.Helper()
		s.set(t, loginNodes["a"], provider.Resource{"users": loginUsers(t, logins...)})
		s.await(t, loginNodes["a"], provider.StateReady)
	}
	update("alice")
	for i, c := range sessions {
		if exit, is := errors.AsType[*exec.ExitError](c.Wait()); !is || exit.ExitCode() != 255 {
			t.Errorf("session %d ended with %v", i, exit)
		}
	}
	if r := s.run(t, "bob", "", "ssh", "a", "true"); r.status != 255 {
		t.Errorf("a withdrawn user: %+v", r)
	}
	// No process of the account runs, and its files stay.
	s.run(t, "alice", "", "ssh", "a", "getent passwd bob; pgrep -f '^sleep 700'; sudo -n cat /home/bob/file").expect(t, "his\n", 0)
	update("alice", "bob")
	s.run(t, "bob", "", "ssh", "a", "id -u; cat file").expect(t, own, 0)
}

// sessionsOutliveUp checks that sessions, nodes and commands in them continue when "up" is killed.
func sessionsOutliveUp(t *testing.T, a *arena) {
	const line = "echo begun; read x; echo $x"
	var all []*exec.Cmd
	var inputs []io.WriteCloser
	var outputs []io.Reader
	for _, c := range []*exec.Cmd{
		exec.CommandContext(t.Context(), require.SSH(t), append(a.sshArgs(t, nodeA, "alice"), line)...),
		exec.CommandContext(t.Context(), binary(), "enter", a.settings, nodeA, line),
	} {
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out := startProgram(t, c)
		if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		all, inputs, outputs = append(all, c), append(inputs, in), append(outputs, out)
	}
	a.restart(syscall.SIGKILL)
	for i, c := range all {
		fmt.Fprintln(inputs[i], "late")
		out, err := io.ReadAll(outputs[i])
		if err := errors.Join(err, c.Wait()); err != nil || string(out) != "late\n" {
			t.Errorf("%s after a kill of up: %q, %v", filepath.Base(c.Path), out, err)
		}
	}
}

// startProgram starts a program that ends with the test, and returns its output.
func startProgram(t testing.TB, cmd *exec.Cmd) io.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}))
	return out
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// smallImage creates an image of busybox alone, without some of its commands.
func smallImage(t testing.TB, b *testSite, name string, without ...string) {
	t.Helper()
	busybox := require.Tool(t, "busybox")
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root")
	for _, dir := range []string{"bin", "etc", "root"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(root, "bin/busybox"), []byte(read(t, busybox)), 0o755),
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/group"), []byte("root:x:0:\n"), 0o644),
	)
	for _, link := range strings.Fields(string(list)) {
		if link != "busybox" && !slices.Contains(without, link) {
			err = errors.Join(err, os.Symlink("busybox", filepath.Join(root, "bin", link)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary(), "image", "add", "--state", b.state, "--from", root, b.settings, name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
