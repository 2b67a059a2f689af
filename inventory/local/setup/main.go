package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxSteps bounds the number of a step.
const maxSteps = 100000

// Main is the program under the name Argv0. It does not return.
func Main() {
	if err := runArgs(os.Args[1:], inNode); err != nil {
		fmt.Fprintln(os.Stderr, Argv0+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runArgs(args []string, f folders) error {
	if os.Geteuid() != 0 {
		return errors.New("only root does this")
	}
	if len(args) != 2 {
		return fmt.Errorf("it takes a word and the number of a step: %s or %s", argRun, argWait)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 || n > maxSteps {
		return fmt.Errorf("%.40q is no number of a step", args[1])
	}
	unix.Umask(0o022)
	switch args[0] {
	case argRun:
		return run(f, n)
	case argWait:
		return wait(f, n)
	}
	return fmt.Errorf("unknown word %.40q", args[0])
}

// run reads the order, begins the step unless it has begun, says how it is, and
// does it.
func run(f folders, n int) error {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxAssignment+1))
	if err != nil {
		return err
	}
	var o Assignment
	if len(text) > maxAssignment {
		return fmt.Errorf("the order has more than %d bytes", maxAssignment)
	}
	if err := decodeStrictly(text, &o); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	s, err := f.open(n)
	if err == nil {
		err = s.acquire()
	}
	if err == nil {
		if r := s.report(); r.State != Waiting {
			return sendReport(r)
		}
		err = s.markBegun()
	}
	switch {
	case errors.Is(err, errRunning):
		return sendReport(Report{State: Running})
	case errors.Is(err, fs.ErrExist):
		return sendReport(s.report())
	case err != nil:
		return sendReport(Report{State: Failed, Exit: 255, Message: fmt.Sprintf("it cannot begin: %v", err)})
	}
	// Whoever asked may be gone by now; the step goes on all the same. It would end by
	// SIGPIPE if nobody caught that. A command of the step gets the usual action again.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, unix.SIGPIPE)
	_ = sendReport(Report{State: Running})
	if err := detach(); err != nil {
		return err
	}
	signal.Stop(unread)
	// Thread and goroutine stay together, for a command ends with the thread that
	// started it.
	runtime.LockOSThread()
	o.run(s)
	return nil
}

func sendReport(r Report) error {
	_, err := os.Stdout.Write(r.encode())
	return err
}

// detach lets go of the files of who asked.
func detach() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return err
		}
	}
	return unix.Close(null)
}

// run does the step and notes what came of it.
func (o *Assignment) run(s *stepFiles) {
	user, missing := lookUpAccount(passwdFile, o.Account)
	l, err := openLog(s.logs, s.logPath(o.Kind), user)
	if err != nil {
		s.finish(Report{State: Failed, Exit: 255, Message: fmt.Sprintf("its log cannot be made: %v", err)})
		return
	}
	if missing != nil {
		l.note("%v: the step is root's", missing)
	}
	if o.Kind == Install {
		s.finish(o.install(s, user, l))
		return
	}
	o.execute(s, user, l)
}

// finish writes down what came of the step and lets others go on. What cannot be
// written down counts as interrupted.
func (s *stepFiles) finish(r Report) {
	_ = s.saveReport(r)
	s.unlock()
}

// wait tells how the step is until it is over, or nobody listens any more.
func wait(f folders, n int) error {
	s, err := f.open(n)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	over := make(chan error, 1)
	go func() { over <- s.wait() }()
	look := time.NewTicker(progressInterval)
	defer look.Stop()
	told := ""
	for {
		select {
		case err := <-over:
			if err != nil {
				return err
			}
			return sendReport(s.report())
		case <-look.C:
		}
		if now := s.progress(); now != told {
			told = now
			if err := sendReport(Report{State: Running, Progress: now}); err != nil {
				return err
			}
		}
	}
}
