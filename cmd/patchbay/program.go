package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/am/file"
	"patchbay/am/site"
)

// openOutput opens a file that the user named, with the rights of the folder's owner.
func openOutput(name string, flags int) (f *os.File, err error) {
	err = file.AsOwner(filepath.Dir(name), func() (err error) {
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

// runSSH returns the exit status as an exitError, 255 if OpenSSH was killed. Root runs
// OpenSSH with the rights of the owner of the configuration's folder, since the
// configuration can name programs to run.
func runSSH(c console, config string, args ...string) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return errors.New("there is no ssh on the PATH; install openssh-client")
	}
	cmd := exec.Command(program, append([]string{"-F", config}, args...)...)
	if uid, gid, ok, err := file.OtherOwner(filepath.Dir(config)); err != nil {
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
