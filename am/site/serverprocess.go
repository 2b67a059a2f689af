package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/fdsocket"
)

// IsServed reports whether a server listens at the site's admin socket, even if it does
// not answer this user.
func IsServed(ctx context.Context, c *Config) bool {
	_, err := serverProcess(ctx, c)
	return err == nil || !isNotRunning(err)
}

// StopServer sends SIGTERM to the server of a site and waits for its end. It succeeds if the
// site is not served.
func StopServer(ctx context.Context, c *Config) error {
	server, err := serverProcess(ctx, c)
	if isNotRunning(err) {
		return nil
	}
	if err != nil {
		return askError(ctx, socketPath(c), err)
	}
	pid := int(server.Pid)
	p, err := os.FindProcess(pid) // a pidfd: later signals reach this process only
	if err != nil {
		return err
	}
	defer p.Release()
	// If the server still answers, p is the server, and not a newer process with the same id.
	if again, err := serverProcess(ctx, c); isNotRunning(err) || err == nil && *again != *server {
		return nil
	}
	if err := requireUser(pid, server.Uid); err != nil {
		return fmt.Errorf("cannot stop the server: %w; find the process that listens at %s", err, socketPath(c))
	}
	if err := p.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot stop the server, process %d: %w", pid, err)
	}
	for p.Signal(syscall.Signal(0)) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server, process %d, has not ended yet: %w", pid, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// serverProcess returns the process that listens at the admin socket, and its user. It fails if the
// socket's path is a symbolic link: a link can lead to the socket of another program.
func serverProcess(ctx context.Context, c *Config) (*unix.Ucred, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if info, err := os.Lstat(socketPath(c)); err != nil {
		return nil, err
	} else if info.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("it is not a socket")
	}
	conn, err := fdsocket.Connect(ctx, socketPath(c))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return fdsocket.Peer(conn)
}

// requireUser fails unless the process pid runs as the user uid, which created the socket. A
// child of an ended server may still have the socket open, while the server's process id
// already belongs to a process of another user. StopServer must not end that process.
func requireUser(pid int, uid uint32) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "Uid:" && f[2] == strconv.FormatUint(uint64(uid), 10) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not belong to user %d, which created the socket", pid, uid)
}
