package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

// agentDouble returns a connection to a simulated agent with the given behaviour.
func agentDouble(t testing.TB, answer func(c *fdsocket.Conn)) *fdsocket.Conn {
	t.Helper()
	c, f, err := fdsocket.Pair()
	check(t, err)
	other, err := fdsocket.FromFile(f)
	check(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer other.Close()
		answer(other)
	}()
	t.Cleanup(func() {
		c.Close()
		other.Close()
		<-done
	})
	return c
}

// answerWith reads the request, sends a and waits until it is read.
func answerWith(a answer, files ...*os.File) func(c *fdsocket.Conn) {
	return func(c *fdsocket.Conn) {
		var r request
		got, _ := c.Receive(&r, requestLimit, 3)
		closeAll(got)
		c.Send(a, files...)
		waitForClose(c)
	}
}

// newFile makes a file of a descriptor.
func newFile(t testing.TB, fd int, err error) *os.File {
	t.Helper()
	check(t, err)
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	return f
}

func unixSocket(t testing.TB, kind int) *os.File {
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	return newFile(t, fd, err)
}

// connectedSocket returns one end of a connected pair.
func connectedSocket(t testing.TB, kind int) *os.File {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	check(t, err)
	newFile(t, fds[1], nil)
	return newFile(t, fds[0], nil)
}

// tcpPair returns both ends of a TCP connection, and its listener.
func tcpPair(t testing.TB) (listener, one *os.File) {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	check(t, err)
	t.Cleanup(func() { c.Close() })
	listener, err = l.(*net.TCPListener).File()
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	one, err = c.(*net.TCPConn).File()
	check(t, err)
	t.Cleanup(func() { one.Close() })
	return listener, one
}

func listeningSocket(t testing.TB) *os.File {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/sock")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	f, err := l.(*net.UnixListener).File()
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func countDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}

