package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
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

	"patchbay/am/testkit/wait"
)

// dial logs in with this package's own client.
func dial(address, user string, k key, host key) (*ssh.Client, error) {
	nc, err := net.DialTimeout("tcp", address, 20*time.Second)
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	c, err := handshake(nc, user, []ssh.Signer{host.signer}, k.signer)
	if err != nil {
		nc.Close()
		return nil, err
	}
	nc.SetDeadline(time.Time{})
	return c, nil
}

// openSession is an open session that has answered once.
type openSession struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// running starts ssh and waits until the command has said so.
func (c *client) running(args ...string) *openSession {
	c.t.Helper()
	r := &openSession{cmd: c.command(context.Background(), "ssh", args...)}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if r.out, err = r.cmd.StdoutPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	b := make([]byte, 6)
	if _, err := io.ReadFull(r.out, b); err != nil || string(b) != "ready\n" {
		c.t.Fatalf("%q, %v", b, err)
	}
	return r
}

const talks = "echo ready; cat; exit 5"

// talks reports whether the session still answers.
func (r *openSession) talks() bool {
	if _, err := io.WriteString(r.in, "x"); err != nil {
		return false
	}
	_, err := io.ReadFull(r.out, make([]byte, 1))
	return err == nil
}

// ended waits for the end and returns the status.
func (r *openSession) ended(t testing.TB) int {
	t.Helper()
	over := time.AfterFunc(30*time.Second, func() {
		t.Error("the session does not end")
		r.cmd.Process.Kill()
	})
	defer over.Stop()
	r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

func TestSessionsEndWithTheirKeys(t *testing.T) {
	t.Parallel()
	s, port, host := newSite(t)
	alice, bob := newKey(t), newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}}, Account{Login: "bob", Keys: []string{bob.line}})
	start := func(k key, user string, gateway bool) *openSession {
		p := s.client(k)
		p.addKnownHost("n1", m.port, m.host, "\tUser "+user)
		p.addKnownHost("gw", port, host, "\tUser "+User)
		if gateway {
			return p.running("-J", "gw", "-o", "HostName=n1", "-p", "22", "n1", talks)
		}
		return p.running("n1", talks)
	}
	gone := []*openSession{start(alice, "alice", false), start(alice, "alice", true)}
	stays := start(bob, "bob", false)
	m.endpoint.Accounts[0].Keys = []string{newKey(t).line}
	if err := s.manager.SetEndpoint(m.endpoint, m.public, nil); err != nil {
		t.Fatal(err)
	}
	for i, r := range gone {
		if got := r.ended(t); got != 255 {
			t.Errorf("session %d of the key that went: status %d", i, got)
		}
	}
	if !stays.talks() {
		t.Error("another account's session was ended")
	}
	if err := s.manager.RemoveEndpoint("n1"); err != nil {
		t.Fatal(err)
	}
	if got := stays.ended(t); got != 255 {
		t.Errorf("session at an endpoint that went: status %d", got)
	}
	if _, err := net.Dial("tcp", m.public.Addr().String()); err == nil {
		t.Error("the port of an endpoint that went is open")
	}
	if err := s.manager.RemoveEndpoint("n1"); err != nil {
		t.Error("a second time:", err)
	}
}

