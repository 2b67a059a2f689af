package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

func (n *node) listen(network, address, owner string) net.Listener {
	n.t.Helper()
	l, err := Listen(n.t.Context(), n.dial(), network, address, owner)
	check(n.t, err)
	n.t.Cleanup(func() { l.Close() })
	return l
}

func (n *node) connect(network, address, user string) (net.Conn, error) {
	n.t.Helper()
	c, err := Dial(n.t.Context(), n.dial(), network, address, user)
	if err == nil {
		n.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// checkConnected fails unless l accepts the connection whose other end is c, and returns the
// accepted end.
func checkConnected(t testing.TB, l net.Listener, c net.Conn) net.Conn {
	t.Helper()
	type deadline interface{ SetDeadline(time.Time) error }
	check(t, l.(deadline).SetDeadline(time.Now().Add(30*time.Second)))
	other, err := l.Accept()
	check(t, err)
	t.Cleanup(func() { other.Close() })
	check(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	fmt.Fprint(other, "hello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	return other
}

func TestListenAndDial(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ rule, network, address, owner string }{
		{"TCP", "tcp", "127.0.0.1:4000", "bob"},
		{"TCPLocalhost", "tcp", "localhost:4001", "bob"},
		{"TCPIPv6", "tcp", "[::1]:4002", "bob"},
		{"TCPLoginPort", "tcp", "0.0.0.0:22", ""},
		{"TCPAnyAddress", "tcp", ":4003", "bob"},
		{"Unix", "unix", "/tmp/folder/of/sock", "bob"},
		{"UnixInHome", "unix", "/home/bob/sock", "bob"},
		{"UnixGeni", "unix", GeniSocket, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			n := &node{t: t, path: n.path}
			l := n.listen(c.network, c.address, c.owner)
			k, err := n.connect(c.network, strings.Replace(c.address, "0.0.0.0", "127.0.0.2", 1), "bob")
			check(t, err)
			checkConnected(t, l, k)
		})
	}
	t.Run("PortChosenByTheKernel", func(t *testing.T) {
		n := &node{t: t, path: n.path}
		l := n.listen("tcp", "127.0.0.1:0", "bob")
		k, err := n.connect("tcp", l.Addr().String(), "bob")
		check(t, err)
		checkConnected(t, l, k)
	})
}

func TestUnixSocketsUseTheRightsOfTheAccount(t *testing.T) {
	n := newNode(t)
	mode := func(path string) string { return n.line("root", "stat -c '%U %a' "+path) }
	l := n.listen("unix", "/tmp/ssh-abc/agent.1", "bob")
	if got := mode("/tmp/ssh-abc/agent.1"); got != "bob 600" {
		t.Errorf("socket: %s", got)
	}
	if got := mode("/tmp/ssh-abc"); got != "bob 700" {
		t.Errorf("folder: %s", got)
	}
	if c, err := n.connect("unix", "/tmp/ssh-abc/agent.1", "sh"); err == nil {
		t.Error("another account connects")
		c.Close()
	}
	c, err := n.connect("unix", "/tmp/ssh-abc/agent.1", "bob")
	check(t, err)
	raw, err := checkConnected(t, l, c).(*net.UnixConn).SyscallConn()
	check(t, err)
	check(t, raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || cred.Uid != firstID+1001 || cred.Gid != firstID+1001 {
			t.Errorf("the peer is %+v, %v, not bob", cred, err)
		}
	}))
	n.listen("unix", GeniSocket, "")
	if got := mode(GeniSocket); got != "root 666" {
		t.Errorf("geni: %s", got)
	}
	n.line("root", "ln -s /run/patchbay /tmp/run; ln -s /root /tmp/root; mkdir -m 777 /tmp/foreign; ln -s /home/bob /tmp/foreign/bob")
	n.line("bob", "touch /home/bob/file; ln -s /home/bob/file /home/bob/link")
	n.listen("unix", "/run/roots", "")
	for _, c := range []struct{ rule, path, want string }{
		{"NoFolderMadeElsewhere", "/home/bob/none/sock", "no such file"},
		{"NotInRootsFolder", "/run/sock", "permission denied"},
		{"NotThroughALink", "/tmp/root/sock", "is not a folder of bob"},
		{"NotInAnothersFolder", "/tmp/foreign/sock", "is not a folder of bob"},
		{"NotThroughALinkOfAnother", "/tmp/foreign/bob/sock", "is not a folder of bob"},
		{"NoFileIsReplaced", "/home/bob/file", "not a socket"},
		{"NoLinkIsReplaced", "/home/bob/link", "not a socket"},
		{"RootsSocketStays", "/run/roots", "permission denied"},
		{"NotRelative", "sock", "not a path of a Unix socket"},
		{"NotAbstract", "@sock", "not a path of a Unix socket"},
		{"NotAbstractByZero", "\x00sock", "not a path of a Unix socket"},
		{"NotTooLong", "/tmp/" + strings.Repeat("x", 107), "not a path of a Unix socket"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if l, err := Listen(t.Context(), n.dial(), "unix", c.path, "bob"); err == nil {
				l.Close()
				t.Error("listens")
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("SocketIsReplaced", func(t *testing.T) {
		n := &node{t: t, path: n.path}
		l := n.listen("unix", "/tmp/ssh-abc/agent.1", "bob")
		c, err := n.connect("unix", "/tmp/ssh-abc/agent.1", "bob")
		check(t, err)
		checkConnected(t, l, c)
	})
}

func TestPorts(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ rule, address, owner, want string }{
		{"LowOnlyForRoot", "127.0.0.1:80", "bob", "only root"},
		{"LowForRoot", "127.0.0.1:80", "root", ""},
		{"NoName", "example.org:4000", "bob", "not an address"},
		{"NoPort", "127.0.0.1", "bob", "missing port"},
		{"NoNumber", "127.0.0.1:http", "bob", "not a port number"},
		{"NoAccount", "127.0.0.1:4000", "nobody-here", "no account"},
		{"NotOfThisNode", "192.0.2.1:4000", "bob", "cannot assign"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l, err := Listen(t.Context(), n.dial(), "tcp", c.address, c.owner)
			switch {
			case err == nil && c.want != "":
				t.Error("listens")
			case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
			if err == nil {
				l.Close()
			}
		})
	}
	if _, err := n.connect("tcp", "127.0.0.1:1", "bob"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	if _, err := n.connect("tcp", "127.0.0.1:1", "nobody-here"); err == nil {
		t.Error("connected as an unknown user")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, n.dial(), "udp", "127.0.0.1:1", "bob"); err == nil {
		t.Error("udp")
	}
}

// A repeated call gets the listener with its pending connections.
func TestSavedListeners(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ network, address, dial string }{
		{"tcp", "0.0.0.0:22", "127.64.3.4:22"},
		{"unix", GeniSocket, GeniSocket},
	} {
		t.Run(c.network, func(t *testing.T) {
			n := &node{t: t, path: n.path}
			n.listen(c.network, c.address, "").Close()
			k, err := n.connect(c.network, c.dial, "bob")
			check(t, err)
			checkConnected(t, n.listen(c.network, c.address, ""), k)
			if l, err := Listen(t.Context(), n.dial(), c.network, c.address, "bob"); err == nil {
				l.Close()
				t.Error("an account that is not root has root's listener")
			}
		})
	}
	t.Run("SocketThatRootRemoved", func(t *testing.T) {
		m := &node{t: t, path: n.path}
		m.line("root", "rm "+GeniSocket)
		l := m.listen("unix", GeniSocket, "")
		k, err := m.connect("unix", GeniSocket, "bob")
		check(t, err)
		checkConnected(t, l, k)
	})
	t.Run("OthersAreNot", func(t *testing.T) {
		m := &node{t: t, path: n.path}
		m.listen("tcp", "127.0.0.1:4000", "bob").Close()
		wait.Until(t, "the port", func() bool {
			_, err := m.connect("tcp", "127.0.0.1:4000", "bob")
			return err != nil && strings.Contains(err.Error(), "refused")
		})
	})
}

// TestNodesDoNotReachTheirOwnAgent makes the agent's socket visible in the node, writable for
// every user.
func TestNodesDoNotReachTheirOwnAgent(t *testing.T) {
	n := newNode(t)
	check(t, os.Chmod(n.path, 0o666))
	inside := filepath.Join(n.root, "tmp", "agent.sock")
	check(t, os.Link(n.path, inside))
	for _, user := range []string{"", "bob"} {
		c, err := n.connect("unix", "/tmp/agent.sock", user)
		check(t, err) // the kernel allows it
		check(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		if who, err := Ping(t.Context(), fdsocket.New(c.(*net.UnixConn))); err == nil {
			t.Errorf("%q inside got %+v", user, who)
		}
	}
	_, err := Ping(t.Context(), n.dial())
	check(t, err)
}
