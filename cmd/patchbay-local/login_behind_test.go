package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// A rack of another provider: one machine with an SSH server of its own, at an
// address beyond this host.
const (
	rackHost    = "198.18.77.1" // our end of the cable
	rackMachine = "198.18.77.2"
)

// rackProvider knows no users. It tells what its file get.json says, and makes
// nothing: a set touches made or gone.
const rackProvider = `#!/bin/sh
case $1 in
ral_action=describe)
	cat <<.
provider:
  type: node
  invoke: json
  suitable: true
  attributes:
    name: {type: string}
    ensure: {type: "enum[present,absent]"}
    component: {type: string}
    power: {type: "enum[on,off]"}
    hostname: {type: string}
    login: {type: "array[string]", kind: r}
.
	;;
ral_action=get) cat get.json ;;
ral_action=set)
	cat >asked.json
	echo '{"derive": true, "changes": []}' ;;
esac
`

// rack is the machine, and the provider that stands before its own.
type rack struct {
	*provider.Provider
	dir  string
	host ssh.Signer
	port int
}

// newRack makes the machine in a network namespace.
func newRack(t *testing.T, s *loginSite) *rack {
	t.Helper()
	require.NetNS(t)
	ip := require.Tool(t, "ip")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewSignerFromKey(privateKey("rack"))
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{dir: dir, host: host}
	for name, text := range map[string]string{
		"rack.real": rackProvider, "rack.yaml": "instance: " + s.instance + "\n",
		"rack.prov": fmt.Sprintf("#!/bin/sh\nexec %s behind --name rack --provider ./rack.real \"$@\"\n", binary()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, problems := provider.Load(dir, nil)
	if r.Provider = found["rack"]; r.Provider == nil || len(problems) > 0 {
		t.Fatalf("Load: %v, %q", found, problems)
	}
	r.Log = slog.New(slog.DiscardHandler)
	listener := listenBehindVeth(t, ip)
	r.port = listener.Addr().(*net.TCPAddr).Port
	go r.serve(listener)
	return r
}

// listenBehindVeth listens in a new network namespace, to which a cable leads.
func listenBehindVeth(t *testing.T, ip string) net.Listener {
	t.Helper()
	type result struct {
		l   net.Listener
		err error
	}
	done, thread, cable := make(chan result), make(chan int), make(chan struct{})
	name := "pbl" + strconv.Itoa(os.Getpid()%1e6)
	run := func(args ...string) error {
		if out, err := exec.Command(ip, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %q: %w: %s", args, err, out)
		}
		return nil
	}
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer home.Close()
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- result{nil, err}
			return
		}
		thread <- unix.Gettid()
		<-cable
		var l net.Listener
		err = run("address", "add", rackMachine+"/30", "dev", name+"b")
		if err == nil {
			err = run("link", "set", name+"b", "up")
		}
		if err == nil {
			l, err = net.Listen("tcp4", rackMachine+":0")
		}
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
		done <- result{l, err}
	}()
	var got result
	select {
	case got = <-done:
	case tid := <-thread:
		err := run("link", "add", name+"a", "type", "veth", "peer", "name", name+"b", "netns", strconv.Itoa(tid))
		if err == nil {
			t.Cleanup(func() {
				if err := run("link", "delete", name+"a"); err != nil {
					t.Error(err)
				}
				if got.l != nil {
					got.l.Close() // it alone keeps the namespace, and so the cable
				}
			})
			err = run("address", "add", rackHost+"/30", "dev", name+"a")
		}
		if err == nil {
			err = run("link", "set", name+"a", "up")
		}
		close(cable)
		if got = <-done; err != nil {
			got.err = err
		}
	}
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.l
}

