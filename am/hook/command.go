package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSaid is how much of what a hook says is kept, in bytes.
	maxSaid = 2048
	// drain is how long a descendant may hold the streams open after the executable
	// itself has ended.
	drain = 250 * time.Millisecond
)

// command is a hook that is an executable.
type command struct{ *Hook }

// send runs the executable in a session, and so a process group, of its own. When
// send returns, nothing of that group is alive. Exit status 0 means taken.
func (c *command) send(ctx context.Context, e Event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := Executable(c.Command); err != nil {
		return err
	}
	said := &tail{}
	cmd, err := c.start(ctx, e, append(text, '\n'), said)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- awaitExit(cmd.Process.Pid) }()
	var stopped error
	select {
	case err = <-ended:
	case <-ctx.Done():
		stopped = fmt.Errorf("did not end in time: %w", ctx.Err())
	}
	// Not reaped yet, so the number of the group cannot be anybody else's.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if stopped != nil {
		err = <-ended
	}
	waited := cmd.Wait()
	if errors.Is(waited, exec.ErrWaitDelay) { // it ended well, and left something behind
		waited = nil
	}
	if err := firstOf(stopped, err, waited); err != nil {
		return fmt.Errorf("%w%s", err, said.quote())
	}
	return nil
}

// close does nothing: nothing is kept.
func (c *command) close() {}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *command) start(ctx context.Context, e Event, in []byte, said *tail) (*exec.Cmd, error) {
	for {
		cmd := exec.Command(c.Command)
		cmd.Dir = c.Dir
		cmd.Env = c.environment(e)
		// It goes with us even if we are killed, so that it never runs beside the same
		// event delivered again. It does not share our terminal.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		cmd.WaitDelay = drain
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), said, said
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// What whoever started us has left open, or a library of C opens, is not for
		// hooks.
		if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return nil, fmt.Errorf("cannot be started without our open files: %w", err)
		}
		err := cmd.Start()
		if err == nil {
			return cmd, nil
		}
		if !errors.Is(err, unix.ETXTBSY) {
			return nil, fmt.Errorf("cannot be started: %w; begin a script with a line such as #!/bin/sh", err)
		}
		// Somebody is still writing the file, or was when another process of ours was
		// forked; either passes.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// environment is all that the executable gets to see of ours, and the event. None
// of the variables is one that configures a site.
func (c *command) environment(e Event) []string {
	path, home := os.Getenv("PATH"), os.Getenv("HOME")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if home == "" {
		home = "/"
	}
	return []string{
		"PATH=" + path, "HOME=" + home, "LANG=C.UTF-8",
		"PATCHBAY_EVENT=" + string(e.Event),
		"PATCHBAY_EVENT_ID=" + e.ID,
		"PATCHBAY_EVENT_HOOK=" + c.Name,
		"PATCHBAY_EVENT_SLICE=" + e.Slice,
		"PATCHBAY_EVENT_SLIVER=" + e.Sliver,
	}
}

// awaitExit returns when the child has ended and leaves it to be reaped.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Executable tells why a file cannot be a hook's command; nil if it can.
func Executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the executable %s is not there; make it, or correct command", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file; name an executable", path)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everybody may change the executable %s, which runs with the rights of the server; take that away: chmod o-w", path)
	case unix.Access(path, unix.X_OK) != nil:
		return fmt.Errorf("this user may not execute %s; give it the right: chmod +x", path)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ end []byte }

// Write takes everything, so that nobody waits for it to be read.
func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	b = b[max(0, n-maxSaid):]
	if over := len(t.end) + len(b) - maxSaid; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	t.end = append(t.end, b...)
	return n, nil
}

// quote is what was said, for a message.
func (t *tail) quote() string { return quote(t.end) }

func quote(said []byte) string {
	said = bytes.TrimSpace(said)
	if len(said) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said %q", said[max(0, len(said)-500):])
}