func TestSetEndpointReplacesListeners(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	p := s.client(k)
	p.addKnownHost("n1", m.port, m.host, "\tUser alice")
	open := p.running("n1", talks)
	first, err := net.Listen("tcp", "127.0.0.77:0") // no other test takes a port of this address
	if err != nil {
		t.Fatal(err)
	}
	second := listen(t)
	for _, l := range []net.Listener{first, second} {
		if err := s.manager.SetEndpoint(m.endpoint, l, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := net.Dial("tcp", first.Addr().String()); err == nil {
		t.Error("the old port is open")
	}
	q := s.client(k)
	q.addKnownHost("n1", portOf(second), m.host, "\tUser alice")
	if r := q.run("ssh", "n1", "true"); r.status != 0 {
		t.Errorf("at the new port: %+v", r)
	}
	if !open.talks() {
		t.Error("the session was ended")
	}
	bad := m.endpoint
	bad.HostKey = []byte("none")
	if s.manager.SetEndpoint(bad, listen(t), nil) == nil {
		t.Error("an endpoint without a host key was put")
	}
	if r := q.run("ssh", "n1", "true"); r.status != 0 {
		t.Errorf("after an endpoint that could not be put: %+v", r)
	}
}

// Inside nodes the destination address selects the node, and the experiment's key opens
// every account. Outside that key opens nothing.
func TestInsideEndpoint(t *testing.T) {
	t.Parallel()
	s, port, host := newSite(t)
	alice, experiment := newKey(t), newKey(t)
	one := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	two := s.add("n2", Account{Login: "bob", Keys: nil})
	other := s.add("n3", Account{Login: "carol", Keys: nil})
	all, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	other.endpoint.Slice = "other"
	for _, d := range []*Endpoint{&one.endpoint, &two.endpoint, &other.endpoint} {
		d.InsideKeys = []string{experiment.line}
	}
	for m, l := range map[*testNode]net.Listener{one: all, two: nil, other: nil} {
		if err := s.manager.SetEndpoint(m.endpoint, m.public, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.manager.SetPeers("slice", map[netip.Addr]string{
		netip.MustParseAddr("127.64.0.2"): "n2", netip.MustParseAddr("127.64.0.3"): "n3", netip.MustParseAddr("127.64.0.4"): "gone",
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, address, user string
		key, host           key
		opens               bool
	}{
		{"Itself", "127.0.0.1", "alice", experiment, one.host, true},
		{"ItselfByOwnKey", "127.0.0.1", "alice", alice, one.host, true},
		{"Peer", "127.64.0.2", "bob", experiment, two.host, true},
		{"NoSuchAccount", "127.64.0.2", "alice", experiment, two.host, false},
		{"OwnKeyAtPeer", "127.64.0.2", "bob", alice, two.host, false},
		{"UnknownAddressIsItself", "127.64.9.9", "alice", experiment, one.host, true},
		{"NodeOfAnotherSlice", "127.64.0.3", "carol", experiment, other.host, false},
		{"NodeThatWent", "127.64.0.4", "alice", experiment, one.host, false},
		{"OtherKey", "127.0.0.1", "alice", newKey(t), one.host, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, err := dial(fmt.Sprintf("%s:%d", c.address, portOf(all)), c.user, c.key, c.host)
			if (err == nil) != c.opens {
				t.Error(err)
			}
			if err == nil {
				k.Close()
			}
		})
	}
	t.Run("OutsideItOpensNothing", func(t *testing.T) {
		if k, err := dial(one.public.Addr().String(), "alice", experiment, one.host); err == nil {
			t.Error("it opened the public endpoint")
			k.Close()
		}
		if k, err := dial(fmt.Sprintf("127.0.0.1:%d", port), User, experiment, host); err == nil {
			t.Error("it opened the gateway account")
			k.Close()
		}
	})
	t.Run("PeersForgotten", func(t *testing.T) {
		if err := s.manager.SetPeers("slice", nil); err != nil {
			t.Fatal(err)
		}
		k, err := dial(fmt.Sprintf("127.64.0.2:%d", portOf(all)), "alice", experiment, one.host)
		if err != nil {
			t.Fatal(err)
		}
		k.Close()
	})
}

// mustLogIn waits until alice can log in at m. A connection that a gateway accepted before it was killed is reset,
// so a first try may fail.
func mustLogIn(t *testing.T, m *testNode, k key) {
	t.Helper()
	var err error
	wait.Holds(t, func() bool {
		var c *ssh.Client
		if c, err = dial(m.public.Addr().String(), "alice", k, m.host); err == nil {
			c.Close()
		}
		return err == nil
	}, func() string { return fmt.Sprint("logins at the next gateway fail: ", err) })
}

func TestGatewayIsReplaced(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	p := s.client(k)
	p.addKnownHost("n1", m.port, m.host, "\tUser alice")
	// A command without a terminal outlives the gateway.
	open := p.running("n1", "echo ready; cat; echo > outlived")
	syscall.Kill(s.gatewayPID(), syscall.SIGKILL)
	died := time.Now()
	mustLogIn(t, m, k)
	if took := time.Since(died); took > 500*time.Millisecond {
		t.Logf("the new gateway took %s", took) // only logged, because the host may be busy
	}
	if got := open.ended(t); got != 255 {
		t.Errorf("status %d", got)
	}
	wait.Holds(t, func() bool { _, err := os.Stat(s.home("n1") + "/outlived"); return err == nil }, func() string { return "the command died" })
	// Changes during the absence are present afterwards.
	second := s.add("n2", Account{Login: "alice", Keys: []string{k.line}})
	for range 3 {
		syscall.Kill(s.gatewayPID(), syscall.SIGKILL)
		second.endpoint.Names = append(second.endpoint.Names, "again")
		if err := s.manager.SetEndpoint(second.endpoint, second.public, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.manager.VerifyLogin(verifyContext(t), "n2"); err != nil && !strings.Contains(err.Error(), "died") {
			t.Error(err)
		}
	}
	if err := s.manager.VerifyLogin(verifyContext(t), "n2"); err != nil {
		t.Error(err)
	}
	if text := s.log.String(); !strings.Contains(text, "the gateway died and is started again") || !strings.Contains(text, "killed") {
		t.Errorf("the log does not report it: %s", text)
	}
}

// A gateway that hangs is killed by the next change, and its successor has that change: a
// removed key opens nothing.
func TestHangingGatewayIsReplacedAtChange(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	s.manager.patience = 6 * time.Second // enough for the next one to start
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	stopProcess(t, s.gatewayPID())
	m.endpoint.Accounts[0].Keys = nil
	if err := s.manager.SetEndpoint(m.endpoint, m.public, nil); err != nil {
		t.Error(err)
	}
	select {
	case <-s.pids:
	case <-time.After(30 * time.Second):
		t.Fatal("it is still the same gateway")
	}
	if c, err := dial(m.public.Addr().String(), "alice", k, m.host); err == nil {
		c.Close()
		t.Error("the key that was withdrawn opens the endpoint")
	}
	s.add("n2", Account{Login: "alice", Keys: []string{k.line}})
	if err := s.manager.VerifyLogin(verifyContext(t), "n2"); err != nil {
		t.Error(err)
	}
	if text := s.log.String(); !strings.Contains(text, errSilent.Error()) {
		t.Errorf("the log does not report it: %s", text)
	}
}

// stopProcess stops a process and waits until all its threads have stopped: until
// then it may still answer.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait.Holds(t, func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(threads, func(stat string) bool {
			text, err := os.ReadFile(stat)
			return err == nil && !strings.Contains(string(text), ") T ")
		})
	}, func() string { return "it does not stop" })
}

