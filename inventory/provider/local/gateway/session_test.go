package gateway

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/node/agent"
)

// newSiteWithClient returns a site with one node and one client that may log in as
// "alice" at "node".
func newSiteWithClient(t testing.TB) (*site, *testNode, *client) {
	t.Helper()
	s, _, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{k.line}})
	p := s.client(k)
	p.addKnownHost("node", m.port, m.host, "\tUser alice")
	return s, m, p
}

// terminalProgram is a program at a terminal.
type terminalProgram struct {
	t      testing.TB
	master *os.File
	cmd    *exec.Cmd

	mu   sync.Mutex
	said bytes.Buffer
}

// startAt runs ssh at its own terminal.
func (c *client) startAt(rows, cols uint16, args ...string) *terminalProgram {
	c.t.Helper()
	master, slave, err := openTerminal(&agent.Terminal{Rows: rows, Cols: cols})
	if err != nil {
		c.t.Fatal(err)
	}
	p := &terminalProgram{t: c.t, master: master, cmd: c.command(c.t.Context(), "ssh", args...)}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm-256color", "LANG=C.UTF-8", "LC_TEST=given")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	slave.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			p.mu.Lock()
			p.said.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	c.t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		master.Close()
		<-done
	})
	return p
}

func (p *terminalProgram) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *terminalProgram) write(text string) {
	p.t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// until waits until the output contains text.
func (p *terminalProgram) until(text string) {
	p.t.Helper()
	wait.Holds(p.t, func() bool { return strings.Contains(p.text(), text) }, func() string {
		return fmt.Sprintf("%q was not said, but %q", text, p.text())
	})
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	_, _, p := newSiteWithClient(t)
	s := p.startAt(31, 97, "-o", "SendEnv=LANG LC_* PATH_TO_EVIL", "node")
	s.write("PS1='> '; stty -echo\n")
	s.until("> ")
	for _, c := range []struct{ name, command, want string }{
		{"InitialSize", "stty size", "\n31 97\r\n"},
		{"Term", "echo =$TERM=", "=xterm-256color="},
		{"Locale", "echo =$LANG=$LC_TEST=", "=C.UTF-8=given="},
		{"ItIsATerminal", "tty", "\n/dev/pts/"},
		{"Connection", "echo ${SSH_CONNECTION}", "127.0.0.1 "},
	} {
		s.write("echo; " + c.command + "\n")
		s.until(c.want)
	}
	t.Run("Resize", func(t *testing.T) {
		if err := withDescriptor(s.master, func(fd int) error {
			return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 34})
		}); err != nil {
			t.Fatal(err)
		}
		wait.Holds(t, func() bool {
			s.write("stty size\n")
			return strings.Contains(s.text(), "12 34\r\n")
		}, s.text)
	})
	t.Run("Interrupt", func(t *testing.T) {
		s.write("echo; echo reading; cat\n")
		s.until("\nreading\r\n")
		wait.Holds(t, func() bool {
			s.write("\x03")
			s.write("echo after=$?=\n")
			return strings.Contains(s.text(), "after=130=")
		}, s.text)
	})
	s.write("exit 9\n")
	s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != 9 {
		t.Errorf("status %d", got)
	}
}

// The agent gets the client's terminal modes and sets them before the command runs.
func TestTerminalModes(t *testing.T) {
	t.Parallel()
	_, _, p := newSiteWithClient(t)
	const xoff = "2800000001" // the opcode 40 and 1
	for _, on := range []bool{true, false} {
		// The client sends the modes of its own terminal.
		master, slave, err := openTerminal(&agent.Terminal{Rows: 24, Cols: 80})
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		if err := withDescriptor(slave, func(fd int) error {
			modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
			if err == nil && on {
				modes.Iflag |= unix.IXOFF
				err = unix.IoctlSetTermios(fd, unix.TCSETS, modes)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		cmd := p.command(t.Context(), "ssh", "-tt", "node", "echo $DOUBLE_MODES")
		cmd.Stdin = slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		out, err := cmd.Output()
		if err != nil || strings.Contains(string(out), xoff) != on {
			t.Errorf("on %t: %s, %v", on, out, err)
		}
	}
}

// When a client vanishes, its terminal hangs up; a command without a terminal reads the
// end of its input.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	s, _, p := newSiteWithClient(t)
	file := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(s.home("n1"), name)); return err == nil }
	}
	t.Run("Terminal", func(t *testing.T) {
		s := p.startAt(24, 80, "-t", "node", "trap 'echo > hung; exit' HUP; echo ready; while :; do sleep 0.05; done")
		s.until("ready")
		s.cmd.Process.Kill()
		wait.Holds(t, file("hung"), func() string { return "no SIGHUP came" })
	})
	t.Run("Pipes", func(t *testing.T) {
		cmd := p.command(t.Context(), "ssh", "node", "echo ready; cat; echo > closed")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		wait.Holds(t, file("closed"), func() string { return "the input was not closed" })
	})
}

