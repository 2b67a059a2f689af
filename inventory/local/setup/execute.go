package setup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func shellPaths(name string) []string { return []string{"/bin/" + name, "/usr/bin/" + name} }

// execute saves the result when the shell ends. It then logs the output of the shell's
// background processes until they end.
func (o *Assignment) execute(s *stepFiles, user account, l *log) {
	r, w, err := os.Pipe()
	if err != nil {
		s.finish(Report{State: Failed, Exit: 255, Message: fmt.Sprintf("it cannot start: %v", err)})
		return
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(l, r)
	}()
	status, err := o.shell(user, w)
	w.Close()
	// The result contains only the output that is in the pipe now.
	_ = r.SetReadDeadline(time.Unix(1, 0))
	<-copied
	open := drain(r, l)
	report := Report{State: Done, Output: l.end()}
	switch {
	case err != nil:
		report.State, report.Exit, report.Message = Failed, 127, err.Error() // as shells report a missing command
	case status.Signaled():
		report.State, report.Exit = Failed, 128+int(status.Signal())
		report.Message = fmt.Sprintf("the command was ended by signal %d (%v)", status.Signal(), status.Signal())
	case status.ExitStatus() != 0:
		report.State, report.Exit = Failed, status.ExitStatus()
		report.Message = fmt.Sprintf("the command ended with status %d", status.ExitStatus())
	}
	s.finish(report)
	if !open {
		return
	}
	debug.FreeOSMemory() // the next wait may be long
	_ = r.SetReadDeadline(time.Time{})
	_, _ = io.Copy(l, r)
}

// shell waits for the shell only, not for its background processes. The kernel kills the shell
// when this process ends. Otherwise the next step could run beside the old shell.
func (o *Assignment) shell(user account, out *os.File) (status syscall.WaitStatus, err error) {
	var path string
	for _, path = range shellPaths(o.Shell) {
		if _, err = os.Stat(path); err == nil {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("the node has no %s", o.Shell)
	}
	c := &exec.Cmd{
		Path: path, Args: []string{o.Shell, "-c", o.Command}, Env: user.environment(), Dir: user.home, Stdout: out, Stderr: out,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if st, e := os.Stat(c.Dir); e != nil || !st.IsDir() {
		c.Dir = "/"
	}
	err = c.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.Sys().(syscall.WaitStatus), nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s cannot be started: %w", o.Shell, err)
	}
	return 0, nil
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