// A gateway that hangs without a change is also noticed: it is killed and logged, and its
// successor accepts the same users.
func TestHangingGatewayIsNoticed(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	stopProcess(t, s.gatewayPID())
	s.gatewayPID()
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
		t.Error(err)
	}
	mustLogIn(t, m, k)
	if len(s.pids) > 0 {
		t.Error("the next gateway was replaced too")
	}
	if text := s.log.String(); !strings.Contains(text, "the gateway does not answer") {
		t.Errorf("the log does not report it: %s", text)
	}
}

func TestSessionsOutliveManager(t *testing.T) {
	t.Parallel()
	s, port, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	p := s.client(k)
	p.addKnownHost("n1", m.port, m.host, "\tUser alice")
	first, second := p.running("n1", talks), p.running("n1", talks)
	pid := s.gatewayPID()
	if err := s.manager.Close(); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{m.public.Addr().String(), fmt.Sprintf("127.0.0.1:%d", port)} {
		wait.Holds(t, func() bool {
			nc, err := net.Dial("tcp", address)
			if err == nil {
				nc.Close()
			}
			return err != nil
		}, func() string { return address + " is open" })
	}
	if !first.talks() || !second.talks() {
		t.Error("a session was ended")
	}
	first.in.Close()
	if got := first.ended(t); got != 5 {
		t.Errorf("status %d", got)
	}
	if !second.talks() {
		t.Error("a session was ended by another's end")
	}
	second.in.Close()
	if got := second.ended(t); got != 5 {
		t.Errorf("status %d", got)
	}
	wait.Holds(t, func() bool { return syscall.Kill(pid, 0) != nil }, func() string { return "the gateway does not end with its last session" })
	for name, err := range map[string]error{
		"SetEndpoint": s.manager.SetEndpoint(m.endpoint, nil, nil), "RemoveEndpoint": s.manager.RemoveEndpoint("n1"),
		"SetPeers": s.manager.SetPeers("slice", nil), "VerifyLogin": s.manager.VerifyLogin(verifyContext(t), "n1"),
	} {
		if err != ErrClosed {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

func TestFailedStart(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]string{"NoProgram": "/nonexistent", "EndsAtOnce": "/bin/true"} {
		t.Run(name, func(t *testing.T) {
			k, err := Start(t.Context(), Options{Program: program})
			if err == nil {
				k.end(true)
				t.Fatal("it started")
			}
		})
	}
}

func TestHundredLoginsAtOnce(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			c, err := dial(m.public.Addr().String(), "alice", k, m.host)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			session, err := c.NewSession()
			if err != nil {
				t.Error(err)
				return
			}
			if out, err := session.Output("echo here"); string(out) != "here\n" || err != nil {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	all.Wait()
	if text := s.log.String(); strings.Count(text, "msg=\"gateway: login\"") < maxLines/2 || !strings.Contains(text, "user=alice") ||
		strings.Contains(text, strings.Fields(k.line)[1]) {
		t.Errorf("the log: %s", text)
	}
}
