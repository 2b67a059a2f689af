package executable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// program creates an executable file and returns the command that runs it.
func program(t *testing.T, text string, mode os.FileMode) (*Command, *bytes.Buffer) {
	t.Helper()
	dir, out := t.TempDir(), &bytes.Buffer{}
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return &Command{Path: path, Dir: dir, Stdout: out}, out
}

// limited is a writer that fails after some bytes.
type limited struct{ left int }

var errTooMuch = errors.New("too much")

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errTooMuch
	}
	return len(b), nil
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		rule, text string
		mode       os.FileMode
		out        io.Writer
		held       bool
		want       string // part of the error; "" for none
	}{
		{"ends well", "#!/bin/sh\nexit 0\n", 0o755, nil, false, ""},
		{"another status", "#!/bin/sh\nexit 3\n", 0o755, nil, false, "exit status 3"},
		{"a signal", "#!/bin/sh\nkill -9 $$\n", 0o755, nil, false, "signal: killed"},
		{"writes for ever", "#!/bin/sh\nexec cat /dev/zero\n", 0o755, &limited{1 << 20}, false, "too much"},
		{"writes too much and ends", "#!/bin/sh\necho much\n", 0o755, &limited{3}, false, "too much"},
		{"does not read its input", "#!/bin/sh\nexec <&-\n", 0o755, nil, false, ""},
		{"leaves a process of its group", "#!/bin/sh\nsleep 1000 &\n", 0o755, nil, false, ""},
		{"leaves a process of another session", "#!/bin/sh\nsetsid sh -c 'echo $$ >left; exec sleep 1000' &\nuntil test -s left; do :; done\n", 0o755, nil, true, ""},
		{"no interpreter", "#!/nowhere/sh\n", 0o755, nil, false, `the interpreter in its first line, "#!/nowhere/sh", does not exist`},
		{"no first line", "echo\n", 0o755, nil, false, "begin it with a line such as #!/bin/sh"},
		{"not executable", "#!/bin/sh\n", 0o644, nil, false, "chmod +x it"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c, _ := program(t, tt.text, tt.mode)
			c.Stdin = bytes.Repeat([]byte("x"), 1<<20)
			if tt.out != nil {
				c.Stdout = tt.out
			}
			held, err := c.Run(t.Context())
			if held != tt.held || (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("held %v, error %v, want %v, %q", held, err, tt.held, tt.want)
			}
			if held {
				text, _ := os.ReadFile(filepath.Join(c.Dir, "left"))
				pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("a process in a session of its own did not survive: %v", err)
				}
			}
		})
	}
}

func TestEnvironmentExcludesTheServersVariables(t *testing.T) {
	t.Setenv("PASSWORD", "secret")
	c, out := program(t, "#!/usr/bin/env -S sh -c 'tr \"\\\\0\" \"\\\\n\" </proc/self/environ'\n", 0o755)
	c.Env, c.Home = []string{"MORE=1"}, "/home/alice"
	if _, err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(out.String())
	for _, want := range []string{"HOME=/home/alice", "LANG=C.UTF-8", "MORE=1", "PATH=" + SearchPath()} {
		if !slices.Contains(got, want) {
			t.Errorf("%q has no %s", got, want)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("it sees %q", got)
	}
}

// TestHangingGroupIsKilled checks that a child that ignores other signals is killed, too.
func TestHangingGroupIsKilled(t *testing.T) {
	c, _ := program(t, "#!/bin/sh\ntrap '' TERM INT\nsh -c 'trap \"\" TERM; echo $$; exec >/dev/null; exec sleep 1000' &\nwait\n", 0o755)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output := make(writer, 1)
	c.Stdout = output
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx)
		ended <- err
	}()
	text := <-output
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	for { // until it is killed, and reaped by the process that inherited it
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if _, state, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(state, "Z") || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return
		}
	}
}

// writer sends the written text to the channel.
type writer chan string

func (w writer) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}
