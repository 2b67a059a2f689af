package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// socketName is the socket, beside the configuration, by which providers ask
// a served site for manifests.
const socketName = "admin.sock"

// adminSocket is a listening socket that only its owner and root can reach.
type adminSocket struct {
	net.Listener
	path string
	info fs.FileInfo // of path, as long as it is ours
}

// listenSocket listens at path, in place of what a server that is gone has
// left there. It takes nothing from one that still answers, and nothing that is
// no socket.
func listenSocket(path string) (*adminSocket, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is there and no socket; move it away", path)
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	if c, err := net.DialTimeout("unix", short, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("another server answers at %s; stop it, or give this site a folder of its own", path)
	}
	// It is made in a folder that nobody else can enter, so that it has its mode
	// before anybody can connect.
	private := path + ".new"
	if err := os.RemoveAll(private); err != nil {
		return nil, err
	}
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short+".new", "s"), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	s := &adminSocket{Listener: l, path: path}
	made := filepath.Join(private, "s")
	err = os.Chmod(made, 0o600)
	if err == nil {
		s.info, err = os.Lstat(made)
	}
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// remove ends the socket, and takes it away if nobody has put another there.
func (s *adminSocket) remove() {
	s.Close()
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.info) {
		os.Remove(s.path)
	}
}

// maxSocketPath is how long the path of a socket may be.
const maxSocketPath = 100

// shortPath is another way to write path, short enough for the kernel; it holds
// until done is called.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath && !strings.ContainsRune(path, 0) {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
