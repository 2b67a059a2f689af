package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/fileowner"
)

const (
	// maxAnswer is the most a get or set may write to standard output.
	maxAnswer = 16 << 20
	// drain is how long a descendant may hold the streams open after the
	// provider itself has ended.
	drain = 250 * time.Millisecond
)

// call is one run of the executable.
type call struct {
	action string
	in     []byte // nil: standard input is empty
	limit  time.Duration
	answer int // the most it may write, in bytes
}

// run starts the executable in a session, and so a process group, of its own and
// returns what it wrote to standard output. When run returns, nothing of that
// group is alive and no descriptor is open. The error is what happened, without the
// provider's name; it wraps context.DeadlineExceeded when the limit was over.
func (p *Provider) run(ctx context.Context, c call) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	begun := time.Now()
	defer func() {
		if p.Took != nil && c.in != nil && !errors.Is(err, context.Canceled) {
			p.Took(c.action, time.Since(begun))
		}
	}()
	out := &bounded{max: c.answer, full: make(chan struct{})}
	stderr := &lines{log: p.logger().With("provider", p.Name, "action", c.action)}
	cmd, streams, err := p.start(ctx, c, out, stderr)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- awaitExit(cmd.Process.Pid) }()
	var stopped error
	select {
	case err = <-ended:
	case <-out.full:
		stopped = errTooLong(c)
	case <-ctx.Done():
		stopped = ctx.Err()
		if errors.Is(stopped, context.DeadlineExceeded) {
			stopped = fmt.Errorf("did not end within the %v it had: %w", time.Since(begun).Round(100*time.Millisecond), stopped)
		}
	}
	// Not reaped yet, so the number of the group cannot be anybody else's.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if stopped != nil {
		err = <-ended
	}
	waitErr := cmd.Wait()
	held := errors.Is(waitErr, exec.ErrWaitDelay) // its input
	for _, s := range streams {
		s.drain(drain)
		held = held || s.held
	}
	stderr.flush()
	switch {
	case stopped != nil:
		return nil, stopped
	case out.over: // and ended of that before it could be stopped
		return nil, errTooLong(c)
	case err != nil:
		return nil, err
	case waitErr != nil && !errors.Is(waitErr, exec.ErrWaitDelay):
		text := "ended with %w, so what it wrote does not count"
		if cmd.ProcessState.ExitCode() == 127 { // of env and of shells
			text += "; 127 means that a program was not found, perhaps the interpreter in its first line"
		}
		return nil, fmt.Errorf(text, waitErr)
	case held:
		stderr.log.Warn("left a process behind that holds its output open; redirect the streams of what shall live on")
	}
	if p.Trace != nil && c.in != nil {
		p.Trace(c.action, out.buf.Bytes())
	}
	return out.buf.Bytes(), nil
}

func errTooLong(c call) error { return fmt.Errorf("wrote more than %d bytes", c.answer) }

// start starts the executable, and carries its output to out and stderr.
func (p *Provider) start(ctx context.Context, c call, out, stderr io.Writer) (*exec.Cmd, []*stream, error) {
	for {
		cmd := exec.Command(p.Path, "ral_action="+c.action)
		cmd.Dir = p.Dir
		home := os.Getenv("HOME")
		// The provider goes with us even if we are killed, so that no two of them
		// ever set the same resource. It does not share our terminal.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		// It writes where it lies.
		if uid, gid, ok, err := fileowner.Other(p.Dir); err != nil {
			return nil, nil, err
		} else if ok {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			home = ""
			if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
				home = u.HomeDir
			}
		}
		cmd.Env = environment(home)
		cmd.WaitDelay = drain
		if c.in != nil {
			cmd.Stdin = bytes.NewReader(c.in)
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		// What whoever started us has left open, or a library of C opens, is not for
		// providers.
		if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return nil, nil, fmt.Errorf("cannot be started without our open files: %w", err)
		}
		streams, err := startWith(cmd, out, stderr)
		if err == nil {
			return cmd, streams, nil
		}
		if !errors.Is(err, unix.ETXTBSY) {
			// Experimenters may get to read this: where the file is, is not for them.
			if e, ok := errors.AsType[*os.PathError](err); ok {
				err = e.Err
			}
			return nil, nil, fmt.Errorf("cannot be started: %w%s", err, p.blame(err))
		}
		// Somebody is still writing the file, or was when another process of
		// ours was forked; either passes.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// startWith starts cmd with streams to out and stderr.
func startWith(cmd *exec.Cmd, out, stderr io.Writer) ([]*stream, error) {
	one, stdout, err := newStream(out)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	two, complaint, err := newStream(stderr)
	if err != nil {
		one.from.Close()
		return nil, err
	}
	defer complaint.Close()
	cmd.Stdout, cmd.Stderr = stdout, complaint
	if err := cmd.Start(); err != nil {
		one.from.Close()
		two.from.Close()
		return nil, err
	}
	go one.carry()
	go two.carry()
	return []*stream{one, two}, nil
}

// blame tells what of the program's mode or first line keeps it from being started;
// "" where neither is at fault.
func (p *Provider) blame(err error) string {
	if info, statErr := os.Stat(p.Path); statErr == nil && errors.Is(err, unix.EACCES) {
		switch {
		case info.Mode().Perm()&0o111 == 0:
			return ": it is not executable; chmod +x it"
		case unix.Access(p.Path, unix.X_OK) != nil:
			return ": this user may not execute it; see its mode and its owner, and whether its file system is mounted noexec"
		}
	}
	f, openErr := os.Open(p.Path)
	if openErr != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	first, _, _ := strings.Cut(string(head[:n]), "\n")
	switch script := strings.HasPrefix(first, "#!"); {
	case script && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOEXEC)):
		return fmt.Sprintf(": the interpreter in its first line, %.100q, is not there or no program; correct that line", first)
	case !script && errors.Is(err, unix.ENOEXEC):
		return "; begin it with a line such as #!/bin/sh"
	}
	return ""
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

// environment is all a provider gets to see of ours.
func environment(home string) []string {
	if home == "" {
		home = "/"
	}
	return []string{"PATH=" + searchPath(), "HOME=" + home, "LANG=C.UTF-8"}
}

func searchPath() string {
	if path := os.Getenv("PATH"); path != "" {
		return path
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// bounded keeps up to max bytes and closes full when there are more.
type bounded struct {
	buf  bytes.Buffer
	max  int
	over bool
	full chan struct{}
}

var errFull = errors.New("too much")

func (b *bounded) Write(s []byte) (int, error) {
	if b.over {
		return 0, errFull
	}
	if b.buf.Len()+len(s) > b.max {
		b.over = true
		close(b.full)
		return 0, errFull
	}
	return b.buf.Write(s)
}
