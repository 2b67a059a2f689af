package gateway

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	sshagent "golang.org/x/crypto/ssh/agent"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

// echo answers each connection, once its input ends, with the input in capitals.
func echo(t testing.TB, l net.Listener) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				b, _ := io.ReadAll(nc) // needs the half close
				io.WriteString(nc, strings.ToUpper(string(b)))
			}()
		}
	}()
}

// exchangeText sends text to an address and returns the answer.
func exchangeText(network, address, text string) (string, error) {
	nc, err := net.Dial(network, address)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	return answerOf(nc, text)
}

func answerOf(nc net.Conn, text string) (string, error) {
	if _, err := io.WriteString(nc, text); err != nil {
		return "", err
	}
	nc.(interface{ CloseWrite() error }).CloseWrite()
	b, err := io.ReadAll(nc)
	return string(b), err
}

// master starts a connection that other commands control.
func (c *client) master(args ...string) (control []string) {
	c.t.Helper()
	socket := filepath.Join(c.dir, "m")
	cmd := c.command(c.t.Context(), "ssh", append([]string{"-M", "-S", socket, "-N", "-o", "ExitOnForwardFailure=yes"}, args...)...)
	errs, err := os.Create(filepath.Join(c.dir, "master.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		errs.Close()
	})
	control = []string{"-S", socket, "-O"}
	wait.Holds(c.t, func() bool {
		return c.run("ssh", append(control, "check", "node")...).status == 0
	}, func() string {
		b, _ := os.ReadFile(errs.Name())
		return "the master does not start: " + string(b)
	})
	return control
}

