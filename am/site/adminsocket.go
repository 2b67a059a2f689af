package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"patchbay/am/file"
	"patchbay/inventory/provider/fdsocket"
)

// adminSocket is a listening socket for root and the server's user only. It checks the peer of
// each connection, because an operator may change the mode of the file by mistake.
type adminSocket struct {
	*net.UnixListener
	path       string
	info       fs.FileInfo // of the socket's file, which another server may replace
	log        *slog.Logger
	quietUntil time.Time // no warning about refused users before this time; used by Accept only
	refused    int       // refused connections since the last warning; used by Accept only
}

const warnInterval = time.Minute

// listenSocket replaces the socket of a server that has ended. It fails if a server answers
// there, or if path is not a socket.
func listenSocket(path string, log *slog.Logger) (s *adminSocket, err error) {
	err = file.AsOwner(filepath.Dir(path), func() (err error) { s, err = createSocket(path, log); return err })
	return s, err
}

// createSocket runs as the owner of the socket's folder.
func createSocket(path string, log *slog.Logger) (*adminSocket, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s exists and is not a socket; move it away", path)
	}
	if answersAt(path) {
		return nil, fmt.Errorf("another server answers at %s; stop it, or give this site a folder of its own", path)
	}
	if err := os.RemoveAll(path + ".new"); err != nil { // earlier versions have left a folder there
		return nil, err
	}
	l, err := fdsocket.Listen(path, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &adminSocket{UnixListener: l, path: path, info: info, log: log}, nil
}

func answersAt(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := fdsocket.Connect(ctx, path)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// isServed reports whether the site's server answers at its socket.
func (c *Config) isServed() bool { return answersAt(socketPath(c)) }

// Accept returns the next connection of root or of the server's user. It closes those of other users.
func (s *adminSocket) Accept() (net.Conn, error) {
	for {
		c, err := s.AcceptUnix()
		if err != nil {
			return nil, err
		}
		user := -1 // unknown
		peer, err := fdsocket.Peer(c)
		if err == nil {
			user = int(peer.Uid)
		}
		if user == 0 || user == os.Geteuid() {
			return c, nil
		}
		c.Close()
		s.refused++
		if now := time.Now(); now.After(s.quietUntil) {
			s.log.Warn("a user was refused at the admin socket, which is only for root and the server's own user; make sure that its mode is 0600",
				"socket", s.path, "user", user, "times", s.refused, "error", err)
			s.quietUntil, s.refused = now.Add(warnInterval), 0
		}
	}
}

// remove closes the socket. It keeps the file if another server has replaced it.
func (s *adminSocket) remove() {
	s.Close()
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.info) {
		os.Remove(s.path)
	}
}
