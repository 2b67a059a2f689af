package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
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
	fd, err := unix.PidfdOpen(pid, 0) // later signals reach this process only
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot stop the server, process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// If the server still answers, fd is the server, and not a newer process with the same id.
	if again, err := serverProcess(ctx, c); isNotRunning(err) || err == nil && *again != *server {
		return nil
	}
	if err := requireUser(pid, server.Uid); err != nil {
		return fmt.Errorf("cannot stop the server: %w; find the process that listens at %s", err, socketPath(c))
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); errors.Is(err, unix.ESRCH) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot stop the server, process %d: %w", pid, err)
	}
	for ctx.Err() == nil {
		// Readable means that the process has ended, even if its parent has not waited for it.
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20); n > 0 {
			return nil
		} else if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("the server, process %d, has not ended yet; its log says what it waits for; to end it at once, type: kill -KILL %d", pid, pid)
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