// serve is the machine's SSH server: the account operator, whom alice's key
// opens, and the command that is asked for is said back.
func (r *rack) serve(l net.Listener) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		alice, err := ssh.NewSignerFromKey(privateKey("alice"))
		if err == nil && (m.User() != "operator" || string(key.Marshal()) != string(alice.PublicKey().Marshal())) {
			err = fmt.Errorf("%s may not", m.User())
		}
		return nil, err
	}}
	config.AddHostKey(r.host)
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			conn, channels, requests, err := ssh.NewServerConn(nc, config)
			if err != nil {
				return
			}
			defer conn.Close()
			go ssh.DiscardRequests(requests)
			for n := range channels {
				ch, requests, err := n.Accept()
				if err != nil {
					return
				}
				go func() {
					for q := range requests {
						_ = q.Reply(q.Type == "exec", nil)
						if q.Type == "exec" {
							fmt.Fprintf(ch, "%s runs %s\n", conn.User(), q.Payload[4:])
							if strings.HasSuffix(string(q.Payload), "stay") {
								_, _ = io.Copy(io.Discard, ch)
							}
							_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{7}))
							ch.Close()
						}
					}
				}()
			}
		}()
	}
}

// setNodes makes the rack tell of nodes, each with a login.
func (r *rack) setNodes(t testing.TB, logins map[string]string) {
	t.Helper()
	var items []string
	for name, login := range logins {
		items = append(items, fmt.Sprintf(`{"name": %q, "ensure": "present", "component": "pc1", "power": "on", "hostname": "metal", "login": [%q]}`, name, login))
	}
	text := `{"resources": [` + strings.Join(items, ", ") + `]}`
	if err := os.WriteFile(filepath.Join(r.dir, "get.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// loginBehind puts a machine of another provider behind the gateway.
func loginBehind(t *testing.T, s *loginSite) {
	r := newRack(t, s)
	const name = "14000000-0000-4000-8000-000000001074"
	there := net.JoinHostPort(rackMachine, strconv.Itoa(r.port))
	r.setNodes(t, nil)
	mustSetNode(t, r.Provider, name, provider.Resource{"ensure": "present", "component": "pc1", "power": "on", "users": loginUsers(t, "alice")})
	if asked := read(t, filepath.Join(r.dir, "asked.json")); strings.Contains(asked, "users") {
		t.Errorf("a provider that knows no users is asked for %s", asked)
	}
	r.setNodes(t, map[string]string{name: "operator@" + there})
	is := getNode(t, r.Provider, name)
	logins := is.List(provider.AttrLogin)
	if len(logins) != 2 || !strings.HasPrefix(logins[0], "operator@127.0.0.1:") || !strings.HasPrefix(logins[1], "operator@metal-") || len(is.List("users")) != 1 {
		t.Fatalf("%v", is)
	}
	_, own, _ := strings.Cut(logins[0], "@")
	_, port, _ := net.SplitHostPort(own)
	called, _, _ := net.SplitHostPort(strings.TrimPrefix(logins[1], "operator@"))
	s.append(t, "known_hosts", "metal "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(r.host.PublicKey())))+"\n")
	as := func(user string) *client { return s.client(t, user, "a", "c") }
	direct := []string{"-o", "HostKeyAlias=metal", "-l", "operator", "-p", port, "127.0.0.1"}
	jump := []string{"-o", "HostKeyAlias=metal", "-l", "operator", "-J", "gw", called}
	with := func(way []string, command string) []string { return append(slices.Clone(way), command) }
	t.Run("ByItsPort", func(t *testing.T) {
		as("alice").ssh(with(direct, "it")...).expect(t, "operator runs it\n", 7)
	})
	t.Run("ByTheGatewayAccount", func(t *testing.T) {
		as("alice").ssh(with(jump, "it")...).expect(t, "operator runs it\n", 7)
		as("alice").ssh("-o", "HostKeyAlias=metal", "-l", "operator", "-o", "ProxyCommand=ssh -F "+as("alice").config+" -W %h:%p gw", called, "it").expect(t, "operator runs it\n", 7)
	})
	t.Run("GatewayAccountListsIt", func(t *testing.T) {
		if r := as("alice").ssh("gw"); !strings.Contains(r.err, called) {
			t.Errorf("%+v", r)
		}
		if r := as("carol").ssh("gw"); strings.Contains(r.err, called) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("GatewayAccountIsForItsUsersOnly", func(t *testing.T) {
		for _, user := range []string{"bob", "carol"} {
			if r := as(user).ssh(with(jump, "it")...); r.status != 255 || !strings.Contains(r.err, "stdio forwarding failed") {
				t.Errorf("%s: %+v", user, r)
			}
		}
	})
	t.Run("ItsOwnServerDecidesWhoComesIn", func(t *testing.T) {
		as("bob").ssh(with(direct, "it")...).expectRefused(t, "Permission denied (publickey)")
	})
	t.Run("KeysUpdate", func(t *testing.T) {
		stays := as("alice").command(t.Context(), "ssh", with(jump, "stay")...)
		if _, err := io.ReadFull(startProgram(t, stays), make([]byte, len("operator runs stay\n"))); err != nil {
			t.Fatal(err)
		}
		mustSetNode(t, r.Provider, name, provider.Resource{"users": loginUsers(t, "bob")})
		if err := stays.Wait(); err == nil {
			t.Error("the way of a key that was withdrawn stays open")
		}
		if r := as("alice").ssh(with(jump, "it")...); r.status != 255 {
			t.Errorf("withdrawn: %+v", r)
		}
		// Bob gets through, to the machine's own server.
		as("bob").ssh(with(jump, "it")...).expectRefused(t, "Permission denied (publickey)")
		mustSetNode(t, r.Provider, name, provider.Resource{"users": loginUsers(t, "alice", "bob")})
		as("alice").ssh(with(jump, "it")...).expect(t, "operator runs it\n", 7)
	})
	t.Run("ForbiddenTargets", func(t *testing.T) {
		bad := map[string]string{}
		for i, to := range []string{
			"127.0.0.1:22", "[::1]:22", "0.0.0.0:22", "[::ffff:127.0.0.1]:22", "169.254.169.254:80", "[fe80::1]:22", "224.0.0.1:22", "255.255.255.255:22",
			rackHost + ":22", // this host, under another address
		} {
			bad[fmt.Sprintf("15000000-0000-4000-8000-%012d", i)] = to
		}
		r.setNodes(t, bad)
		for id, to := range bad {
			is := getNode(t, r.Provider, id)
			if endpoints := is.List(provider.AttrLogin); len(endpoints) != 0 || !strings.Contains(is.Text(provider.AttrMessage), "may not forward to") {
				t.Errorf("%s: endpoints %q, message %q", to, endpoints, is.Text(provider.AttrMessage))
			}
		}
		r.setNodes(t, map[string]string{name: "operator@" + there})
	})
	t.Run("Removed", func(t *testing.T) {
		stays := as("alice").command(t.Context(), "ssh", with(direct, "stay")...)
		if _, err := io.ReadFull(startProgram(t, stays), make([]byte, len("operator runs stay\n"))); err != nil {
			t.Fatal(err)
		}
		mustSetNode(t, r.Provider, name, provider.Resource{"ensure": "absent"})
		r.setNodes(t, nil)
		if got := getNode(t, r.Provider, name); !provider.Gone(got) {
			t.Errorf("%v", got)
		}
		if stays.Wait() == nil {
			t.Error("a connection outlives its node")
		}
		if c, err := net.DialTimeout("tcp", own, time.Second); err == nil {
			c.Close()
			t.Error("its port is open")
		}
		if r := as("alice").ssh(with(jump, "it")...); r.status != 255 {
			t.Errorf("%+v", r)
		}
	})
}

// append adds text to a file of the site.
func (s *loginSite) append(t testing.TB, name, text string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.file(name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
	f.Close()
}
