package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/am/fileowner"
	"patchbay/am/site"
)

// findProgram is the absolute path of one of our own programs: beside this one,
// or else on the PATH.
func findProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program (%s) nor on the PATH; build both with: make build", name, filepath.Dir(self))
	}
	return filepath.Abs(path)
}

// openOutput opens a file that the user named, to write into it.
func openOutput(name string, flags int) (f *os.File, err error) {
	err = fileowner.As(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o644)
		return err
	})
	return f, err
}

// readInput reads a file that the user named; - is standard input.
func readInput(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	text, err := site.ReadRegular(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingFile{name}
	}
	return text, site.SuggestPipe(err)
}

// missingFile says that a file that the user named is not there.
type missingFile struct{ name string }

func (e missingFile) Error() string { return "there is no file " + e.name }
func (e missingFile) Unwrap() error { return fs.ErrNotExist }

// toTerminal tells whether w is a terminal.
func toTerminal(w io.Writer) bool {
	f, ok := site.FileOf(w)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// confirmed asks a question at a terminal, and tells whether the answer is yes. Where in or
// out is no terminal there is no one to ask, and it returns true.
func confirmed(in *os.File, out io.Writer, question string) bool {
	return !toTerminal(in) || !toTerminal(out) || answersYes(in, out, question)
}

// answersYes asks a question and tells whether the answer is clearly yes.
func answersYes(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question)
	const most = 100 // bytes of an answer
	answer, _ := bufio.NewReader(io.LimitReader(in, most)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// openPrivate is openOutput for a file that nobody else may read.
func openPrivate(name string, flags int) (f *os.File, err error) {
	err = fileowner.As(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|flags, 0o600)
		return err
	})
	return f, err
}

// startServer serves a site in the background, with program: in a session of its own, with its output
// in log, and with any free port for the admin listener. It goes on when this process
// ends; ended tells when it does so sooner.
func startServer(program, config string, log *os.File) (ended <-chan error, err error) {
	cmd := exec.Command(program, "serve", "--config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, site.EnvPrefix) }), site.EnvPrefix+"ADMIN=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Whoever called us may have left files open: a pipe or a lock would be held as long
	// as the site is served.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot start the server without the files that are open: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("it was stopped")
		}
		done <- err
	}()
	return done, nil
}

// runHelper runs another of our programs and returns what it writes.
func runHelper(ctx context.Context, name string, args ...string) (string, error) {
	program, err := findProgram(name)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}

// runSSH runs OpenSSH with our standard streams and gives its exit status, 255 where it
// was killed. config is its configuration, whose owner root becomes for it: OpenSSH runs
// programs that are named there.
func runSSH(c console, config string, args ...string) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return errors.New("there is no ssh on the PATH; install openssh-client")
	}
	cmd := exec.Command(program, append([]string{"-F", config}, args...)...)
	if uid, gid, ok, err := fileowner.Other(filepath.Dir(config)); err != nil {
		return err
	} else if ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, plainWriter(c.out), plainWriter(c.err)
	// A Ctrl-C is for ssh and what runs in the node.
	err = cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if e.ExitCode() < 0 {
			return exitError(255)
		}
		return exitError(e.ExitCode())
	}
	return err
}

// plainWriter is the file under a writer, where there is one, so that a program which
// gets it sees a terminal as one.
func plainWriter(w io.Writer) io.Writer {
	if f, ok := site.FileOf(w); ok {
		return f
	}
	return w
}

// removeFile removes a file of the owner of its folder; one that is gone is no error.
func removeFile(name string) error {
	err := fileowner.As(filepath.Dir(name), func() error { return os.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
