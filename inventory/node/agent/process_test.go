package agent

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/fdsocket"
)

// terminal runs a line in a terminal and waits until it prints ready.
func (n *node) terminal(user, line string) (*Process, *bufio.Reader) {
	n.t.Helper()
	p, err := Exec(n.t.Context(), n.dial(), Command{User: user, Line: line, Terminal: &Terminal{Rows: 24, Cols: 80}}, nil)
	check(n.t, err)
	n.t.Cleanup(func() { p.Close() })
	check(n.t, p.Terminal.SetReadDeadline(time.Now().Add(30*time.Second)))
	r := bufio.NewReader(p.Terminal)
	expectOutput(n.t, r, "ready\r\n")
	return p, r
}

func expectOutput(t testing.TB, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); err != nil || got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

const waiting = "; echo ready; while :; do sleep 0.01; done"

func TestTerminalBelongsToTheCommand(t *testing.T) {
	n := newNode(t)
	t.Run("WindowChanges", func(t *testing.T) {
		n := &node{t: t, path: n.path}
		p, r := n.terminal("bob", "trap 'stty size; exit' WINCH"+waiting)
		raw, err := p.Terminal.SyscallConn()
		check(t, err)
		check(t, raw.Control(func(fd uintptr) {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 132})
		}))
		check(t, err)
		expectOutput(t, r, "50 132\r\n")
	})
	t.Run("KeysAreSignals", func(t *testing.T) {
		n := &node{t: t, path: n.path}
		p, r := n.terminal("bob", "stty -echo; trap 'echo interrupted; exit 3' INT"+waiting)
		p.Terminal.WriteString("\x03")
		expectOutput(t, r, "interrupted\r\n")
		if exit, err := p.Wait(); err != nil || exit.Status != 3 {
			t.Error(exit, err)
		}
	})
	t.Run("IsControlling", func(t *testing.T) {
		n := &node{t: t, path: n.path}
		_, r := n.terminal("bob", "echo ready; echo through > /dev/tty")
		expectOutput(t, r, "through\r\n")
	})
	t.Run("LoginShell", func(t *testing.T) {
		n := &node{t: t, path: n.path}
		p, err := Exec(t.Context(), n.dial(), Command{User: "bob", Terminal: &Terminal{Rows: 24, Cols: 80}}, nil)
		check(t, err)
		defer p.Close()
		p.Terminal.WriteString("stty -echo; echo $0 $-; exit 5\n")
		text, err := readAll(p.Terminal)
		check(t, err)
		if exit, err := p.Wait(); err != nil || exit.Status != 5 || !strings.Contains(text, "-bash himBH") {
			t.Errorf("%q, %v, %v", text, exit, err)
		}
	})
}

func TestClientGone(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct {
		rule  string
		leave func(p *Process)
	}{
		{"Closed", func(p *Process) { p.Close() }},
		{"ConnectionOnly", func(p *Process) { p.c.Close() }},
	} {
		t.Run("HangsUpTheTerminal"+c.rule, func(t *testing.T) {
			m := &node{t: t, path: n.path, root: n.root}
			name := "tmp/" + c.rule
			p, _ := m.terminal("bob", "trap 'echo hup > /"+name+"; exit' HUP"+waiting)
			c.leave(p)
			wait.Until(t, "SIGHUP", func() bool { return m.file(name) == "hup\n" })
		})
	}
	t.Run("OthersLiveOn", func(t *testing.T) {
		m := &node{t: t, path: n.path, root: n.root}
		p, _, out := m.start(Command{User: "bob", Line: "echo started; sleep 0.2; echo alive > /tmp/alive"})
		b := make([]byte, 8)
		if _, err := out.Read(b); err != nil {
			t.Fatal(err)
		}
		p.Close()
		wait.Until(t, "what was started before", func() bool { return m.file("tmp/alive") == "alive\n" })
	})
}

