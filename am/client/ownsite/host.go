package ownsite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/am/file"
	"patchbay/am/site"
)

// HostProblem returns why the local testbed cannot run on this host, or "".
func HostProblem(ctx context.Context) string {
	if os.Geteuid() != 0 {
		return "that needs root; run it as root, or with sudo"
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return "there is no ssh on the PATH to log in with; install openssh-client"
	}
	helper, err := FindProgram("patchbay-local")
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // a busy host takes long
	defer cancel()
	out, err := exec.CommandContext(ctx, helper, "doctor", "--quiet").Output()
	if err == nil {
		return ""
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return text
	}
	return fmt.Sprintf("%s failed: %v", display.ShellLine([]string{helper, "doctor", "--quiet"}), err)
}

// FreeAddress returns an address of this host with a port that no program uses now. The two ports after it are free,
// too, for health and metrics and for the pages.
func FreeAddress() (string, error) {
	const tries = 100
	for range tries {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		isFree := arePortsFree(first.Addr().(*net.TCPAddr).Port+1, 2)
		if err := first.Close(); err != nil || isFree {
			return first.Addr().String(), err
		}
	}
	return "", errors.New("this host has no three free ports in a row")
}

func arePortsFree(port, n int) bool {
	for p := range n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+p)))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// FindProgram returns the absolute path of one of our programs. It searches this program's
// folder before the PATH.
func FindProgram(name string) (string, error) {
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

// openPrivate opens a file that only its owner may read. It does not follow a symbolic
// link.
func openPrivate(name string, flags int) (f *os.File, err error) {
	err = file.AsOwner(filepath.Dir(name), func() (err error) {
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
	program, err := FindProgram(name)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}