// freePort returns a free port outside of the kernel's range of ephemeral ports.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 30000 + rand.IntN(2700)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func TestForwardingToTheNode(t *testing.T) {
	t.Parallel()
	s, _, p := newSiteWithClient(t)
	there := listen(t)
	echo(t, there)
	path := filepath.Join(s.home("n1"), "socket")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, unix)
	tcp, stream, socks, dead := freePort(t), freePort(t), freePort(t), freePort(t)
	p.master("-L", fmt.Sprintf("%d:127.0.0.1:%d", tcp, portOf(there)), "-L", fmt.Sprintf("%d:%s", stream, path),
		"-L", fmt.Sprintf("%d:127.0.0.1:%d", dead, freePort(t)), "-D", fmt.Sprint(socks), "node")
	for name, port := range map[string]int{"L": tcp, "LtoUnix": stream} {
		t.Run(name, func(t *testing.T) {
			wait.Holds(t, func() bool {
				got, _ := exchangeText("tcp", fmt.Sprintf("127.0.0.1:%d", port), "hello")
				return got == "HELLO"
			}, func() string { return "nothing comes back" })
		})
	}
	t.Run("NothingListens", func(t *testing.T) {
		if got, err := exchangeText("tcp", fmt.Sprintf("127.0.0.1:%d", dead), "hello"); got != "" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("D", func(t *testing.T) {
		nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", socks))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		port := portOf(there)
		nc.Write([]byte{5, 1, 0})
		nc.Write([]byte{5, 1, 0, 1, 127, 0, 0, 1, byte(port >> 8), byte(port)})
		if _, err := io.ReadFull(nc, make([]byte, 12)); err != nil {
			t.Fatal(err)
		}
		if got, err := answerOf(nc, "hello"); got != "HELLO" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestForwardingFromTheNode(t *testing.T) {
	t.Parallel()
	s, _, p := newSiteWithClient(t)
	here := listen(t)
	echo(t, here)
	fixed := freePort(t)
	path := filepath.Join(s.home("n1"), "socket")
	control := p.master("-R", fmt.Sprintf("%d:127.0.0.1:%d", fixed, portOf(here)), "-R", fmt.Sprintf("%s:127.0.0.1:%d", path, portOf(here)), "node")
	says := func(network, address string) string {
		got, err := exchangeText(network, address, "hello")
		if err != nil {
			return err.Error()
		}
		return got
	}
	at := fmt.Sprintf("127.0.0.1:%d", fixed)
	// The client accepts control commands before the node listens.
	for network, address := range map[string]string{"tcp": at, "unix": path} {
		wait.Holds(t, func() bool { return says(network, address) == "HELLO" }, func() string {
			return network + " " + address + ": " + says(network, address)
		})
	}
	forward := fmt.Sprintf("0:127.0.0.1:%d", portOf(here))
	r := p.run("ssh", append(control, "forward", "-R", forward, "node")...)
	chosen := strings.TrimSpace(r.out)
	if got := says("tcp", "127.0.0.1:"+chosen); got != "HELLO" {
		t.Errorf("-R 0 at %q: %q, %+v", chosen, got, r)
	}
	for _, c := range []struct{ spec, at string }{
		{fmt.Sprintf("%d:127.0.0.1:%d", fixed, portOf(here)), at},
		{forward, "127.0.0.1:" + chosen},
	} {
		if r := p.run("ssh", append(control, "cancel", "-R", c.spec, "node")...); r.status != 0 {
			t.Errorf("cancel %s: %+v", c.spec, r)
		}
		wait.Holds(t, func() bool { _, err := exchangeText("tcp", c.at, ""); return err != nil }, func() string { return c.at + " still listens" })
	}
	p.run("ssh", append(control, "exit", "node")...)
	wait.Holds(t, func() bool { _, err := exchangeText("unix", path, ""); return err != nil }, func() string { return "the Unix socket still listens" })
}

func TestAgentForwarding(t *testing.T) {
	t.Parallel()
	_, _, p := newSiteWithClient(t)
	require.Tool(t, "ssh-add")
	ring := sshagent.NewKeyring()
	k := newKey(t)
	private, err := sshKey(k)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Add(sshagent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.dir, "a")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() { sshagent.ServeAgent(ring, nc); nc.Close() }()
		}
	}()
	p.agent = path
	r := p.run("ssh", "-A", "node", "echo $SSH_AUTH_SOCK; ssh-add -L")
	lines := bufio.NewScanner(strings.NewReader(r.out))
	lines.Scan()
	socket := lines.Text()
	lines.Scan()
	if !strings.HasPrefix(lines.Text(), k.line) {
		t.Errorf("%+v", r)
	}
	wait.Holds(t, func() bool { _, err := os.Stat(filepath.Dir(socket)); return os.IsNotExist(err) }, func() string { return socket + " was left behind" })
	if r := p.run("ssh", "-a", "node", "echo =$SSH_AUTH_SOCK="); r.out != "==\n" {
		t.Errorf("without -A: %+v", r)
	}
}

// A cancelled listener leaves nothing in its connection.
func TestCancelledForwardsLeaveNothing(t *testing.T) {
	_, m, alice, stop := startInProcess(t)
	defer stop()
	nc, err := net.Dial("tcp", m.public.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := handshake(nc, "alice", []ssh.Signer{m.host.signer}, alice.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	forward := func(n int) {
		for range n {
			l, err := c.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	}
	forward(1)
	before := runtime.NumGoroutine()
	forward(30)
	wait.Holds(t, func() bool { return runtime.NumGoroutine() <= before+5 }, func() string {
		return fmt.Sprintf("%d goroutines, before %d", runtime.NumGoroutine(), before)
	})
}

// A node that listens slowly delays a connection once, not for each request.
func TestSlowListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs, err := fdsocket.Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		defer theirs.Close()
		c := &login{g: &gateway{manager: &sender{c: ours}}, node: "n1"}
		defer c.g.requests.close()
		f := forwards{left: listenTime}
		start := time.Now()
		for range 50 {
			if _, err := f.listen(c, "tcp", "127.0.0.1:0"); err == nil {
				t.Fatal("it listens without an answer of the node")
			}
		}
		if took := time.Since(start); took > listenTime+50*quickTime {
			t.Errorf("50 requests took %s", took)
		}
	})
}