func TestHostileAgentFilesAreRefused(t *testing.T) {
	regular, err := os.Create(t.TempDir() + "/file")
	check(t, err)
	defer regular.Close()
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	pipe, other, err := os.Pipe()
	check(t, err)
	defer pipe.Close()
	defer other.Close()
	listener, tcp := tcpPair(t)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	datagram := newFile(t, fd, err)
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	apart := newFile(t, fd, err)
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)
	netlink := newFile(t, fd, err)
	fd, err = unix.Open(t.TempDir(), unix.O_PATH, 0)
	path := newFile(t, fd, err)
	fd, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	master := newFile(t, fd, err)
	check(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	check(t, err)
	fd, err = unix.Open(fmt.Sprintf("/dev/pts/%d", number), unix.O_RDWR|unix.O_NOCTTY, 0)
	slave := newFile(t, fd, err)

	dial := func(network string) func(*fdsocket.Conn) error {
		return func(c *fdsocket.Conn) error {
			k, err := Dial(t.Context(), c, network, "x", "")
			if err == nil {
				k.Close()
			}
			return err
		}
	}
	listen := func(network string) func(*fdsocket.Conn) error {
		return func(c *fdsocket.Conn) error {
			l, err := Listen(t.Context(), c, network, "x", "")
			if err == nil {
				l.Close()
			}
			return err
		}
	}
	terminal := func(c *fdsocket.Conn) error {
		p, err := Exec(t.Context(), c, Command{Terminal: &Terminal{}}, nil)
		if err == nil {
			p.Close()
		}
		return err
	}
	for _, c := range []struct {
		rule  string
		call  func(*fdsocket.Conn) error
		files []*os.File
		right bool
	}{
		{"TCP", dial("tcp"), []*os.File{tcp}, true},
		{"TCPNone", dial("tcp"), nil, false},
		{"TCPTwo", dial("tcp"), []*os.File{tcp, tcp}, false},
		{"TCPFlood", dial("tcp"), []*os.File{tcp, tcp, tcp, tcp, tcp, tcp, tcp, tcp, tcp}, false},
		{"TCPListening", dial("tcp"), []*os.File{listener}, false},
		{"TCPNotConnected", dial("tcp"), []*os.File{apart}, false},
		{"TCPDatagram", dial("tcp"), []*os.File{datagram}, false},
		{"TCPUnix", dial("tcp"), []*os.File{connectedSocket(t, unix.SOCK_STREAM)}, false},
		{"TCPNetlink", dial("tcp"), []*os.File{netlink}, false},
		{"TCPRegularFile", dial("tcp"), []*os.File{regular}, false},
		{"TCPDevice", dial("tcp"), []*os.File{null}, false},
		{"TCPPipe", dial("tcp"), []*os.File{pipe}, false},
		{"TCPPathOnly", dial("tcp"), []*os.File{path}, false},
		{"Unix", dial("unix"), []*os.File{connectedSocket(t, unix.SOCK_STREAM)}, true},
		{"UnixNotConnected", dial("unix"), []*os.File{unixSocket(t, unix.SOCK_STREAM)}, false},
		{"UnixPackets", dial("unix"), []*os.File{connectedSocket(t, unix.SOCK_SEQPACKET)}, false},
		{"UnixDatagram", dial("unix"), []*os.File{connectedSocket(t, unix.SOCK_DGRAM)}, false},
		{"UnixTCP", dial("unix"), []*os.File{tcp}, false},
		{"UnixListening", dial("unix"), []*os.File{listeningSocket(t)}, false},
		{"ListenTCP", listen("tcp"), []*os.File{listener}, true},
		{"ListenTCPConnected", listen("tcp"), []*os.File{tcp}, false},
		{"ListenTCPNotListening", listen("tcp"), []*os.File{apart}, false},
		{"ListenTCPUnix", listen("tcp"), []*os.File{listeningSocket(t)}, false},
		{"ListenUnix", listen("unix"), []*os.File{listeningSocket(t)}, true},
		{"ListenUnixTCP", listen("unix"), []*os.File{listener}, false},
		{"ListenUnixNotListening", listen("unix"), []*os.File{unixSocket(t, unix.SOCK_STREAM)}, false},
		{"Terminal", terminal, []*os.File{master}, true},
		{"TerminalNone", terminal, nil, false},
		{"TerminalSlave", terminal, []*os.File{slave}, false},
		{"TerminalDevice", terminal, []*os.File{null}, false},
		{"TerminalRegularFile", terminal, []*os.File{regular}, false},
		{"TerminalSocket", terminal, []*os.File{tcp}, false},
		{"TerminalTwo", terminal, []*os.File{master, master}, false},
		{"CommandWithFile", func(c *fdsocket.Conn) error {
			p, err := Exec(t.Context(), c, Command{}, []*os.File{null, null, null})
			if err == nil {
				p.Close()
			}
			return err
		}, []*os.File{null}, false},
		{"HelloWithFile", func(c *fdsocket.Conn) error { _, err := Ping(t.Context(), c); return err }, []*os.File{null}, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before := countDescriptors(t)
			func() {
				conn, f, err := fdsocket.Pair()
				check(t, err)
				other, err := fdsocket.FromFile(f)
				check(t, err)
				defer other.Close()
				done := make(chan struct{})
				go func() { defer close(done); answerWith(answer{}, c.files...)(other) }()
				err = c.call(conn)
				conn.Close()
				<-done
				if (err == nil) != c.right {
					t.Errorf("right: %v, error: %v", c.right, err)
				}
			}()
			if after := countDescriptors(t); after != before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

// Waiting for a blocking file would take a thread for each.
func TestReceivedFilesAreNonBlocking(t *testing.T) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	master := newFile(t, fd, err)
	p, err := Exec(t.Context(), agentDouble(t, answerWith(answer{}, master)), Command{Terminal: &Terminal{}}, nil)
	check(t, err)
	defer p.Close()
	if err := p.Terminal.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Terminal.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	k, err := Dial(t.Context(), agentDouble(t, answerWith(answer{}, connectedSocket(t, unix.SOCK_STREAM))), "unix", "/x", "")
	check(t, err)
	defer k.Close()
	check(t, k.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	if _, err := k.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestHostileAgentAnswers(t *testing.T) {
	hello := func(ctx context.Context, c *fdsocket.Conn) error { _, err := Ping(ctx, c); return err }
	for _, c := range []struct {
		rule   string
		answer func(c *fdsocket.Conn)
		time   time.Duration
		want   string
	}{
		{"Nothing", func(c *fdsocket.Conn) { waitForClose(c) }, 50 * time.Millisecond, "deadline exceeded"},
		{"End", func(c *fdsocket.Conn) { var r request; c.Receive(&r, requestLimit, 0) }, time.Minute, "EOF"},
		{"ErrorIsCleaned", answerWith(answer{Error: "bad\x1b[2J\nnews\u202e" + strings.Repeat("x", 1000)}), time.Minute, "bad?[2J?news?xx"},
		{"TooBig", answerWith(answer{Node: strings.Repeat("x", answerLimit)}), time.Minute, "too big"},
		{"NoExit", func(c *fdsocket.Conn) { c.Send(1) }, time.Minute, "cannot be read"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			err := hello(withTimeout(t, c.time), agentDouble(t, c.answer))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2*textLimit {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("CancelEndsIt", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if err := WaitForEnd(ctx, agentDouble(t, waitForClose)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("HoldAnswered", func(t *testing.T) {
		if err := WaitForEnd(t.Context(), agentDouble(t, answerWith(answer{Node: "x"}))); err == nil {
			t.Error("held")
		}
	})
	t.Run("HoldEnds", func(t *testing.T) {
		if err := WaitForEnd(t.Context(), agentDouble(t, func(c *fdsocket.Conn) {})); err != nil {
			t.Error(err)
		}
	})
	t.Run("ProblemsAreBounded", func(t *testing.T) {
		many := make([]string, 1000)
		many[0] = "a\nb"
		facts, err := Configure(t.Context(), agentDouble(t, answerWith(answer{Facts: &Facts{Problems: many}})), Configuration{})
		if err != nil || len(facts.Problems) != maxProblems || facts.Problems[0] != "a?b" {
			t.Error(len(facts.Problems), err)
		}
	})
	t.Run("NoFacts", func(t *testing.T) {
		if _, err := Configure(t.Context(), agentDouble(t, answerWith(answer{})), Configuration{}); err == nil {
			t.Error("configured")
		}
	})
	t.Run("WaitWithoutEnd", func(t *testing.T) {
		null, err := os.Open(os.DevNull)
		check(t, err)
		defer null.Close()
		p, err := Exec(t.Context(), agentDouble(t, func(c *fdsocket.Conn) {
			var r request
			got, _ := c.Receive(&r, requestLimit, 3)
			closeAll(got)
			c.Send(answer{})
			c.Send(answer{})
		}), Command{}, []*os.File{null, null, null})
		check(t, err)
		if _, err := p.Wait(); err == nil {
			t.Error("ended")
		}
		p.Close()
		if _, err := p.Wait(); err == nil {
			t.Error("ended after Close")
		}
	})
}

// The agent's side: invalid requests from the host.
func TestWrongRequests(t *testing.T) {
	n := newNode(t)
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	for _, c := range []struct {
		rule  string
		r     any
		files []*os.File
		want  string
	}{
		{"UnknownOperation", request{Op: "boot"}, nil, "unknown operation"},
		{"NoRequest", 1, nil, "cannot be read"},
		{"FilesWithoutNeed", request{Op: opPing}, []*os.File{null}, "takes no files"},
		{"TooManyFiles", request{Op: opExec}, []*os.File{null, null, null, null, null}, "more than 3 files"},
		{"NoCommand", request{Op: opExec}, nil, "needs a command"},
		{"TwoFiles", request{Op: opExec, Command: &Command{User: "bob", Line: "true"}}, []*os.File{null, null}, "needs 3 files, not 2"},
		{"NoConfiguration", request{Op: opConfigure}, nil, "needs a configuration"},
		{"DialNowhere", request{Op: opDial}, nil, "neither tcp nor unix"},
		{"ListenNowhere", request{Op: opListen, Network: "udp"}, nil, "neither tcp nor unix"},
		{"SignalFirst", request{Op: opSignal, Signal: 9}, nil, "unknown operation"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			conn := n.dial()
			defer conn.Close()
			check(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			check(t, conn.Send(c.r, c.files...))
			if _, _, err := receive(conn, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if id, err := Ping(t.Context(), n.dial()); err != nil || id.Node != "node-1" {
		t.Error(id, err)
	}
}

func TestTooManyOperationsAreRefused(t *testing.T) {
	n := newNode(t)
	var held []*fdsocket.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for len(held) < maxOperations {
		c := n.dial()
		held = append(held, c)
		check(t, c.Send(request{Op: opWait}))
	}
	wait.Until(t, "a refusal", func() bool {
		_, err := Ping(t.Context(), n.dial())
		return err != nil && strings.Contains(err.Error(), "maximum of 512 operations")
	})
	for _, c := range held {
		c.Close()
	}
	wait.Until(t, "room", func() bool {
		_, err := Ping(t.Context(), n.dial())
		return err == nil
	})
}
