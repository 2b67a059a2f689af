package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/local/vswitch"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case node.Argv0:
		node.Stage()
	case agent.Argv0:
		agent.Main()
	case gateway.Argv0:
		gateway.Main()
	case vswitch.Argv0:
		vswitch.Main()
	case setup.Argv0:
		setup.Main()
	}
	agent.RunCommand(filepath.Base(os.Args[0]), os.Args[1:])
	if o := os.Getenv("TESTBED_TEST_UP"); o != "" {
		runUp(o)
	}
	os.Exit(m.Run())
}

// site is a real testbed on this host.
type site struct {
	t       testing.TB
	options Options
	key     string // path of a private key
	public  string // its public line
	stop    func() // stops the testbed
	testbed *Testbed
}

func newSite(t testing.TB, instance string, first int) *site {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	s, err := local.ReadSettings(filepath.Join(dir, "providers", "none.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Instance, s.PublicHost, s.PortRest = instance, "127.0.0.1", 0
	s.FirstPort, s.LastPort = first, first+99
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &site{t: t, key: filepath.Join(dir, "key"), options: Options{
		Settings: s, State: filepath.Join(dir, "state"), Socket: filepath.Join(dir, "x.sock"),
		Claims:  Root, // the testbeds of other tests must not use the same user ids, which share limits
		Program: program, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	private, public, err := newHostKey()
	if err == nil {
		err = os.WriteFile(w.key, private, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.public, _, _ = strings.Cut(public, "\n")
	t.Cleanup(func() {
		w.stop()
		if err := Clean(context.Background(), w.options, func(string) {}); err != nil {
			t.Errorf("clean: %v", err)
		}
		if left := allocationHolders(t, filepath.Join(w.options.Claims, "ids")); hasPart(left, instance+"/") || hasPart(left, instance+":") {
			t.Errorf("claims are left: %v", left)
		}
		if _, err := os.Stat(w.options.State); !os.IsNotExist(err) {
			t.Errorf("state is left: %v", err)
		}
	})
	w.stop = func() {}
	w.up()
	return w
}

// up runs the testbed; a running one is stopped first.
func (s *site) up() {
	s.t.Helper()
	s.stop()
	tb, err := Open(s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.testbed = tb
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tb.Run(ctx) }()
	s.stop = func() {
		s.stop = func() {}
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
	for {
		c, err := net.Dial("unix", s.options.Socket)
		if err == nil {
			c.Close()
			return
		}
		select {
		case err := <-done:
			done <- err
			s.t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

// call is a call of the provider over the socket.
func (s *site) call(action string, input, output any) {
	s.t.Helper()
	b, err := json.Marshal(input)
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := local.Call(s.t.Context(), s.options.Socket, local.Request{Action: action, Input: b})
	if err == nil && a.Error != "" {
		err = fmt.Errorf("%s", a.Error)
	}
	if err == nil {
		err = json.Unmarshal(a.Output, output)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) set(should map[string]provider.Resource) {
	s.t.Helper()
	updates := []object{}
	for name, r := range should {
		updates = append(updates, object{"name": name, "should": r})
	}
	var out struct{ Changes []map[string]json.RawMessage }
	s.call("set", object{"updates": updates}, &out)
	for _, c := range out.Changes {
		if c["error"] != nil {
			s.t.Fatalf("%s: %s", c["name"], c["error"])
		}
	}
}

type observedNode struct {
	Name, Ensure, State, Message, Proxy string
	Login                               []string
	HostKeys                            []string `json:"host_keys"`
	Services                            []string
}

func (s *site) get(names ...string) map[string]observedNode {
	s.t.Helper()
	var out struct{ Resources []observedNode }
	s.call("get", object{"names": names}, &out)
	all := map[string]observedNode{}
	for _, r := range out.Resources {
		all[r.Name] = r
	}
	return all
}

// awaitSettled waits until all nodes are ready, failed or gone.
func (s *site) awaitSettled(names ...string) map[string]observedNode {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		all := s.get(names...)
		waiting := ""
		for name, r := range all {
			if r.State == "failed" {
				s.t.Fatalf("%s has failed: %s", name, r.Message)
			}
			if r.Ensure != "absent" && r.State != "ready" {
				waiting = fmt.Sprintf("%s stays %s: %s", name, r.State, r.Message)
			}
		}
		if waiting == "" {
			return all
		}
		if time.Now().After(end) {
			s.t.Fatal(waiting)
		}
	}
}

func (s *site) newNode(hostname string, logins ...string) provider.Resource {
	r := newNode(hostname, sliceURN)
	r["component"] = "localhost"
	users := []string{}
	for _, l := range logins {
		users = append(users, fmt.Sprintf(`{"login":%q,"urn":"urn:publicid:IDN+example.org+user+%s","keys":[%q]}`, l, l, s.public))
	}
	r["users"] = users
	return r
}

// ssh runs a command over a login (user@host:port) with OpenSSH.
func (s *site) ssh(r observedNode, user, line string) (string, error) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(r.Login[0])
	if err != nil {
		s.t.Fatal(err)
	}
	known := filepath.Join(filepath.Dir(s.key), "known-"+r.Name)
	if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%s %s\n", host, port, r.HostKeys[0]), 0o600); err != nil {
		s.t.Fatal(err)
	}
	c := exec.CommandContext(s.t.Context(), require.SSH(s.t), "-F", "none", "-i", s.key, "-p", port, "-o", "UserKnownHostsFile="+known,
		"-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", user+"@"+host, line)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func (s *site) mustSSH(r observedNode, user, line string) string {
	s.t.Helper()
	out, err := s.ssh(r, user, line)
	if err != nil {
		s.t.Fatalf("%s at %s: %v", line, r.Name, err)
	}
	return out
}

func TestRealNodes(t *testing.T) {
	s := newSite(t, "testbed-r1", 42100)
	a, b := nodeName(1), nodeName(2)
	s.set(map[string]provider.Resource{a: s.newNode("a", "alice"), b: s.newNode("b", "alice", "bob")})
	all := s.awaitSettled(a, b)
	if got := s.mustSSH(all[a], "alice", "hostname; id -un; echo kept > file"); got != "a\nalice" {
		t.Errorf("a says %q", got)
	}
	if got := s.mustSSH(all[b], "bob", "hostname; id -un"); got != "b\nbob" {
		t.Errorf("b says %q", got)
	}
	if _, err := s.ssh(all[a], "bob", "true"); err == nil {
		t.Error("bob gets into a, where he has no account")
	}
	// Between nodes, by name and with the experiment's key.
	if got := s.mustSSH(all[a], "alice", "ssh -o BatchMode=yes b hostname"); got != "b" {
		t.Errorf("from a to b: %q", got)
	}
	for _, tt := range []struct{ command, want string }{
		{"client_id", "a"}, {"slice_urn", sliceURN}, {"user_urn", "urn:publicid:IDN+example.org+user+alice"},
		{"key | head -1", "-----BEGIN RSA PRIVATE KEY-----"}, {"-p 80 version", "1"}, {"-a | grep -c slice_urn", "1"},
	} {
		if got, err := s.ssh(all[a], "alice", "geni-get "+tt.command); err != nil || got != tt.want {
			t.Errorf("geni-get %s: %q, %v", tt.command, got, err)
		}
	}
	if out, err := s.ssh(all[a], "alice", "geni-get nothing"); err == nil || !strings.Contains(err.Error(), "there is no command") {
		t.Errorf("geni-get nothing: %q, %v", out, err)
	}

	s.up() // nodes keep running
	all = s.awaitSettled(a, b)
	if got := s.mustSSH(all[a], "alice", "cat file"); got != "kept" {
		t.Errorf("after a restart of the testbed: %q", got)
	}
	s.set(map[string]provider.Resource{a: {"restart_serial": "1"}, b: {"users": []string{}}})
	all = s.awaitSettled(a, b)
	if got := s.mustSSH(all[a], "alice", "cat file"); got != "kept" {
		t.Errorf("after a restart: %q", got)
	}
	if _, err := s.ssh(all[b], "bob", "true"); err == nil {
		t.Error("bob gets in without an account")
	}
	s.set(map[string]provider.Resource{a: {"power": "off"}})
	if all = s.awaitSettled(a); len(all[a].Login) > 0 {
		t.Errorf("login of a node that is off: %v", all[a])
	}
	s.set(map[string]provider.Resource{a: {"power": "on"}})
	if got := s.mustSSH(s.awaitSettled(a)[a], "alice", "cat file"); got != "kept" {
		t.Errorf("after off and on: %q", got)
	}
	absent := absent
	s.set(map[string]provider.Resource{a: absent, b: absent})
	s.awaitGone(a, b)
}

func (s *site) awaitGone(names ...string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var left []observedNode
		for _, r := range s.get(names...) {
			if r.Ensure != "absent" {
				left = append(left, r)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("left are %+v", left)
		}
	}
}

func TestTwoInstances(t *testing.T) {
	one, two := newSite(t, "testbed-r2", 42200), newSite(t, "testbed-r3", 42250)
	name := nodeName(3)
	for _, s := range []*site{one, two} {
		s.set(map[string]provider.Resource{name: s.newNode("n", "alice")})
	}
	for _, s := range []*site{one, two} {
		s.awaitSettled(name)
	}
	one.set(map[string]provider.Resource{name: {"ensure": "absent"}})
	one.awaitGone(name)
	one.stop()
	if got := two.mustSSH(two.awaitSettled(name)[name], "alice", "hostname"); got != "n" {
		t.Errorf("the other's node says %q", got)
	}
	if _, err := Open(two.options); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d runs the testbed testbed-r3 already", os.Getpid())) {
		t.Errorf("a second one of the same instance: %v", err)
	}
}

func TestKilledSystemIsRestarted(t *testing.T) {
	s := newSite(t, "testbed-r4", 42300)
	name := nodeName(4)
	s.set(map[string]provider.Resource{name: s.newNode("n", "alice")})
	s.mustSSH(s.awaitSettled(name)[name], "alice", "echo kept > file")
	for _, while := range []string{"up", "down"} {
		var list local.List
		s.call("list", nil, &list)
		pid := list.Nodes[0].PID
		if while == "down" {
			s.stop()
		}
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		if while == "down" {
			s.up()
		}
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			s.call("list", nil, &list)
			if list.Nodes[0].PID != pid && list.Nodes[0].State == "ready" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", while, list.Nodes[0])
			}
		}
		if got := s.mustSSH(s.awaitSettled(name)[name], "alice", "cat file"); got != "kept" {
			t.Errorf("%s: %q", while, got)
		}
		if while == "up" {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				t.Error("the rest of the system still exists")
			}
		}
	}
}

// runUp runs the test binary as "up", with options from the environment.
func runUp(options string) {
	var o Options
	err := json.Unmarshal([]byte(options), &o)
	var t *Testbed
	if err == nil {
		t, err = Open(o)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = t.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runInProcess runs the testbed in its own process from now on; kill ends it abruptly.
func (s *site) runInProcess() (kill func()) {
	s.t.Helper()
	s.stop()
	o := s.options
	o.Log = nil
	b, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.Command(s.options.Program)
	c.Env = append(os.Environ(), "TESTBED_TEST_UP="+string(b))
	c.Stderr = s.t.Output()
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	end := func(sig os.Signal) func() {
		return func() {
			once.Do(func() {
				_ = c.Process.Signal(sig)
				_ = c.Wait()
			})
		}
	}
	s.stop = end(syscall.SIGTERM)
	return end(syscall.SIGKILL)
}
