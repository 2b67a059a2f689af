package fdsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The path of a socket may exceed the kernel's limit of 107 bytes. So Connect and Listen
// use a short path, through a descriptor of the socket's folder.

// Dial connects to the socket at path.
func Dial(ctx context.Context, path string) (*Conn, error) {
	c, err := Connect(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", path, err)
	}
	return New(c), nil
}

// Connect connects to the socket at path, and returns the connection itself instead of a
// Conn. Its error does not contain the path.
func Connect(ctx context.Context, path string) (*net.UnixConn, error) {
	var c net.Conn
	err := withShortPath(path, func(short string) (err error) {
		c, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // without the short path, which means nothing to users
	}
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Listen creates a listening socket at path with the permissions in mode. It replaces an
// existing file. Close of the listener does not remove the socket.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	// The new file gets the mode of the socket without the bits of the umask. So it never
	// has more permissions than mode.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		controlled := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), uint32(mode.Perm())) })
		return errors.Join(controlled, err)
	}}
	var made net.Listener
	err := withShortPath(fresh, func(short string) (err error) {
		made, err = private.Listen(context.Background(), "unix", short)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot listen at %s: %w", path, err)
	}
	l := made.(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(fresh, mode); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		l.Close()
		os.Remove(fresh)
		return nil, err
	}
	return l, nil
}

// withShortPath calls f with an alias that is valid until f returns.
func withShortPath(path string, f func(alias string) error) error {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
}
