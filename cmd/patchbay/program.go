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

// findProgram returns the absolute path of one of our programs. It searches this program's
// folder before the PATH.
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

// openOutput opens a file that the user named, with the rights of the folder's owner.
func openOutput(name string, flags int) (f *os.File, err error) {
	err = fileowner.As(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o644)
		return err
	})
	return f, err
}

// readInput reads a file that the user named. The name - is standard input.
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

type missingFile struct{ name string }

func (e missingFile) Error() string { return "there is no file " + e.name }
func (e missingFile) Unwrap() error { return fs.ErrNotExist }

func toTerminal(w io.Writer) bool {
	f, ok := site.FileOf(w)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// confirmed reports whether the answer is yes. If the input or output is not a terminal, it
// returns true and asks nothing.
func confirmed(input *os.File, output io.Writer, question string) bool {
	return !toTerminal(input) || !toTerminal(output) || answersYes(input, output, question)
}

// answersYes accepts y and yes.
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

// openPrivate opens a file that only its owner may read. It does not follow a symbolic
// link.
func openPrivate(name string, flags int) (f *os.File, err error) {
	err = fileowner.As(filepath.Dir(name), func() (err error) {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|flags, 0o600)
		return err
	})
	return f, err
}

// startServer starts a program as a site's server, in a new session, so that the server
// outlives this process. The server uses a free port for the admin listener, and no other
// settings from the environment. The channel receives an error if the server ends before
// this process.
func startServer(program, config string, log *os.File) (ended <-chan error, err error) {
	cmd := exec.Command(program, "serve", "--config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, site.EnvPrefix) }), site.EnvPrefix+"ADMIN=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// This process may have inherited pipes and locks, which the server must not keep open.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot keep the open files of this process from the server: %w", err)
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

// runHelper returns the output of another of our programs.
func runHelper(ctx context.Context, name string, args ...string) (string, error) {
	program, err := findProgram(name)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}

// runSSH returns the exit status as an exitError, 255 if OpenSSH was killed. Root runs
// OpenSSH with the rights of the owner of the configuration's folder, since the
// configuration can name programs to run.
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
	// Do not end ssh with a context: Ctrl-C is for ssh and the command in the node.
	err = cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if e.ExitCode() < 0 {
			return exitError(255)
		}
		return exitError(e.ExitCode())
	}
	return err
}

// plainWriter returns the file behind a writer, if there is one. A child process can
// recognize only a file as a terminal.
func plainWriter(w io.Writer) io.Writer {
	if f, ok := site.FileOf(w); ok {
		return f
	}
	return w
}

// removeFile uses the rights of the folder's owner. It returns nil if the file does not
// exist.
func removeFile(name string) error {
	err := fileowner.As(filepath.Dir(name), func() error { return os.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
