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
	if err := be(os.Args[1:], inNode); err != nil {
		fmt.Fprintln(os.Stderr, Argv0+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func be(args []string, f folders) error {
	if os.Geteuid() != 0 {
		return errors.New("only root does this")
	}
	if len(args) != 2 {
		return fmt.Errorf("it takes a word and the number of a step: %s or %s", wordRun, wordWait)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 || n > maxSteps {
		return fmt.Errorf("%.40q is no number of a step", args[1])
	}
	unix.Umask(0o022)
	switch args[0] {
	case wordRun:
		return run(f, n)
	case wordWait:
		return wait(f, n)
	}
	return fmt.Errorf("unknown word %.40q", args[0])
}

// run reads the order, begins the step unless it has begun, says how it is, and
// does it.
func run(f folders, n int) error {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxOrder+1))
	if err != nil {
		return err
	}
	var o Order
	if len(text) > maxOrder {
		return fmt.Errorf("the order has more than %d bytes", maxOrder)
	}
	if err := strictly(text, &o); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	s, err := f.open(n)
	if err == nil {
		err = s.take()
	}
	if err == nil {
		if r := s.report(); r.State != Waiting {
			return tell(r)
		}
		err = s.begin()
	}
	switch {
	case errors.Is(err, errRuns):
		return tell(Report{State: Running})
	case errors.Is(err, fs.ErrExist):
		return tell(s.report())
	case err != nil:
		return tell(Report{State: Failed, Exit: 255, Message: fmt.Sprintf("it cannot begin: %v", err)})
	}
	// Whoever asked may be gone by now; the step goes on all the same. It would end by
	// SIGPIPE if nobody caught that. A command of the step gets the usual action again.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, unix.SIGPIPE)
	_ = tell(Report{State: Running})
	if err := letGo(); err != nil {
		return err
	}
	signal.Stop(unread)
	// Thread and goroutine stay together, for a command ends with the thread that
	// started it.
	runtime.LockOSThread()
	o.do(s)
	return nil
}

func tell(r Report) error {
	_, err := os.Stdout.Write(r.encode())
	return err
}

// letGo lets go of the files of who asked.
func letGo() error {
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

// do does the step and notes what came of it.
func (o *Order) do(s *state) {
	who, missing := lookUp(passwdFile, o.Account)
	l, err := openLog(s.logs, s.logPath(o.Kind), who)
	if err != nil {
		s.finish(Report{State: Failed, Exit: 255, Message: fmt.Sprintf("its log cannot be made: %v", err)})
		return
	}
	if missing != nil {
		l.note("%v: the step is root's", missing)
	}
	if o.Kind == Install {
		s.finish(o.install(s, who, l))
		return
	}
	o.execute(s, who, l)
}

// finish writes down what came of the step and lets others go on. What cannot be
// written down counts as interrupted.
func (s *state) finish(r Report) {
	_ = s.end(r)
	s.free()
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
	look := time.NewTicker(sayEvery)
	defer look.Stop()
	told := ""
	for {
		select {
		case err := <-over:
			if err != nil {
				return err
			}
			return tell(s.report())
		case <-look.C:
		}
		if now := s.said(); now != told {
			told = now
			if err := tell(Report{State: Running, Progress: now}); err != nil {
				return err
			}
		}
	}
}
