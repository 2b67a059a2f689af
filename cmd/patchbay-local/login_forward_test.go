package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// loginForwards forwards ports, sockets and agents.
func loginForwards(t *testing.T, s *loginSite) {
	alice := s.client(t, "alice", "a", "b")
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "outside %s", r.URL.Path)
	}))
	t.Cleanup(here.Close)
	outside := here.Listener.Addr().String()
	// Every node has a server: port 22 inside.
	t.Run("LocalPort", func(t *testing.T) {
		port := freePort(t)
		alice.startForwards(t, "-L", port+":localhost:22", "by-a")
		if wrong := checkGreeting("tcp", "127.0.0.1:"+port); wrong != "" {
			t.Error(wrong)
		}
	})
	t.Run("LocalPortToAPeer", func(t *testing.T) {
		port := freePort(t)
		wait.Clear(t, func() string {
			if alice.ssh("a", "getent hosts b").status != 0 {
				return "b is not known in a"
			}
			return ""
		})
		alice.startForwards(t, "-L", port+":b:22", "a")
		wait.Clear(t, func() string { return checkGreeting("tcp", "127.0.0.1:"+port) }) // names are remembered for 5 s
	})
	t.Run("HostIsNotReached", func(t *testing.T) { // the node has lo only, and the port is open on the host
		if r := alice.ssh("-W", outside, "a"); r.status != 255 || r.out != "" {
			t.Errorf("%+v", r)
		}
	})
	fetch := func(port string) string {
		return `exec 3<>/dev/tcp/127.0.0.1/` + port + `; printf 'GET /x HTTP/1.0\r\n\r\n' >&3; cat <&3`
	}
	t.Run("RemotePort", func(t *testing.T) {
		r := alice.ssh("-o", "ExitOnForwardFailure=yes", "-R", "18080:"+outside, "a", fetch("18080"))
		if r.status != 0 || !strings.HasSuffix(r.out, "outside /x") {
			t.Errorf("%+v", r)
		}
		if r := alice.ssh("a", fetch("18080")); r.status == 0 {
			t.Errorf("after the session: %+v", r)
		}
	})
	t.Run("RemotePortThatIsTaken", func(t *testing.T) {
		for _, port := range []string{"22", "18081", "80"} {
			second := []string{"-o", "ExitOnForwardFailure=yes", "-R", port + ":" + outside, "a", "true"}
			if port == "18081" {
				alice.startForwards(t, "-R", port+":"+outside, "a")
			}
			if r := alice.ssh(second...); r.status != 255 || !strings.Contains(r.err, "remote port forwarding failed") {
				t.Errorf("port %s: %+v", port, r)
			}
		}
	})
	t.Run("ManyAtOnce", func(t *testing.T) {
		port := freePort(t)
		alice.startForwards(t, "-L", port+":127.0.0.1:18084", "-R", "18084:"+outside, "a")
		errs := make(chan error)
		const n = 50
		for i := range n {
			go func() {
				r, err := http.Get("http://127.0.0.1:" + port + "/" + strconv.Itoa(i))
				if err == nil {
					defer r.Body.Close()
					var b []byte
					if b, err = io.ReadAll(r.Body); err == nil && string(b) != "outside /"+strconv.Itoa(i) {
						err = fmt.Errorf("%d: %q", i, b)
					}
				}
				errs <- err
			}()
		}
		for range n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Agent", func(t *testing.T) { loginAgent(t, s) })
}

// loginAgent takes an authentication agent along.
func loginAgent(t *testing.T, s *loginSite) {
	socket := filepath.Join(t.TempDir(), "agent")
	server := exec.Command(require.Tool(t, "ssh-agent"), "-D", "-a", socket)
	startProgram(t, server)
	alice := s.client(t, "alice", "a", "b")
	alice.env = []string{"SSH_AUTH_SOCK=" + socket}
	bob := s.client(t, "bob", "a")
	wait.Clear(t, func() string {
		add := alice.externalProgram(require.Tool(t, "ssh-add"), "-q", s.keyFile(t, "alice"))
		if r := finish(add, nil); r.status != 0 {
			return r.err
		}
		return ""
	})
	want := strings.Fields(publicKeyLine(t, "alice"))[1]
	t.Run("List", func(t *testing.T) {
		if r := alice.ssh("-A", "by-a", "ssh-add -l && ssh-add -L"); r.status != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SecondHop", func(t *testing.T) {
		const hop = "ssh -A -o BatchMode=yes -o IdentityFile=/dev/null "
		wait.Clear(t, func() string {
			r := alice.ssh("-A", "a", hop+"b '"+hop+"a ssh-add -L'")
			if r.status != 0 || !strings.Contains(r.out, want) {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		})
		if r := alice.ssh("-A", "a", hop+"bob@a true"); r.status != 255 { // it is alice's key
			t.Errorf("as bob: %+v", r)
		}
	})
	t.Run("OnlyForItsOwner", func(t *testing.T) {
		cmd := alice.command(t.Context(), "ssh", "-A", "a", "echo $SSH_AUTH_SOCK; sleep 600")
		path, err := bufio.NewReader(startProgram(t, cmd)).ReadString('\n')
		if path = strings.TrimSpace(path); err != nil || !strings.HasPrefix(path, "/tmp/") {
			t.Fatalf("%q, %v", path, err)
		}
		if r := bob.ssh("a", "SSH_AUTH_SOCK="+path+" ssh-add -l"); r.status != 2 || strings.Contains(r.out, "SHA256") {
			t.Errorf("%+v", r)
		}
		_ = cmd.Process.Kill()
		wait.Clear(t, func() string {
			if r := alice.ssh("a", "ls -d "+filepath.Dir(path)); r.status == 0 {
				return "its folder stays"
			}
			return ""
		})
	})
}

// startForwards keeps a connection with forwards until the test is over.
func (c *client) startForwards(t testing.TB, args ...string) {
	t.Helper()
	cmd := c.command(t.Context(), "ssh", append([]string{"-o", "ExitOnForwardFailure=yes"}, append(args, "echo forwarded; sleep 600")...)...)
	text := make([]byte, len("forwarded\n"))
	if _, err := io.ReadFull(startProgram(t, cmd), text); err != nil {
		t.Fatalf("ssh %q: %v", args, err)
	}
}

// startProgram starts a program that ends with the test, and is its output.
func startProgram(t testing.TB, cmd *exec.Cmd) io.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return out
}

// freePort is a port at which nobody listens, of those that the kernel gives to
// nobody who asks for any, nor a testbed to an endpoint.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(30000 + rand.IntN(2700))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// checkGreeting says what is wrong with the greeting of an SSH server.
func checkGreeting(network, address string) string {
	c, err := net.DialTimeout(network, address, clientTime)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(clientTime))
	text := make([]byte, 8)
	if n, err := io.ReadFull(c, text); err != nil || string(text) != "SSH-2.0-" {
		return fmt.Sprintf("the greeting is %q, %v", text[:n], err)
	}
	return ""
}
