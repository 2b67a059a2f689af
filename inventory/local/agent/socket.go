package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/fdsocket"
)

// Dial connects from inside the node; network is tcp or unix. At a Unix socket
// it has the rights of the account user, so that nobody gets further than by
// logging in; with an empty user those of root. The answer is a stream socket
// of that network, or an error.
func Dial(ctx context.Context, c *fdsocket.Conn, network, address, user string) (net.Conn, error) {
	f, err := requestSocket(ctx, c, request{Op: opDial, Network: network, Address: address, User: user}, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}

// Listen listens inside the node; network is tcp or unix. A Unix socket is made
// with the rights of the account owner, in place of a socket that is there, and
// nobody else can connect to it; folders of it below /tmp are made. With an
// empty owner it is root's. Whoever may log in asks for ports below 1024 only
// as root.
//
// GeniSocket is open for everybody. The agent keeps it, and port 22, so that
// who asks again gets the same queue.
func Listen(ctx context.Context, c *fdsocket.Conn, network, address, owner string) (net.Listener, error) {
	f, err := requestSocket(ctx, c, request{Op: opListen, Network: network, Address: address, User: owner}, 1)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// requestSocket asks for a socket and looks at what came.
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
		return nil, fmt.Errorf("the node's agent gave no socket for %s %s", r.Op, r.Network)
	}
	f, err := verifiedFile(got[0], func(fd int) error { return checkSocket(fd, r.Network, listening) })
	if err != nil {
		return nil, fmt.Errorf("the node's agent gave a wrong file for %s %s: %w", r.Op, r.Network, err)
	}
	return f, nil
}

// checkSocket holds a socket against what was asked for.
func checkSocket(fd int, network string, listening int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("it is no socket")
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

// verifiedFile is a file that came from an agent, once check has nothing against it,
// as one whose waiting takes no thread. f is closed.
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
