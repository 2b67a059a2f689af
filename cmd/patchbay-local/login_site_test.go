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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/require"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/provider"
)

// clientTime is what one run of a client may take.
const clientTime = 40 * time.Second

// The nodes of the tests of logins, by hostname: a and b of one slice, c of
// another, each with the accounts below.
var (
	loginNodes = map[string]string{
		"a": "0a000000-0000-4000-8000-00000000106a",
		"b": "0b000000-0000-4000-8000-00000000106b",
		"c": "0c000000-0000-4000-8000-00000000106c",
	}
	loginSlices   = map[string]string{"a": "one", "b": "one", "c": "two"}
	loginAccounts = map[string][]string{"a": {"alice", "bob"}, "b": {"alice"}, "c": {"bob", "carol"}}
)

// loginSite is a testbed whose users come with OpenSSH's programs, which trust
// nothing but the host keys that get tells.
type loginSite struct {
	*testSite
	mu    sync.Mutex
	names map[string]string // of nodes: id by hostname
}

// newLoginSite makes the testbed and its nodes.
func newLoginSite(t *testing.T, instance string, settings ...string) *loginSite {
	t.Helper()
	require.SSH(t)
	s := &loginSite{testSite: newTestSite(t, instance, settings...), names: map[string]string{}}
	if err := os.WriteFile(s.file("known_hosts"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *loginSite) file(name string) string { return filepath.Join(s.dir, name) }

// privateKey is a user's key: always the same.
func privateKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("login " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// publicKeyLine is a user's public key.
func publicKeyLine(t testing.TB, name string) string {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(privateKey(name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// keyFile is the file of a user's private key.
func (s *loginSite) keyFile(t testing.TB, name string) string {
	t.Helper()
	path := s.file("id_" + name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	block, err := ssh.MarshalPrivateKey(privateKey(name), "")
	if err == nil {
		err = os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// loginUser is an item of the attribute users.
func loginUser(t testing.TB, login string, keys ...string) string {
	t.Helper()
	if keys == nil {
		keys = []string{publicKeyLine(t, login)}
	}
	text, err := json.Marshal(map[string]any{"login": login, "urn": "urn:publicid:IDN+example.org+user+" + login, "keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func loginUsers(t testing.TB, logins ...string) []string {
	items := []string{}
	for _, login := range logins {
		items = append(items, loginUser(t, login))
	}
	return items
}

// should is a node of the tests as it is asked for.
func (s *loginSite) should(t testing.TB, id, hostname, slice string, more provider.Resource) provider.Resource {
	all := provider.Resource{
		"hostname": hostname + ".exp.example.org", "client_id": hostname,
		"slice_urn":  "urn:publicid:IDN+example.org+slice+" + s.instance + "-" + slice,
		"sliver_urn": "urn:publicid:IDN+example.org+sliver+" + id,
	}
	for k, v := range more {
		all[k] = v
	}
	return all
}

// add makes a node and waits until it is ready.
func (s *loginSite) add(t testing.TB, id, hostname, slice string, more provider.Resource) provider.Resource {
	t.Helper()
	s.mu.Lock()
	s.names[hostname] = id
	s.mu.Unlock()
	r := s.node(t, id, s.should(t, id, hostname, slice, more))
	s.addKnownHost(t, hostname)
	return r
}

// addAll makes the nodes that most tests use.
func (s *loginSite) addAll(t testing.TB) {
	t.Helper()
	for _, hostname := range []string{"a", "b", "c"} {
		s.add(t, loginNodes[hostname], hostname, loginSlices[hostname], provider.Resource{"users": loginUsers(t, loginAccounts[hostname]...)})
	}
}

// addKnownHost takes a node's host key from get into known_hosts.
func (s *loginSite) addKnownHost(t testing.TB, hostname string) {
	t.Helper()
	r := getNode(t, s.provider, s.names[hostname])
	keys := r.List(provider.AttrHostKeys)
	if len(keys) != 2 {
		t.Fatalf("%s has host keys %q", hostname, keys)
	}
	for _, key := range keys {
		s.append(t, "known_hosts", fmt.Sprintf("node-%s %s\n", hostname, key))
	}
}

// endpoints are a node's own endpoint and what the gateway account calls it.
func (s *loginSite) endpoints(t testing.TB, hostname string) (own, byGateway, proxy string) {
	t.Helper()
	r := getNode(t, s.provider, s.names[hostname])
	for _, login := range r.List(provider.AttrLogin) {
		host, _, err := net.SplitHostPort(login)
		switch {
		case err != nil:
			t.Fatal(err)
		case host == "127.0.0.1":
			own = login
		case !strings.Contains(login, "@"):
			byGateway = host
		}
	}
	return own, byGateway, r.Text(provider.AttrProxy)
}

// config is the file of a configuration of OpenSSH's programs for a user: each node by its
// hostname at its own port, as gw the gateway account, and by-NODE through that.
func (s *loginSite) config(t testing.TB, user string, nodes ...string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `Host gw
	User %s
	StrictHostKeyChecking accept-new
	UserKnownHostsFile %s
`, gateway.User, s.file("known_gateway"))
	for _, node := range nodes {
		own, name, proxy := s.endpoints(t, node)
		_, port, _ := net.SplitHostPort(own)
		fmt.Fprintf(&b, "Host %s by-%s\n\tHostKeyAlias node-%s\nHost %s\n\tHostName 127.0.0.1\n\tPort %s\n", node, node, node, node, port)
		fmt.Fprintf(&b, "Host by-%s\n\tHostName %s\n\tPort 22\n\tProxyJump gw\n", node, name)
		if _, address, ok := strings.Cut(proxy, "@"); ok {
			host, port, _ := net.SplitHostPort(address)
			fmt.Fprintf(&b, "Host gw\n\tHostName %s\n\tPort %s\n", host, port)
		}
	}
	fmt.Fprintf(&b, `Host *
	User %s
	IdentityFile %s
	IdentitiesOnly yes
	BatchMode yes
	UserKnownHostsFile %s
	GlobalKnownHostsFile /dev/null
	StrictHostKeyChecking yes
	ConnectTimeout 20
	LogLevel ERROR
`, user, s.keyFile(t, user), s.file("known_hosts"))
	sum := sha256.Sum256([]byte(b.String()))
	path := s.file(fmt.Sprintf("config_%s_%x", user, sum[:6]))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path // somebody may just read it
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// client is a user at a terminal outside.
type client struct {
	ctx    context.Context
	config string
	env    []string
}

func (s *loginSite) client(t testing.TB, user string, nodes ...string) *client {
	t.Helper()
	return &client{ctx: s.t.Context(), config: s.config(t, user, nodes...)}
}

// result is how a program ended; one that did not by itself has the status -1.
type result struct {
	out, err string
	status   int
}

// command is one of OpenSSH's programs.
func (c *client) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append([]string{"-F", c.config}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SSH_") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG")
	})
	cmd.Env = append(cmd.Env, c.env...)
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// run runs one of OpenSSH's programs without input.
func (c *client) run(program string, args ...string) result {
	return c.with(nil, program, args...)
}

// ssh runs a command, or what args say.
func (c *client) ssh(args ...string) result {
	return c.with(nil, "ssh", args...)
}

func (c *client) with(stdin io.Reader, program string, args ...string) result {
	ctx, cancel := context.WithTimeout(c.ctx, clientTime)
	defer cancel()
	cmd := c.command(ctx, program, args...)
	return finish(cmd, stdin)
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

// expectOutput demands that a program ended well and wrote want.
func (r result) expectOutput(t testing.TB, want string) {
	t.Helper()
	if r.status != 0 || r.out != want {
		t.Errorf("status %d, output %.300q, complaint %.300q; want %.300q", r.status, r.out, r.err, want)
	}
}

// expectRefused demands that a login was refused.
func (r result) expectRefused(t testing.TB, why string) {
	t.Helper()
	if r.status != 255 || !strings.Contains(r.err, why) {
		t.Errorf("status %d, output %.300q, complaint %.300q; want a refusal with %q", r.status, r.out, r.err, why)
	}
}

// dial logs in with Go's client.
func (s *loginSite) dial(t testing.TB, hostname, user string, signers ...ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	r := getNode(t, s.provider, s.names[hostname])
	own, _, _ := s.endpoints(t, hostname)
	if len(signers) == 0 {
		signer, err := ssh.NewSignerFromKey(privateKey(user))
		if err != nil {
			t.Fatal(err)
		}
		signers = append(signers, signer)
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(r.List(provider.AttrHostKeys)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Dial("tcp", own, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}, HostKeyCallback: ssh.FixedHostKey(host), HostKeyAlgorithms: []string{host.Type()}, Timeout: clientTime,
	})
}
