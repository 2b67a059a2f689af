package setup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxSteps is the highest number of a step.
const maxSteps = 100000

// Main is the main function of this executable if it was called by the name Argv0. It does
// not return.
func Main() {
	if err := runArgs(os.Args[1:], inNode); err != nil {
		fmt.Fprintln(os.Stderr, Argv0+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runArgs(args []string, f folders) error {
	if os.Geteuid() != 0 {
		return errors.New("it must run as root")
	}
	if len(args) != 2 {
		return fmt.Errorf("it takes two arguments: %s, %s, %s or %s, and the number of a step", argDeliver, argRun, argWait, argEnd)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 || n > maxSteps {
		return fmt.Errorf("%.40q is not the number of a step", args[1])
	}
	unix.Umask(0o022)
	switch args[0] {
	case argRun:
		return run(f, n)
	case argWait:
		return awaitEnd(f, n)
	case argEnd:
		return end(f, n)
	case argDeliver:
		return deliver(f, n, os.Stdin)
	}
	return fmt.Errorf("unknown argument %.40q", args[0])
}

// run starts an attempt of step n unless that attempt or a later one has begun, reports the
// state of the step, and runs a started step to its end.
func run(f folders, n int) error {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxAssignment+1))
	if err != nil {
		return err
	}
	var o Assignment
	if len(text) > maxAssignment {
		return fmt.Errorf("the assignment has more than %d bytes", maxAssignment)
	}
	if err := decodeStrictly(text, &o); err != nil {
		return err
	}
	if err := checkStep(&o.Step); err != nil {
		return err
	}
	s, err := f.open(n)
	if err == nil {
		err = s.acquire()
	}
	if errors.Is(err, errRunning) {
		if b, ok, err := s.begun(); err != nil || ok && b.Attempt < o.Attempt {
			return fmt.Errorf("attempt %d of step %d still runs; end it before attempt %d", b.Attempt, n, o.Attempt)
		}
		return sendReport(s.running())
	}
	if err == nil {
		b, ok, unknown := s.begun()
		if unknown != nil || ok && b.Attempt >= o.Attempt {
			r := s.report()
			s.unlock()
			return sendReport(r)
		}
		err = s.markBegun(o.Attempt)
	}
	if err != nil {
		return sendReport(Report{State: Failed, Exit: 255, Attempt: o.Attempt, Message: fmt.Sprintf("it cannot start: %v", err)})
	}
	s.setProgress("")
	// The step continues even if the caller has ended, so this process must not be killed by
	// SIGPIPE. A handler instead of "ignore" keeps the default action for the commands of the
	// step.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, unix.SIGPIPE)
	_ = sendReport(s.running())
	if err := detach(); err != nil {
		return err
	}
	signal.Stop(unread)
	// The kernel kills a command when the thread that started the command ends. So the
	// goroutine keeps its thread.
	runtime.LockOSThread()
	o.run(s)
	return nil
}

func sendReport(r Report) error {
	_, err := os.Stdout.Write(r.encode())
	return err
}

// detach replaces standard input, output and error by /dev/null, so that the caller reads the
// end of the output.
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

// run carries out the step, and saves its result. If the account is missing, the step runs as root, or fails
// if it must run as the account.
func (o *Assignment) run(s *stepFiles) {
	user, missing := lookUpAccount(s.etc, o.Account)
	l, err := openLog(s.logs, s.logPath(o.Kind), user)
	if err != nil {
		s.finish(Report{State: Failed, Exit: 255, Message: fmt.Sprintf("its log cannot be created: %v", err)})
		return
	}
	switch {
	case o.AsUser && o.Account == "":
		s.finish(l.failure(126, errors.New("it must run as the first account, and the node has no account")))
		return
	case o.AsUser && missing != nil:
		s.finish(l.failure(126, fmt.Errorf("it must run as the first account: %w", missing)))
		return
	case missing != nil:
		l.note("%v: the step runs as root", missing)
	}
	switch o.Kind {
	case Install:
		s.finish(o.install(s, user, l))
	case UserData:
		o.seed(s, l)
	case Disk:
		s.finish(o.verifyDisk(l))
	default:
		o.execute(s, user, l)
	}
}

// finish also unlocks the step. A result that cannot be saved counts as an interruption.
func (s *stepFiles) finish(r Report) {
	_ = s.saveReport(r)
	s.unlock()
}

// awaitEnd reports the state of the step, its progress and the end of its output until the step or
// the caller has ended.
func awaitEnd(f folders, n int) error {
	s, err := f.open(n)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the caller has ended
	}()
	over := make(chan error, 1)
	go func() { over <- s.wait() }()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	var sent Report
	var outputAt time.Time // when the output was last read
	for {
		select {
		case err := <-over:
			if err != nil {
				return err
			}
			return sendReport(s.report())
		case <-tick.C:
		}
		now := s.running()
		now.Output = sent.Output
		if time.Since(outputAt) >= outputInterval {
			outputAt, now.Output = time.Now(), s.logTail()
		}
		if now.Progress != sent.Progress || now.Output != sent.Output {
			sent = now
			if err := sendReport(now); err != nil {
				return err
			}
		}
	}
}
