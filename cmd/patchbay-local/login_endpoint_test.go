package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/provider"
)

// loginEndpoints comes by the node's own port and by the gateway account.
func loginEndpoints(t *testing.T, s *loginSite) {
	alice := s.client(t, "alice", "a", "b")
	id := loginNodes["a"]
	_, name, proxy := s.endpoints(t, "a")
	t.Run("PortOfTheNode", func(t *testing.T) {
		alice.ssh("a", "id -un; hostname -s").expectOutput(t, "alice\na\n")
	})
	t.Run("PublishedGateway", func(t *testing.T) {
		if name != "a-"+id[:8] || !strings.HasPrefix(proxy, gateway.User+"@127.0.0.1:") {
			t.Errorf("published are %q, %q", name, proxy)
		}
		alice.ssh("by-a", "id -un; hostname -s").expectOutput(t, "alice\na\n")
	})
	t.Run("ProxyCommandByID", func(t *testing.T) {
		alice.ssh("-o", "ProxyCommand=ssh -F "+alice.config+" -W %h:%p gw", "-o", "HostKeyAlias=node-a", "alice@"+id, "hostname -s").expectOutput(t, "a\n")
	})
	t.Run("GatewayAccountListsNodes", func(t *testing.T) {
		_, other, _ := s.endpoints(t, "b")
		for _, args := range [][]string{{"gw"}, {"gw", "ls"}, {"-tt", "gw"}, {"-s", "gw", "sftp"}} {
			r := alice.ssh(args...)
			if r.status != 1 || !strings.Contains(r.err, "Your nodes: "+name+" "+other) || strings.Contains(r.err, "c-0c") {
				t.Errorf("%q: %+v", args, r)
			}
		}
	})
	t.Run("GatewayLeadsToPort22Only", func(t *testing.T) {
		for _, to := range []string{name + ":80", "127.0.0.1:22", "localhost:22", "nothing:22"} {
			r := alice.ssh("-W", to, "gw")
			if r.status != 255 || r.out != "" {
				t.Errorf("%s: %+v", to, r)
			}
		}
		r := alice.ssh("-o", "ExitOnForwardFailure=yes", "-N", "-R", "0:127.0.0.1:1", "gw")
		r.expectRefused(t, "remote port forwarding failed")
	})
	t.Run("KeyscanShowsWhatGetSays", func(t *testing.T) {
		s.keyscan(t, "a")
	})
	t.Run("VerboseShowsNoOddity", func(t *testing.T) {
		for _, way := range []string{"a", "by-a"} {
			r := alice.ssh("-vv", way, "true")
			if r.status != 0 {
				t.Fatalf("%+v", r)
			}
			for line := range strings.Lines(r.err) {
				if text := debugMark.ReplaceAllString(line, ""); oddity.MatchString(text) && !usual.MatchString(text) {
					t.Errorf("%s: %s", way, line)
				}
			}
			for _, want := range []string{
				"kex: algorithm: curve25519-sha256", "kex: host key algorithm: ssh-ed25519", "Authenticated to",
				"SSH2_MSG_EXT_INFO received", "Exit status 0",
			} {
				if !strings.Contains(r.err, want) {
					t.Errorf("%s: no %q in\n%s", way, want, r.err)
				}
			}
		}
	})
	t.Run("NoPasswordNoQuestion", func(t *testing.T) {
		r := alice.ssh("-o", "PreferredAuthentications=none,password,keyboard-interactive,hostbased", "a", "true")
		r.expectRefused(t, "Permission denied (publickey)")
	})
}

// Lines of ssh -vv that tell of something unusual, and those that every login
// of this client has.
var (
	debugMark = regexp.MustCompile(`^debug\d: `)
	oddity    = regexp.MustCompile(`(?i)error|fail|unknown|unsupported|unexpected|mismatch|bad |invalid|no match|deprecat|warning|bugs`)
	// It is no server whose bugs are known; the rest is how this client tells of
	// an end, and of a proxy.
	usual = regexp.MustCompile(`^compat_banner: no match: Patchbay|read failed|^getpeername failed|to UNKNOWN port`)
)

