package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the test binary as a child process, whose task is its name.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case "child-obeys":
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "ready")
		<-terminated
		fmt.Fprintln(os.Stderr, "ended in order")
		os.Exit(0)
	case "child-ignores":
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "ready")
		time.Sleep(time.Hour) // "select {}" would be reported as a deadlock
	case "child-parent": // starts a grandchild that must end with it
		p, err := Start(Command{Path: "/proc/self/exe", Args: []string{"child-ignores"}, Attr: syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, Log: func([]byte) {}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, p.PID())
		select {}
	}
	os.Exit(m.Run())
}

// output collects lines.
type output struct {
	mu    sync.Mutex
	lines []string
	first chan struct{} // closed with the first line
}

func newOutput() *output { return &output{first: make(chan struct{})} }

func (o *output) log(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines = append(o.lines, string(line)); len(o.lines) == 1 {
		close(o.first)
	}
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

func start(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Exited()
	})
	return p
}

func shell(line string, o *output) Command {
	return Command{Path: "/bin/sh", Args: []string{"sh", "-c", line}, Log: o.log}
}

func TestLastOutputIsLogged(t *testing.T) {
	o := newOutput()
	// A process of another parent keeps the pipe open.
	c := shell("sleep 1000 & echo $!; seq 1 2000; exit 3", o)
	c.Stdout = true
	p := start(t, c)
	err := p.Wait()
	lines := strings.Split(o.text(), "\n")
	pid, _ := strconv.Atoi(lines[0])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || lines[len(lines)-1] != "2000" {
		t.Errorf("it ended with %v and %q", err, lines[len(lines)-1])
	}
}

func TestOutputIsLimited(t *testing.T) {
	o := newOutput()
	c := shell("printf '%02000d\n' 7; seq 1 2000", o)
	c.Stdout, c.MaxLine, c.LinesPerSecond = true, 100, 10
	start(t, c).Wait()
	if lines := strings.Split(o.text(), "\n"); len(lines[0]) != 100 || len(lines) < 10 || len(lines) > 1000 {
		t.Errorf("%d lines, the first of %d bytes", len(lines), len(lines[0]))
	}
}

func TestStop(t *testing.T) {
	for _, tt := range []struct {
		child    string
		patience time.Duration
		killed   bool
		output   string
	}{
		{"child-obeys", time.Hour, false, "ready\nended in order"},
		{"child-ignores", 0, true, "ready"},
	} {
		o := newOutput()
		p := start(t, Command{Path: "/proc/self/exe", Args: []string{tt.child}, Log: o.log})
		<-o.first
		if killed := p.Stop(tt.patience); killed != tt.killed || p.IsRunning() || o.text() != tt.output {
			t.Errorf("%s: killed: %t, running: %t, wrote %q", tt.child, killed, p.IsRunning(), o.text())
		}
	}
}

func TestProcessEndsWithItsParentProcess(t *testing.T) {
	o := newOutput()
	p := start(t, Command{Path: "/proc/self/exe", Args: []string{"child-parent"}, Log: o.log})
	<-o.first
	pid, err := strconv.Atoi(o.text())
	if err != nil {
		t.Fatal(o.text())
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("it ended while its parent runs: %v", err)
	}
	p.Kill()
	p.Wait()
	for end := time.Now().Add(30 * time.Second); isRunning(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it goes on without its parent")
		}
	}
}

// isRunning reports whether the process exists and is no zombie.
func isRunning(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestStartFails(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Start(Command{Path: "/nowhere", Args: []string{"x"}, Files: []*os.File{w}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := w.Close(); !errors.Is(err, os.ErrClosed) {
		t.Error("its file was left open")
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: 1, Longest: 5, Settled: 100}
	var got []time.Duration
	for _, lived := range []time.Duration{0, 1, 2, 3, 101, 0} {
		got = append(got, b.Next(lived))
	}
	if fmt.Sprint(got) != fmt.Sprint([]time.Duration{1, 2, 4, 5, 1, 2}) {
		t.Errorf("%v", got)
	}
}

func TestBackoffRun(t *testing.T) {
	b := Backoff{First: time.Nanosecond, Longest: time.Nanosecond, Settled: time.Hour}
	runs, broken := 0, errors.New("broken")
	run := func() error { runs++; return broken }
	b.Run(nil, run, func(err error, pause time.Duration) bool {
		return err == broken && pause == time.Nanosecond && runs < 3
	})
	if runs != 3 {
		t.Errorf("it ran %d times", runs)
	}
	stop := make(chan struct{})
	close(stop)
	b.First, b.Longest = time.Hour, time.Hour
	b.Run(stop, run, func(error, time.Duration) bool { return true })
	if runs != 4 {
		t.Errorf("it ran %d times more", runs-3)
	}
}
