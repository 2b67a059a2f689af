package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dialTime          = 10 * time.Second
	backlog           = 128 // connections waiting to be accepted
	backlogTCP        = 4096
	pathLimit         = 107 // bytes of a Unix socket's path
	firstUnprivileged = 1024
	loginPort         = 22
)

// dial connects to a TCP address in the node or, with the rights of the requested account, to a Unix socket.
func (a *agent) dial(r request) ([]*os.File, error) {
	if err := a.dials.acquire("connections under way"); err != nil {
		return nil, err
	}
	defer a.dials.release()
	user, err := accountOrRoot(r.User)
	if err != nil {
		return nil, err
	}
	switch r.Network {
	case "tcp":
		d := net.Dialer{Timeout: dialTime}
		c, err := d.Dial("tcp", r.Address)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return singleFile(c.(*net.TCPConn).File())
	case "unix":
		return singleFile(socketAs(user, r.Address, connectUnix))
	}
	return nil, fmt.Errorf("the network %q is neither tcp nor unix", printable(r.Network))
}

// listen opens a listener in the node with the rights of the requested account. The agent keeps the
// listeners of port 22 and of geni-get open, and returns a duplicate for a later request of root.
func (a *agent) listen(r request) ([]*os.File, error) {
	user, err := accountOrRoot(r.User)
	if err != nil {
		return nil, err
	}
	a.listening.Lock()
	defer a.listening.Unlock()
	key := r.Network + " " + r.Address
	if saved := a.listeners[key]; saved != nil && user.uid == 0 {
		if saved.isReachable() {
			return singleFile(saved.duplicate())
		}
		delete(a.listeners, key)
		saved.f.Close()
	}
	var f *os.File
	keep := false
	switch {
	case r.Network == "tcp":
		f, keep, err = listenTCP(r.Address, user)
	case r.Network == "unix" && r.Address == GeniSocket && user.uid == 0:
		f, err = listenGeni()
		keep = true
	case r.Network == "unix":
		f, err = socketAs(user, r.Address, listenUnix)
	default:
		err = fmt.Errorf("the network %q is neither tcp nor unix", printable(r.Network))
	}
	if err != nil || !keep {
		return singleFile(f, err)
	}
	saved := &savedListener{f: f}
	if r.Network == "unix" {
		saved.path = r.Address
		saved.created, err = os.Lstat(saved.path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	a.listeners[key] = saved
	return singleFile(saved.duplicate())
}

type savedListener struct {
	f       *os.File
	path    string      // of a Unix socket
	created os.FileInfo // the socket's file when it was created
}

// isReachable reports whether new connections can reach the listener. At the path of a
// Unix socket, there must still be the listener's own file.
func (k *savedListener) isReachable() bool {
	if k.path == "" {
		return true
	}
	now, err := os.Lstat(k.path)
	return err == nil && os.SameFile(now, k.created)
}

func (k *savedListener) duplicate() (*os.File, error) {
	raw, err := k.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	controlled := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	if err = errors.Join(controlled, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

func singleFile(f *os.File, err error) ([]*os.File, error) {
	if err != nil {
		return nil, err
	}
	return []*os.File{f}, nil
}

func accountOrRoot(name string) (account, error) {
	if name == "" {
		return root, nil
	}
	return lookUpAccount(name)
}

// listenTCP listens at an address of the node. Accounts other than root may not use ports below
// firstUnprivileged. The result keep means that the agent must keep the listener (port 22).
func listenTCP(address string, user account) (f *os.File, keep bool, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, false, err
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil && host != "" || ip.Zone() != "" {
		return nil, false, fmt.Errorf("%q is not an address to listen at", printable(host))
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, false, fmt.Errorf("%q is not a port number", printable(text))
	}
	if port > 0 && port < firstUnprivileged && user.uid != 0 {
		return nil, false, fmt.Errorf("port %d is below %d, where only root may listen", port, firstUnprivileged)
	}
	f, err = listenAt(ip, uint16(port))
	return f, port == loginPort, err
}

// listenAt listens at an address, or at all addresses if ip is zero or unspecified. Package net would
// allocate 64 KiB to read the maximal backlog, which the kernel applies anyway.
func listenAt(ip netip.Addr, port uint16) (*os.File, error) {
	all := !ip.IsValid() || ip.IsUnspecified()
	family := unix.AF_INET6
	if !all && ip.Is4() {
		family = unix.AF_INET
	}
	const kind = unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(family, kind, 0)
	if all && err == unix.EAFNOSUPPORT { // the host has no IPv6
		family = unix.AF_INET
		fd, err = unix.Socket(family, kind, 0)
	}
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	if err := bindListener(fd, family, ip, port, all); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// bindListener binds the socket fd to ip and port, and listens. If anyAddress is true, it listens at all
// addresses instead of ip; an IPv6 socket then also accepts IPv4.
func bindListener(fd, family int, ip netip.Addr, port uint16, anyAddress bool) error {
	var at unix.Sockaddr
	if family == unix.AF_INET {
		v4 := &unix.SockaddrInet4{Port: int(port)}
		if !anyAddress {
			v4.Addr = ip.As4()
		}
		at = v4
	} else {
		v6 := &unix.SockaddrInet6{Port: int(port)}
		if !anyAddress {
			v6.Addr = ip.As16()
		}
		only := 1
		if anyAddress {
			only = 0
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
		at = v6
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, at); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return os.NewSyscallError("listen", unix.Listen(fd, backlogTCP))
}

// socketAs creates a Unix socket with the rights of an account. The function
// connectOrListen connects the socket to path or listens there.
func socketAs(user account, path string, connectOrListen func(fd int, path string, user account) error) (*os.File, error) {
	if !filepath.IsAbs(path) || len(path) > pathLimit || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("%q is not a path of a Unix socket: it must be absolute and have at most %d bytes", printable(path), pathLimit)
	}
	fd := -1
	err := runAs(user, func() (err error) {
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		return connectOrListen(fd, filepath.Clean(path), user)
	})
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("%s: %w", printable(path), err)
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// connectUnix connects the socket fd to path. It retries for dialTime while the listener's backlog is full.
func connectUnix(fd int, path string, _ account) error {
	for until := time.Now().Add(dialTime); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if err != unix.EAGAIN || time.Now().After(until) { // EAGAIN: the backlog is full
			return err
		}
	}
}

// listenUnix binds the socket fd to path, and listens. It replaces an existing socket there. Only the account
// can connect.
func listenUnix(fd int, path string, user account) error {
	if err := makeFolder(filepath.Dir(path), user); err != nil {
		return err
	}
	if err := removeSocket(path); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, 0o600); err != nil { // bind creates the file with this mode
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	return unix.Listen(fd, backlog)
}

// makeFolder creates path if it is below /tmp. It fails if another account owns path,
// since every account can create folders in /tmp. Folders outside /tmp must exist.
func makeFolder(path string, user account) error {
	if !strings.HasPrefix(path, "/tmp/") {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	stat, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if s, ok := stat.Sys().(*syscall.Stat_t); !ok || !stat.IsDir() || s.Uid != user.uid {
		return fmt.Errorf("%s is not a folder of %s", path, user.name)
	}
	return nil
}

func removeSocket(path string) error {
	stat, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case stat.Mode()&fs.ModeSocket == 0:
		return errors.New("the path exists and is not a socket")
	}
	return os.Remove(path)
}

// listenGeni creates the socket of geni-get, which all accounts may use.
func listenGeni() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(GeniSocket), 0o755); err != nil {
		return nil, err
	}
	f, err := socketAs(root, GeniSocket, listenUnix)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(GeniSocket, 0o666); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
