package executable

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/file"
)

// DrainTimeout is the time that a descendant may hold the streams open after the executable
// itself has ended.
const DrainTimeout = 250 * time.Millisecond

// ExitError is the error of an executable that ended with another status than 0.
type ExitError = exec.ExitError

// Command is one run of an executable.
type Command struct {
	Path string
	Args []string
	// Dir is the working directory.
	Dir string
	// Home is HOME in the environment; "" for the HOME of the server.
	Home string
	// Env are variables of the environment besides PATH, HOME and LANG.
	Env []string
	// Credential is the user to run as; nil for the user of the server.
	Credential *syscall.Credential
	// Stdin is the whole standard input; nil for none.
	Stdin []byte
	// Stdout receives standard output. An error of its Write ends the run.
	Stdout io.Writer
	// Stderr receives standard error; nil for Stdout.
	Stderr io.Writer
}

// RunAsOwner makes Run run the executable as the user who owns the files in the folder dir,
// if the server is root and that user is not. Root must not run a program that others can
// change.
func (c *Command) RunAsOwner(dir string) error {
	uid, gid, ok, err := file.OtherOwner(dir)
	if err != nil || !ok {
		return err
	}
	c.Credential, c.Home = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, "/"
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.HomeDir != "" {
		c.Home = u.HomeDir
	}
	return nil
}

// Run runs the executable in a session, and so a process group, of its own. When Run
// returns, no process of that group is alive, and the server's ends of the pipes are closed.
// The executable is killed when the server ends.
//
// heldOpen means that a process outside the group still holds the streams open. Run fails with
// the error of a failed start, of ctx or of a writer, or with an *ExitError.
func (c *Command) Run(ctx context.Context) (heldOpen bool, err error) {
	streams, ends, err := c.streams()
	if err != nil {
		return false, err
	}
	cmd, ended, err := c.start(ctx, ends)
	for _, end := range ends {
		end.Close()
	}
	if err != nil {
		for _, s := range streams {
			s.from.Close()
		}
		return false, err
	}
	errs := make(chan error, len(streams))
	for _, s := range streams {
		go s.copyOutput(errs)
	}
	var stopped error
	select {
	case err = <-ended:
	case stopped = <-errs:
	case <-ctx.Done():
		stopped = ctx.Err()
	}
	// The process is not reaped yet, so no other group can have its number.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if stopped != nil {
		err = <-ended
	}
	waited := cmd.Wait()
	heldOpen = errors.Is(waited, exec.ErrWaitDelay) // a process holds the input open
	for _, s := range streams {
		s.wait()
		heldOpen = heldOpen || s.held
	}
	select {
	case writeErr := <-errs: // the executable ended before it could be stopped
		if stopped == nil {
			stopped = writeErr
		}
	default:
	}
	switch {
	case stopped != nil:
		return heldOpen, stopped
	case err != nil:
		return heldOpen, err
	case errors.Is(waited, exec.ErrWaitDelay): // the executable itself succeeded
		return heldOpen, nil
	}
	return heldOpen, waited
}

// streams makes the pipes for the output. It returns our ends with the writers that get what arrives there, and the ends
// that the executable gets as standard output and standard error.
func (c *Command) streams() (all []*stream, ends []*os.File, err error) {
	for _, to := range []io.Writer{c.Stdout, c.Stderr} {
		if to == nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			for i := range all {
				all[i].from.Close()
				ends[i].Close()
			}
			return nil, nil, err
		}
		all, ends = append(all, &stream{from: r, to: to, done: make(chan struct{})}), append(ends, w)
	}
	return all, ends, nil
}

// start starts the executable. The channel ended gets a value when the executable has ended
// and must be reaped. The kernel kills the executable when the thread that started it ends, so
// that thread waits for the end of the executable.
func (c *Command) start(ctx context.Context, ends []*os.File) (cmd *exec.Cmd, ended <-chan error, err error) {
	started, exit := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		cmd, err = c.tryToStart(ctx, ends)
		started <- err
		if err == nil {
			exit <- awaitExit(cmd.Process.Pid)
		}
	}()
	err = <-started
	return cmd, exit, err
}

// tryToStart starts the executable, and tries again while a process has its file open for writing.
func (c *Command) tryToStart(ctx context.Context, ends []*os.File) (*exec.Cmd, error) {
	for {
		cmd := exec.Command(c.Path, c.Args...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = c.Dir, c.environment(), DrainTimeout
		// The executable is killed when the server ends in any way: otherwise the next server
		// could start it a second time. It does not share the server's terminal.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: c.Credential}
		if c.Stdin != nil {
			cmd.Stdin = bytes.NewReader(c.Stdin)
		}
		cmd.Stdout, cmd.Stderr = ends[0], ends[len(ends)-1]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// The executable must not inherit files that the server's parent left open or a C
		// library opened.
		if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return nil, fmt.Errorf("cannot be started, because it would inherit the server's open files: %w", err)
		}
		err := cmd.Start()
		if err == nil {
			return cmd, nil
		}
		if !errors.Is(err, unix.ETXTBSY) {
			// Experimenters may read this error, so it must not contain the file's path.
			if e, ok := errors.AsType[*os.PathError](err); ok {
				err = e.Err
			}
			return nil, fmt.Errorf("cannot be started: %w%s", err, startHint(c.Path, err))
		}
		// A process has the file open for writing: its writer, or a child that the server
		// forked in that moment. Both close it soon.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (c *Command) environment() []string {
	return append([]string{"PATH=" + SearchPath(), "HOME=" + cmp.Or(c.Home, os.Getenv("HOME"), "/"), "LANG=C.UTF-8"}, c.Env...)
}

// SearchPath returns PATH in the environment of executables.
func SearchPath() string {
	return cmp.Or(os.Getenv("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

// startHint returns a text about why the executable cannot be started; "" if the cause is not the file's mode, owner or
// first line.
func startHint(path string, err error) string {
	if info, statErr := os.Stat(path); statErr == nil && errors.Is(err, unix.EACCES) {
		switch {
		case info.Mode().Perm()&0o111 == 0:
			return ": it is not executable; chmod +x it"
		case unix.Access(path, unix.X_OK) != nil:
			return ": this user may not execute it; see its mode and its owner, and whether its file system is mounted noexec"
		}
	}
	f, openErr := os.Open(path)
	if openErr != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	first, _, _ := strings.Cut(string(head[:n]), "\n")
	switch script := strings.HasPrefix(first, "#!"); {
	case script && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOEXEC)):
		return fmt.Sprintf(": the interpreter in its first line, %.100q, does not exist or is not a program; correct that line", first)
	case !script && errors.Is(err, unix.ENOEXEC):
		return "; begin it with a line such as #!/bin/sh"
	}
	return ""
}

// awaitExit waits until the child has ended. It does not reap the child.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