// A shell whose terminal ends before its SIGHUP takes that for the end of its input, and does not
// end its jobs.
func TestHangUpReachesTheJobsOfAShell(t *testing.T) {
	n := newNode(t)
	for range 30 {
		p, err := Exec(t.Context(), n.dial(), Command{User: "bob", Terminal: &Terminal{Rows: 24, Cols: 80}}, nil)
		check(t, err)
		check(t, p.Terminal.SetReadDeadline(time.Now().Add(30*time.Second)))
		r := bufio.NewReader(p.Terminal)
		p.Terminal.WriteString("sleep 4321 &\necho do''ne\n")
		for line := ""; !strings.HasPrefix(line, "done"); {
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		r.ReadString(' ') // the prompt: it reads again
		runs := func() bool {
			return strings.Contains(n.line("root", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "sleep 4321 ")
		}
		wait.Until(t, "the job", runs) // until then bash handles the signals itself
		p.Close()
		wait.Until(t, "the job's end", func() bool { return !runs() })
	}
}

func TestSignalGoesToTheGroup(t *testing.T) {
	n := newNode(t)
	p, _, out := n.start(Command{User: "bob", Line: "trap 'wait; exit 9' TERM; bash -c 'trap \"exit\" TERM; while :; do sleep 0.01; done'; echo unreached"})
	wait.Until(t, "the shell inside", func() bool {
		return strings.Contains(n.line("root", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "bash -c trap")
	})
	time.Sleep(20 * time.Millisecond) // until its trap is set
	for _, number := range []int{0, -1, 65, int(unix.SIGTERM)} {
		check(t, p.Signal(number))
	}
	text, err := readAll(out)
	check(t, err)
	if exit, err := p.Wait(); err != nil || exit.Status != 9 && exit.Signal != int(unix.SIGTERM) {
		t.Errorf("%q, %+v, %v", text, exit, err)
	}
	if err := p.Signal(int(unix.SIGTERM)); err != nil && !strings.Contains(err.Error(), "broken pipe") {
		t.Error(err)
	}
}

func TestManyCommandsAtOnce(t *testing.T) {
	n := newNode(t)
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			cmd := Command{User: "bob", Line: fmt.Sprintf("echo %d; exit %d", i, i)}
			if i%2 == 0 {
				cmd.Terminal = &Terminal{}
			}
			var p *Process
			var out *os.File
			if cmd.Terminal == nil {
				r, w, err := os.Pipe()
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Close()
				p, err = Exec(t.Context(), n.dial(), cmd, []*os.File{w, w, w})
				w.Close()
				if err != nil {
					t.Error(err)
					return
				}
				out = r
			} else {
				var err error
				if p, err = Exec(t.Context(), n.dial(), cmd, nil); err != nil {
					t.Error(err)
					return
				}
				out = p.Terminal
			}
			defer p.Close()
			text, err := readAll(out)
			exit, failed := p.Wait()
			if err != nil || failed != nil || strings.TrimSpace(text) != strconv.Itoa(i) || exit.Status != i {
				t.Errorf("%d: %q, %+v, %v, %v", i, text, exit, err, failed)
			}
		})
	}
	group.Wait()
	wait.Until(t, "zombies", func() bool { return n.line("root", "grep -l '^State:.Z' /proc/[0-9]*/status || true") == "" })
	// The agent closes a terminal when it notices that its client has.
	wait.Until(t, "the end of terminals", func() bool { return n.line("root", "ls /dev/pts") == "ptmx" })
}

// All signals, sent by kill and queued with every code that the kernel accepts from a process,
// including those that Go's runtime uses for its own faults.
func TestSignalsFromInsideDoNotEndPID1(t *testing.T) {
	n := newNode(t)
	if text, exit := n.run(Command{User: "root", Argv: []string{"/" + program, "signals"}}); exit.Status != 0 {
		t.Fatalf("%+v %s", exit, text)
	}
	time.Sleep(20 * time.Millisecond)
	if id, err := Ping(t.Context(), n.dial()); err != nil || id.Node != "node-1" {
		t.Error(id, err)
	}
	if got := n.line("bob", "echo on"); got != "on" {
		t.Error(got)
	}
}

// sendSignals sends all signals to PID 1.
func sendSignals() error {
	sent := 0
	for range 20 {
		for s := unix.Signal(1); s <= 64; s++ {
			unix.Kill(1, s)
			unix.Tgkill(1, 1, s)
			for _, code := range []int32{-1, -2, -3, -4, -5} {
				info := [32]int32{int32(s), 0, code}
				if queueSignal(1, s, &info) == nil {
					sent++
				}
			}
		}
	}
	if sent == 0 {
		return fmt.Errorf("no signal could be queued")
	}
	return nil
}

// A user who permanently stops its processes, even before they execute a program, stops only
// them, also while the agent allocates enough to start garbage collections.
func TestChildrenStoppedBeforeTheirProgram(t *testing.T) {
	n := newNode(t)
	busy := Configuration{Hostname: "alpha", Hosts: slices.Repeat([]string{"127.64.0.1\tbeta"}, 3000)}
	ctx, cancel := context.WithCancel(t.Context())
	var configures sync.WaitGroup
	configures.Go(func() {
		for ctx.Err() == nil {
			if c, err := fdsocket.Dial(ctx, n.path); err == nil {
				Configure(ctx, c, busy)
			}
		}
	})
	defer configures.Wait()
	defer cancel()
	n.start(Command{User: "bob", Argv: []string{"/" + program, "stop"}})
	wait.Until(t, "stopping", func() bool {
		n.startStopped()
		return strings.Contains(n.line("root", "grep -l '^State:.T' /proc/[0-9]*/status || true"), "/proc/")
	})
	for range 20 {
		n.startStopped()
	}
	if got := n.line("root", "echo on"); got != "on" {
		t.Error(got)
	}
}

// startStopped starts a command that may be stopped immediately.
func (n *node) startStopped() {
	n.t.Helper()
	r, w := n.pipe()
	p, err := Exec(withTimeout(n.t, time.Minute), n.dial(), Command{User: "bob", Argv: []string{"/bin/true"}}, []*os.File{r, w, w})
	check(n.t, err)
	n.t.Cleanup(func() { p.Close() })
}

// stopOthers stops all other processes of its user, without end.
func stopOthers() {
	for {
		unix.Kill(-1, unix.SIGSTOP)
	}
}
