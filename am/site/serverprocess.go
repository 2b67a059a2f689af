package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"patchbay/inventory/local/fdsocket"
)

// IsServed reports whether a server listens at the site's admin socket, even if it does
// not answer this user.
func IsServed(ctx context.Context, c *Config) bool {
	_, err := serverID(ctx, c)
	return err == nil || !nobodyAt(err)
}

// StopServer ends the server of a site with SIGTERM and waits for its end. It succeeds if
// the site is not served.
func StopServer(ctx context.Context, c *Config) error {
	pid, err := serverID(ctx, c)
	if nobodyAt(err) {
		return nil
	}
	if err != nil {
		return unasked(ctx, socketOf(c), err)
	}
	p, err := os.FindProcess(pid) // a pidfd: later signals reach this process only
	if err != nil {
		return err
	}
	defer p.Release()
	// The ID was still the server's if the server still answers.
	if again, err := serverID(ctx, c); nobodyAt(err) || err == nil && again != pid {
		return nil
	}
	if err := p.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot stop the server, process %d: %w", pid, err)
	}
	for p.Signal(syscall.Signal(0)) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server, process %d, has not ended: %w", pid, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// serverID returns the process ID of the server that listens at the admin socket.
func serverID(ctx context.Context, c *Config) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := fdsocket.Connect(ctx, socketOf(c))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	peer, err := fdsocket.Peer(conn)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}