// Background processes of a shell do not keep its session open.
func TestTerminalEndsWithItsShell(t *testing.T) {
	t.Parallel()
	_, _, p := newSiteWithClient(t)
	start := time.Now()
	r := p.run("ssh", "-tt", "node", "(trap '' HUP; exec sleep 60) & setsid sleep 60 & sleep 0.1; echo end; exit 6")
	if r.status != 6 || r.out != "end\r\n" || time.Since(start) > 30*time.Second {
		t.Errorf("%+v after %s", r, time.Since(start))
	}
}

// random returns n random bytes and their checksum.
func random(t testing.TB, n int) ([]byte, string) {
	t.Helper()
	b := make([]byte, n)
	rand.Read(b)
	return b, fmt.Sprintf("%x", sha256.Sum256(b))
}

func TestFiftyMegabytesBothWays(t *testing.T) {
	t.Parallel()
	_, _, p := newSiteWithClient(t)
	b, sum := random(t, 50<<20)
	r := p.runWith(b, "ssh", "node", "tee copy | sha256sum >&2; cat copy; exit 3")
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(r.out))); got != sum || !strings.HasPrefix(r.err, sum) || r.status != 3 {
		t.Errorf("sent %s, there %s, back %s, status %d", sum, r.err, got, r.status)
	}
	// Both at the same time, with the end of input after half of the output.
	if r := p.runWith(b, "ssh", "node", "cat"); r.out != string(b) {
		t.Errorf("%d bytes came back", len(r.out))
	}
}

// channelRecorder records what is sent on a channel.
type channelRecorder struct {
	ssh.Channel
	said []string
}

func (o *channelRecorder) SendRequest(name string, wantReply bool, payload []byte) (bool, error) {
	o.said = append(o.said, name)
	return true, nil
}

func (o *channelRecorder) CloseWrite() error {
	o.said = append(o.said, "end of output")
	return nil
}

func (o *channelRecorder) Close() error {
	o.said = append(o.said, "close")
	return nil
}

// A client may close a session as soon as its output has ended, so the exit status must
// be sent before.
func TestExitStatusPrecedesEndOfOutput(t *testing.T) {
	for _, row := range []struct {
		end  agent.Exit
		want string
	}{
		{agent.Exit{Status: 3}, "exit-status"},
		{agent.Exit{Signal: 9}, "exit-signal"},
	} {
		var o channelRecorder
		(&session{ch: &o}).sendExit(row.end)
		if len(o.said) < 2 || o.said[0] != row.want || o.said[len(o.said)-1] != "close" {
			t.Errorf("%+v: said %q", row.end, o.said)
		}
	}
}

// The last output of a terminal is also read by a gateway that got no processor until the
// read deadline.
func TestLastOutputIsReadLate(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	io.WriteString(w, "last words")
	l := &terminalReader{f: r}
	r.SetReadDeadline(time.Now().Add(-lastTime)) // as of exited, while the next was being read
	if got, err := io.ReadAll(l); string(got) != "last words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSubsystemsAndX11AreRefused(t *testing.T) {
	t.Parallel()
	_, _, p := newSiteWithClient(t)
	if r := p.run("ssh", "-s", "node", "netconf"); r.status == 0 || !strings.Contains(r.err, "subsystem request failed") {
		t.Errorf("%+v", r)
	}
	if r := p.run("ssh", "-o", "SendEnv=LD_PRELOAD PATH", "-o", "SetEnv=LD_PRELOAD=evil", "node", "echo =$LD_PRELOAD="); r.out != "==\n" {
		t.Errorf("%+v", r)
	}
}
