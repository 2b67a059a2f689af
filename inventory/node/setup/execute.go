package setup

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exit statuses of steps that cannot start, as shells report them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// execute runs the command or the script of the step.
func (o *Assignment) execute(s *stepFiles, user account, l *log) {
	c, exit, err := o.command(s, user, l)
	if err != nil {
		s.finish(l.failure(exit, err))
		return
	}
	background := o.Background != nil && *o.Background
	s.runCommands(l, background, c)
}

// command returns the command of the step. If it fails, exit is the exit status of the step.
func (o *Assignment) command(s *stepFiles, user account, l *log) (c *exec.Cmd, exit int, err error) {
	c = newCommand(append(user.environment(), o.variables()...), user.home)
	if o.AsUser {
		groups, err := groupsOf(s.etc, user.name)
		if err != nil {
			return nil, exitNotExecutable, err
		}
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user.uid), Gid: uint32(user.gid), Groups: groups}
	}
	if o.Shell != "" {
		if c.Path = findProgram("/bin/"+o.Shell, "/usr/bin/"+o.Shell); c.Path == "" {
			return nil, exitNotFound, fmt.Errorf("the node has no %s", o.Shell)
		}
		c.Args = []string{o.Shell, "-c", o.Command}
	}
	if o.Script == "" {
		return c, 0, nil
	}
	owner := root
	if o.AsUser {
		owner = user
	}
	dir, err := o.fetchFiles(s, owner, l)
	if err != nil {
		return nil, exitNotExecutable, err
	}
	script := filepath.Join(dir, o.Script)
	if c.Dir = dir; o.Shell != "" {
		c.Args = []string{o.Shell, script}
		return c, 0, nil
	}
	interpreted, err := isInterpreted(script)
	if err == nil && !interpreted {
		err = fmt.Errorf("the script %s does not begin with #!, and the step has no shell", o.Script)
	}
	c.Path, c.Args = script, []string{script}
	return c, exitNotExecutable, err
}

// variables returns the environment of the step in a fixed order.
func (o *Assignment) variables() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(o.Environment)) {
		list = append(list, name+"="+o.Environment[name])
	}
	return list
}

// newCommand returns a command without a program. The kernel kills it when this process ends.
// Otherwise the next step could run beside it.
func newCommand(environment []string, dir string) *exec.Cmd {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = "/"
	}
	return &exec.Cmd{Env: environment, Dir: dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
}

// findProgram returns the first of the paths that exists; "" if none does.
func findProgram(paths ...string) string {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// runCommands runs commands one after the other. It saves the result when the last one has ended,
// or in the background as soon as the first one has started. It then logs the output of the
// commands and their background processes until they end. The result is that of the first
// command that fails; the others run all the same.
func (s *stepFiles) runCommands(l *log, background bool, commands ...*exec.Cmd) {
	r, w, err := os.Pipe()
	if err != nil {
		s.finish(l.failure(255, fmt.Errorf("it cannot start: %w", err)))
		return
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(l, r)
	}()
	report := Report{State: Done}
	for _, c := range commands {
		c.Stdout, c.Stderr = w, w
		err := c.Start()
		if err == nil && background {
			s.finish(report)
		}
		if err == nil {
			err = c.Wait() // not for background processes of the command
		}
		if next := resultOf(c, err); report.State == Done {
			report = next
		}
	}
	w.Close()
	// The result contains only the output that is in the pipe now.
	_ = r.SetReadDeadline(time.Unix(1, 0))
	<-copied
	open := drain(r, l)
	report.Output = l.end()
	if !background || commands[0].Process == nil { // otherwise it is saved
		s.finish(report)
	}
	if !open {
		return
	}
	debug.FreeOSMemory() // the next wait may be long
	_ = r.SetReadDeadline(time.Time{})
	_, _ = io.Copy(l, r)
}

// resultOf returns the report for the error of c's start or end.
func resultOf(c *exec.Cmd, err error) Report {
	ended, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return Report{State: Done}
	case !ok && errors.Is(err, unix.ENOENT) && c.Path == c.Args[0]:
		return Report{State: Failed, Exit: exitNotFound, Message: "the first line of the script names an interpreter that the node does not have"}
	case !ok:
		return Report{State: Failed, Exit: exitNotFound, Message: fmt.Sprintf("%s cannot be started: %v", c.Args[0], err)}
	}
	status := ended.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return Report{
			State: Failed, Exit: 128 + int(status.Signal()),
			Message: fmt.Sprintf("the command was ended by signal %d (%v)", status.Signal(), status.Signal()),
		}
	}
	return Report{State: Failed, Exit: status.ExitStatus(), Message: fmt.Sprintf("the command ended with status %d", status.ExitStatus())}
}

// drain logs the data that is in the pipe now. It reports whether another process still has
// the other end of the pipe open.
func drain(r *os.File, l *log) (open bool) {
	raw, err := r.SyscallConn()
	if err != nil {
		return false
	}
	room := make([]byte, 64<<10)
	_ = raw.Control(func(fd uintptr) {
		for range maxLog / len(room) { // bounded, since a process may write without end
			n, err := unix.Read(int(fd), room)
			if err == unix.EINTR {
				continue
			}
			if open = err == unix.EAGAIN || n > 0; n <= 0 {
				return
			}
			_, _ = l.Write(room[:n])
		}
	})
	return open
}