// keyscan demands that a node's own endpoint shows the host key that get tells, and
// no other.
func (s *loginSite) keyscan(t testing.TB, hostname string) string {
	t.Helper()
	own, _, _ := s.endpoints(t, hostname)
	host, port, err := net.SplitHostPort(own)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(require.Tool(t, "ssh-keyscan"), "-p", port, host).Output()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for line := range strings.Lines(string(out)) {
		if _, key, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if is := slices.Sorted(slices.Values(getNode(t, s.provider, s.names[hostname]).List(provider.AttrHostKeys))); !slices.Equal(keys, is) {
		t.Errorf("the endpoint of %s shows %q, get tells %q", hostname, keys, is)
	}
	return strings.Join(keys, "\n")
}

// loginInside goes from node to node.
func loginInside(t *testing.T, s *loginSite) {
	alice, bob := s.client(t, "alice", "a", "b"), s.client(t, "bob", "a", "c")
	for rule, to := range map[string]string{
		"ByHostname": "b", "ByWholeHostname": "b.exp.example.org", "ToItself": "a", "ToItselfByWholeHostname": "a.exp.example.org", "ToLocalhost": "-o NoHostAuthenticationForLocalhost=yes localhost",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Helper()
			want := "alice a\n"
			if strings.HasPrefix(to, "b") {
				want = "alice b\n"
			}
			wait.Clear(t, func() string { // peers are told shortly after
				r := alice.ssh("a", "ssh -o BatchMode=yes "+to+` 'echo $(id -un) $(hostname -s)'`)
				if r.status == 0 && r.out == want && r.err == "" {
					return ""
				}
				return fmt.Sprintf("%+v", r)
			})
		})
	}
	t.Run("ThereAndBack", func(t *testing.T) {
		wait.Clear(t, func() string {
			r := alice.ssh("a", "ssh b ssh a ssh b hostname -s")
			if r.status == 0 && r.out == "b\n" {
				return ""
			}
			return fmt.Sprintf("%+v", r)
		})
	})
	t.Run("FilesFromNodeToNode", func(t *testing.T) {
		alice.ssh("a", "head -c 300000 /dev/urandom >x; scp -q x b:y; ssh b cat y | cmp - x && echo same").expectOutput(t, "same\n")
	})
	t.Run("OtherAccountOfTheExperiment", func(t *testing.T) { // its key opens all accounts there are
		alice.ssh("a", "ssh bob@a id -un").expectOutput(t, "bob\n")
	})
	t.Run("NoAccountThere", func(t *testing.T) {
		bob.ssh("a", "ssh -o BatchMode=yes b true").expectRefused(t, "Permission denied (publickey)")
	})
	t.Run("OtherSliceIsNotKnown", func(t *testing.T) {
		r := bob.ssh("a", "ssh -o BatchMode=yes c true")
		if r.status != 255 || !strings.Contains(r.err, "Could not resolve hostname c") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("NoOtherNodeAtAnyAddress", func(t *testing.T) { // what is nobody's address is the node's own
		wait.Clear(t, func() string {
			r := bob.ssh("a", `for i in 1 2 3 9; do ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR 127.64.0.$i hostname -s 2>&1; done`)
			if strings.Contains(r.out, "c\n") {
				return "a node of another slice answers: " + r.out
			}
			if strings.Count(r.out, "a\n") == 3 && strings.Count(r.out, "Permission denied") == 1 {
				return ""
			}
			return fmt.Sprintf("%+v", r)
		})
	})
	t.Run("KeyOfTheExperimentOpensNoEndpointOutside", func(t *testing.T) {
		path := s.file("experiment_key")
		key := alice.ssh("a", "cat .ssh/id_rsa")
		if err := os.WriteFile(path, []byte(key.out), 0o600); err != nil || !strings.Contains(key.out, "PRIVATE KEY") {
			t.Fatalf("%v, %+v", err, key)
		}
		for _, to := range []string{"a", "by-a"} {
			alice.ssh("-o", "IdentityFile=none", "-i", path, "-o", "PubkeyAuthentication=yes", to, "true")
			cfg := strings.ReplaceAll(read(t, alice.config), s.keyFile(t, "alice"), path)
			other := &client{ctx: s.t.Context(), config: s.file("config_experiment")}
			if err := os.WriteFile(other.config, []byte(cfg), 0o600); err != nil {
				t.Fatal(err)
			}
			other.ssh(to, "true").expectRefused(t, "Permission denied (publickey)")
		}
	})
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// loginMatrix tries every user at every node, by every endpoint.
func loginMatrix(t *testing.T, s *loginSite) {
	for _, user := range []string{"alice", "bob", "carol"} {
		c := s.client(t, user, "a", "b", "c")
		for _, node := range []string{"a", "b", "c"} {
			may := slices.Contains(loginAccounts[node], user)
			for _, way := range []string{"", "by-"} {
				t.Run(user+"At"+way+node, func(t *testing.T) {
					r := c.ssh(way+node, "id -un; hostname -s")
					if may {
						r.expectOutput(t, user+"\n"+node+"\n")
					} else if r.status != 255 || r.out != "" || !strings.Contains(r.err, "Permission denied") && !strings.Contains(r.err, "stdio forwarding failed") {
						t.Errorf("%+v", r)
					}
				})
			}
			if as := loginAccounts[node][0]; as != user {
				t.Run(user+"As"+as+"At"+node, func(t *testing.T) {
					c.ssh("-l", as, node, "true").expectRefused(t, "Permission denied (publickey)")
				})
			}
		}
	}
}

// loginRestarts restarts all that stands between a user and a node, and changes
// what is published.
func loginRestarts(t *testing.T, s *loginSite) {
	alice := s.client(t, "alice", "a", "b")
	alice.ssh("a", "echo kept >file").expectOutput(t, "")
	key := s.keyscan(t, "a")
	ports := func() string {
		own, name, proxy := s.endpoints(t, "a")
		return own + " " + name + " " + proxy
	}
	were := ports()
	same := func(t *testing.T) {
		t.Helper()
		if now := s.keyscan(t, "a"); now != key {
			t.Errorf("the host key is %s, was %s", now, key)
		}
		if is := ports(); is != were {
			t.Errorf("the endpoints are %s, were %s", is, were)
		}
		for _, way := range []string{"a", "by-a"} {
			alice.ssh(way, "cat file; ssh -o BatchMode=yes b hostname -s").expectOutput(t, "kept\nb\n")
		}
	}
	t.Run("OfTheNode", func(t *testing.T) {
		s.set(t, loginNodes["a"], provider.Resource{"restart_serial": "1"})
		s.await(t, loginNodes["a"], provider.StateReady)
		same(t)
	})
	t.Run("OfTheGateway", func(t *testing.T) {
		session := alice.command(t.Context(), "ssh", "a", "echo there; sleep 600")
		out, err := session.StdoutPipe()
		if err == nil {
			err = session.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 6))
		}
		if err != nil {
			t.Fatal(err)
		}
		pids := (&crashSite{testSite: s.testSite}).victims()["gateway"]
		if len(pids) != 1 {
			t.Fatalf("gateways are %v", pids)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if session.Wait() == nil {
			t.Error("a session outlived its gateway")
		}
		same(t)
	})
	t.Run("OfUp", func(t *testing.T) {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			session := alice.command(t.Context(), "ssh", "a", "echo there; read x; echo $x")
			in, err := session.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := session.StdoutPipe()
			if err == nil {
				err = session.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			begun := make([]byte, 6)
			if _, err := out.Read(begun); err != nil {
				t.Fatal(err)
			}
			s.restart(signal)
			same(t)
			fmt.Fprintln(in, "still")
			rest := make([]byte, 6)
			if _, err := out.Read(rest); err != nil || string(rest) != "still\n" {
				t.Errorf("a session over %v: %q, %v", signal, rest, err)
			}
			if err := session.Wait(); err != nil {
				t.Error(err)
			}
		}
	})
	for _, tt := range []struct {
		publish       string
		port, gateway bool
	}{{"direct", true, false}, {"gateway", false, true}, {"both", true, true}} {
		t.Run("PublishedAre_"+tt.publish, func(t *testing.T) {
			s.publish(t, tt.publish)
			own, name, proxy := s.endpoints(t, "a")
			if (own != "") != tt.port || (name != "") != tt.gateway || (proxy != "") != tt.gateway {
				t.Errorf("published are %q, %q, %q", own, name, proxy)
			}
			for way, open := range map[string]bool{"a": tt.port, "by-a": tt.gateway} {
				if r := alice.ssh(way, "hostname -s"); (r.status == 0) != open || open && r.out != "a\n" {
					t.Errorf("%s: %+v", way, r)
				}
			}
		})
	}
}

// publish changes the setting, and starts up anew.
func (s *loginSite) publish(t testing.TB, what string) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^publish: .*$`).ReplaceAllString(read(t, s.settings), "publish: "+what)
	if err := os.WriteFile(s.settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s.restart(syscall.SIGTERM)
}
