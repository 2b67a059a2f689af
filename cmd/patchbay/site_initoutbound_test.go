package main

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInitAsksAtATerminalOnly(t *testing.T) {
	master, terminal := newTerminal(t)
	for typed, want := range map[string]string{"y\n": "yes", " YES \n": "yes", "\n": "no", "no\n": "no", "yellow\n": "no", "\x04": "no"} {
		if _, err := master.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		if got := askOutbound(terminal, terminal); got != want {
			t.Errorf("%q means %s, want %s", typed, got, want)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got := askOutbound(r, terminal); got != "no" {
		t.Errorf("from a pipe: %s", got)
	}
}

// newTerminal returns both ends of a pseudo-terminal.
func newTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}
