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
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/need"
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
	for _, way := range []string{"a", "by-a"} {
		t.Run("LocalPort_"+way, func(t *testing.T) {
			port := freePort(t)
			alice.holds(t, "-L", port+":localhost:22", way)
			greets(t, "tcp", "127.0.0.1:"+port)
		})
	}
	t.Run("LocalSocket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "socket")
		alice.holds(t, "-L", path+":127.0.0.1:22", "a")
		greets(t, "unix", path)
	})
	t.Run("LocalPortToASocketOfTheNode", func(t *testing.T) {
		port := freePort(t)
		server := alice.command(t.Context(), "ssh", "-tt", "a", `perl -MIO::Socket::UNIX -e '$l = IO::Socket::UNIX->new(Local => "$ENV{HOME}/socket", Listen => 1) or die; print "ready\n"; $| = 1; while ($c = $l->accept) { print $c "SSH-2.0-from a socket\r\n" }'`)
		out := starts(t, server)
		if text, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(text, "ready") {
			t.Fatalf("%q, %v", text, err)
		}
		alice.holds(t, "-L", port+":/home/alice/socket", "a")
		greets(t, "tcp", "127.0.0.1:"+port)
	})
	t.Run("LocalPortToAPeer", func(t *testing.T) {
		port := freePort(t)
		wait.Clear(t, func() string {
			if alice.ssh("a", "getent hosts b").status != 0 {
				return "b is not known in a"
			}
			return ""
		})
		alice.holds(t, "-L", port+":b:22", "a")
		wait.Clear(t, func() string { return greeting("tcp", "127.0.0.1:"+port) }) // names are remembered for 5 s
	})
	t.Run("StandardInputAndOutput", func(t *testing.T) {
		if r := alice.with(strings.NewReader(""), "ssh", "-W", "127.0.0.1:22", "a"); !strings.HasPrefix(r.out, "SSH-2.0-") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("NothingListens", func(t *testing.T) {
		if r := alice.ssh("-W", "127.0.0.1:9", "a"); r.status != 255 || r.out != "" {
			t.Errorf("%+v", r)
		}
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
	t.Run("RemotePortOfAnyNumber", func(t *testing.T) {
		cmd := alice.command(t.Context(), "ssh", "-v", "-N", "-R", "0:"+outside, "by-a")
		complaint, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		starts(t, cmd)
		port := ""
		for lines := bufio.NewScanner(complaint); port == "" && lines.Scan(); {
			if m := regexp.MustCompile(`Allocated port (\d+) for remote forward`).FindStringSubmatch(lines.Text()); m != nil {
				port = m[1]
			}
		}
		go func() { _, _ = io.Copy(io.Discard, complaint) }()
		if r := alice.ssh("a", fetch(port)); r.status != 0 || !strings.HasSuffix(r.out, "outside /x") {
			t.Errorf("port %q: %+v", port, r)
		}
		_ = cmd.Process.Kill()
		wait.Clear(t, func() string {
			if r := alice.ssh("a", fetch(port)); r.status == 0 {
				return "the port is open after its session"
			}
			return ""
		})
	})
	t.Run("RemotePortThatIsTaken", func(t *testing.T) {
		for _, port := range []string{"22", "18081", "80"} {
			second := []string{"-o", "ExitOnForwardFailure=yes", "-R", port + ":" + outside, "a", "true"}
			if port == "18081" {
				alice.holds(t, "-R", port+":"+outside, "a")
			}
			if r := alice.ssh(second...); r.status != 255 || !strings.Contains(r.err, "remote port forwarding failed") {
				t.Errorf("port %s: %+v", port, r)
			}
		}
	})
	t.Run("RemoteSocket", func(t *testing.T) {
		r := alice.ssh("-o", "ExitOnForwardFailure=yes", "-R", "/home/alice/remote:"+outside, "a",
			`perl -MIO::Socket::UNIX -e '$c = IO::Socket::UNIX->new(Peer => "/home/alice/remote") or die; print $c "GET /y HTTP/1.0\r\n\r\n"; print <$c>'; stat -c "%U %a" remote`)
		if r.status != 0 || !strings.Contains(r.out, "outside /y") || !strings.HasSuffix(r.out, "alice 600\n") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("RemoteDynamic", func(t *testing.T) { // -R without a target: a SOCKS server in the node
		r := alice.ssh("-o", "ExitOnForwardFailure=yes", "-R", "18082", "a", "curl -sS --max-time 10 --socks5 127.0.0.1:18082 http://"+outside+"/z || echo no curl $?")
		if r.out != "outside /z" && r.out != "no curl 127\n" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("Dynamic", func(t *testing.T) {
		curl, port := need.Tool(t, "curl"), freePort(t)
		// Through the node and back: what answers in it is forwarded, too.
		alice.holds(t, "-R", "18083:"+outside, "-D", port, "a")
		for _, scheme := range []string{"--socks5", "--socks5-hostname", "--socks4", "--socks4a"} {
			out, err := exec.Command(curl, "-sS", "--noproxy", "", "--max-time", "10", scheme, "127.0.0.1:"+port, "http://localhost:18083/"+scheme).CombinedOutput()
			if err != nil || string(out) != "outside /"+scheme {
				t.Errorf("%s: %v, %s", scheme, err, out)
			}
		}
	})
	t.Run("ManyAtOnce", func(t *testing.T) {
		port := freePort(t)
		alice.holds(t, "-L", port+":127.0.0.1:18084", "-R", "18084:"+outside, "a")
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
	server := exec.Command(need.Tool(t, "ssh-agent"), "-D", "-a", socket)
	starts(t, server)
	alice := s.client(t, "alice", "a", "b")
	alice.env = []string{"SSH_AUTH_SOCK=" + socket}
	bob := s.client(t, "bob", "a")
	wait.Clear(t, func() string {
		add := alice.foreign(need.Tool(t, "ssh-add"), "-q", s.keyFile(t, "alice"))
		if r := finish(add, nil); r.status != 0 {
			return r.err
		}
		return ""
	})
	want := strings.Fields(line(t, "alice"))[1]
	for _, way := range []string{"a", "by-a"} {
		t.Run("List_"+way, func(t *testing.T) {
			if r := alice.ssh("-A", way, "ssh-add -l && ssh-add -L"); r.status != 0 || !strings.Contains(r.out, want) {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Run("NotUnasked", func(t *testing.T) {
		alice.ssh("-a", "a", "echo $SSH_AUTH_SOCK").says(t, "\n")
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
		path, err := bufio.NewReader(starts(t, cmd)).ReadString('\n')
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

// holds keeps a connection with forwards until the test is over.
func (c *client) holds(t testing.TB, args ...string) {
	t.Helper()
	cmd := c.command(t.Context(), "ssh", append([]string{"-o", "ExitOnForwardFailure=yes"}, append(args, "echo forwarded; sleep 600")...)...)
	text := make([]byte, len("forwarded\n"))
	if _, err := io.ReadFull(starts(t, cmd), text); err != nil {
		t.Fatalf("ssh %q: %v", args, err)
	}
}

// starts starts a program that ends with the test, and is its output.
func starts(t testing.TB, cmd *exec.Cmd) io.Reader {
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
// nobody who asks for any, nor a testbed to a door.
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

// greets demands that an SSH server answers there.
func greets(t testing.TB, network, address string) {
	t.Helper()
	if wrong := greeting(network, address); wrong != "" {
		t.Error(wrong)
	}
}

// greeting says what is wrong with the greeting of an SSH server.
func greeting(network, address string) string {
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
