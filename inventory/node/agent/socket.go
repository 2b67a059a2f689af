package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

// Dial connects to an address from inside the node. network is "tcp" or "unix". It
// connects to a Unix socket with the rights of the account user, so that a login gives no
// more access than its account has. An empty user means root.
func Dial(ctx context.Context, c *fdsocket.Conn, network, address, user string) (net.Conn, error) {
	f, err := requestSocket(ctx, c, request{Op: opDial, Network: network, Address: address, User: user}, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}

// Listen opens a listener inside the node. network is "tcp" or "unix". A Unix socket
// belongs to the account owner, and only this account can connect to it. An empty owner
// means root. Listen replaces an existing socket, and creates missing folders below /tmp.
// Ports below 1024 need root.
//
// All accounts can connect to the socket GeniSocket. The agent keeps it and port 22 open,
// so that a repeated call gets the same listener with its pending connections.
func Listen(ctx context.Context, c *fdsocket.Conn, network, address, owner string) (net.Listener, error) {
	f, err := requestSocket(ctx, c, request{Op: opListen, Network: network, Address: address, User: owner}, 1)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// requestSocket sends a request for a socket to the agent at c, and checks the socket that it returns. The
// parameter listening is the required value of SO_ACCEPTCONN: 1 for a listener and 0 for a connection.
func requestSocket(ctx context.Context, c *fdsocket.Conn, r request, listening int) (*os.File, error) {
	defer c.Close()
	if r.Network != "tcp" && r.Network != "unix" {
		return nil, fmt.Errorf("the network %q is neither tcp nor unix", r.Network)
	}
	_, got, err := call(ctx, c, r, nil, 1)
	if err != nil {
		return nil, err
	}
	if len(got) != 1 {
		return nil, fmt.Errorf("the node's agent sent no socket for %s %s", r.Op, r.Network)
	}
	f, err := verifiedFile(got[0], func(fd int) error { return checkSocket(fd, r.Network, listening) })
	if err != nil {
		return nil, fmt.Errorf("the node's agent sent a wrong file for %s %s: %w", r.Op, r.Network, err)
	}
	return f, nil
}

// checkSocket fails unless fd is a stream socket of the network. It must be a listener if listening is 1,
// and connected if it is 0.
func checkSocket(fd int, network string, listening int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("it is not a socket")
	}
	for _, option := range []struct {
		name   string
		number int
		want   []int
	}{
		{"family", unix.SO_DOMAIN, domains(network)},
		{"type", unix.SO_TYPE, []int{unix.SOCK_STREAM}},
		{"protocol", unix.SO_PROTOCOL, []int{protocol(network)}},
		{"listening", unix.SO_ACCEPTCONN, []int{listening}},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option.number)
		if err != nil {
			return err
		}
		if !slices.Contains(option.want, got) {
			return fmt.Errorf("the socket's %s is %d", option.name, got)
		}
	}
	if listening == 0 {
		if _, err := unix.Getpeername(fd); err != nil {
			return fmt.Errorf("it is not connected: %w", err)
		}
	}
	return nil
}

func domains(network string) []int {
	if network == "unix" {
		return []int{unix.AF_UNIX}
	}
	return []int{unix.AF_INET, unix.AF_INET6}
}

func protocol(network string) int {
	if network == "unix" {
		return 0
	}
	return unix.IPPROTO_TCP
}

// verifiedFile closes f, and returns a copy of it if check accepts it. The copy is in
// non-blocking mode, so that waiting for it takes no thread.
func verifiedFile(f *os.File, check func(fd int) error) (*os.File, error) {
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	controlled := raw.Control(func(own uintptr) {
		if err = check(int(own)); err != nil {
			return
		}
		if fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	})
	if err = errors.Join(controlled, err); err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, err
	}
	return os.NewFile(uintptr(fd), "agent"), nil
}
