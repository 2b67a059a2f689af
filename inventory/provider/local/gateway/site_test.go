package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

// site is a Manager with nodes n1, n2, … and the files of OpenSSH's clients: keys, known
// hosts, a configuration.
type site struct {
	t       testing.TB
	dir     string
	manager *Manager
	log     *wait.Buffer
	pids    chan int // of each gateway that was started

	mu    sync.Mutex
	nodes map[string]*node
}

// key is a key pair: a PEM private key and a public key line.
type key struct {
	pem    []byte
	line   string
	signer ssh.Signer
}

func newKey(t testing.TB) key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key{pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), signer}
}

// sshKey returns the private key of k.
func sshKey(k key) (any, error) { return ssh.ParseRawPrivateKey(k.pem) }

func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.(*net.TCPListener)
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// newSite starts a Manager without endpoints; its gateway account's port and key are returned.
func newSite(t testing.TB) (s *site, port int, host key) {
	t.Helper()
	s = &site{t: t, dir: t.TempDir(), nodes: make(map[string]*node), log: new(wait.Buffer), pids: make(chan int, 64)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host = newKey(t)
	l := listen(t)
	port = portOf(l)
	id := 1
	if os.Geteuid() == 0 {
		id = gatewayUser
	}
	s.manager, err = Start(context.Background(), Options{
		Program: program, UID: id, GID: id, Gateway: l, HostKey: host.pem,
		DialAgent: func(ctx context.Context, name string) (*fdsocket.Conn, error) {
			s.mu.Lock()
			n := s.nodes[name]
			s.mu.Unlock()
			if n == nil {
				return nil, errors.New("no such node")
			}
			return n.connect()
		},
		SetLimits: func(pid int) error { s.pids <- pid; return nil },
		Log:       slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.manager.end(true)
		if text := s.log.String(); strings.Contains(text, "goroutine ") || strings.Contains(text, "DATA RACE") {
			t.Error("the gateway panicked, or has a race")
		}
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s, port, host
}

// gatewayPID returns the pid of the latest gateway.
func (s *site) gatewayPID() int {
	s.t.Helper()
	select {
	case pid := <-s.pids:
		return pid
	case <-time.After(30 * time.Second):
		s.t.Fatal("no gateway was started")
		return 0
	}
}

// testNode is a node with its endpoint.
type testNode struct {
	endpoint Endpoint
	host     key
	public   *net.TCPListener
	port     int
}

// add creates a node with a public endpoint.
func (s *site) add(name string, accounts ...Account) *testNode {
	s.t.Helper()
	m := &testNode{host: newKey(s.t), public: listen(s.t)}
	m.port = portOf(m.public)
	m.endpoint = Endpoint{Node: name, Slice: "slice", Names: []string{name + ".slice.example.org"}, Accounts: accounts, HostKey: m.host.pem}
	home := filepath.Join(s.dir, name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.nodes[name] = &node{t: s.t, home: home}
	s.mu.Unlock()
	if err := s.manager.SetEndpoint(m.endpoint, m.public, nil); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *site) home(name string) string { return filepath.Join(s.dir, name) }

// client runs OpenSSH's programs as a user with a key.
type client struct {
	t      testing.TB
	dir    string
	config string
	agent  string // the socket of its authentication agent
}

func (s *site) client(k key) *client {
	s.t.Helper()
	require.SSH(s.t)
	dir, err := os.MkdirTemp(s.dir, "client")
	if err != nil {
		s.t.Fatal(err)
	}
	c := &client{t: s.t, dir: dir, config: filepath.Join(dir, "config")}
	c.write("id", k.pem, 0o600)
	c.write("config", fmt.Appendf(nil, `
Host *
	IdentityFile %[1]s/id
	IdentitiesOnly yes
	UserKnownHostsFile %[1]s/known_hosts
	GlobalKnownHostsFile /dev/null
	StrictHostKeyChecking yes
	BatchMode yes
	ConnectTimeout 10
`, dir), 0o600)
	c.write("known_hosts", nil, 0o600)
	return c
}

func (c *client) write(name string, b []byte, mode os.FileMode) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), b, mode); err != nil {
		c.t.Fatal(err)
	}
}

// append adds text to one of the client's files.
func (c *client) append(name, text string) {
	c.t.Helper()
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// addKnownHost adds a host to the configuration and its key to the known ones.
func (c *client) addKnownHost(name string, port int, host key, more string) {
	c.t.Helper()
	c.append("known_hosts", name+" "+host.line+"\n")
	c.append("config", fmt.Sprintf("Host %s\n\tHostName 127.0.0.1\n\tPort %d\n\tHostKeyAlias %s\n%s\n", name, port, name, more))
}

func (c *client) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append([]string{"-F", c.config}, args...)...)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+c.agent)
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// result is the output and status of a program.
type result struct {
	out, err string
	status   int
}

// run runs ssh, or another of its programs.
func (c *client) run(program string, args ...string) result {
	c.t.Helper()
	return c.runWith(nil, program, args...)
}

func (c *client) runWith(stdin []byte, program string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := c.command(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		c.t.Fatalf("%s %q: %v, %v\n%s", program, args, err, ctx.Err(), errs.String())
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}
