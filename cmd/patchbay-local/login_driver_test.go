package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/wait"
)

// screen is a terminal on which somebody runs ssh.
type screen struct {
	t      testing.TB
	cmd    *exec.Cmd
	master *os.File
	ended  chan struct{}

	mu   sync.Mutex
	text string // that came and was not yet expected
}

// terminal runs ssh -tt on a terminal.
func (c *client) terminal(t testing.TB, rows, cols uint16, args ...string) *screen {
	t.Helper()
	master, slave := terminalPair(t, rows, cols)
	s := &screen{t: t, master: master, cmd: c.command(c.ctx, "ssh", append([]string{"-tt"}, args...)...), ended: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm-256color")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err := s.cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	go s.read()
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		master.Close()
	})
	return s
}

func terminalPair(t testing.TB, rows, cols uint16) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func (s *screen) read() {
	b := make([]byte, 4096)
	for {
		n, err := s.master.Read(b)
		s.mu.Lock()
		s.text += string(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// write writes as if somebody typed it.
func (s *screen) write(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits for text, and takes all up to its end.
func (s *screen) expect(text string) {
	s.t.Helper()
	wait.Clear(s.t, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, after, found := strings.Cut(s.text, text)
		if !found {
			return fmt.Sprintf("the terminal does not show %q but %.1000q", text, s.text)
		}
		s.text = after
		return ""
	})
}

// wait waits until ssh has ended, and is its status.
func (s *screen) wait() int {
	s.t.Helper()
	wait.Until(s.t, "the end of ssh", func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
	return s.cmd.ProcessState.ExitCode()
}
