package site

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/am/fileowner"
)

// SocketName is the socket, beside the configuration, by which providers ask
// a served site for manifests.
const SocketName = "admin.sock"

// adminSocket is a listening socket that only its owner and root can reach: by
// its mode, and by a look at who comes, since modes are changed by mistake.
type adminSocket struct {
	net.Listener
	path   string
	info   fs.FileInfo // of path, as long as it is ours
	log    *slog.Logger
	quiet  time.Time // until when nothing is said of those who are sent away; Accept's
	turned int       // of whom nothing was said yet; Accept's
}

// quietTime is how often at most the log tells of users who are sent away.
const quietTime = time.Minute

// listenSocket listens at path, in place of what a server that is gone has
// left there. It takes nothing from one that still answers, and nothing that is
// no socket.
func listenSocket(path string, log *slog.Logger) (s *adminSocket, err error) {
	err = fileowner.As(filepath.Dir(path), func() (err error) { s, err = makeSocket(path, log); return err })
	return s, err
}

func makeSocket(path string, log *slog.Logger) (*adminSocket, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is there and no socket; move it away", path)
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	if somebodyAt(short) {
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
	s := &adminSocket{Listener: l, path: path, log: log}
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

// somebodyAt tells whether a server is at a socket.
func somebodyAt(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// served tells whether a server of this very site is at its socket.
func (c *Config) served() bool {
	short, done, err := shortPath(filepath.Join(filepath.Dir(c.Origin.File), SocketName))
	if err != nil {
		return false
	}
	defer done()
	return somebodyAt(short)
}

// Accept waits for root or the server's own user, and sends all others away.
func (s *adminSocket) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		user, err := peerUser(c)
		if err == nil && (user == 0 || user == os.Geteuid()) {
			return c, nil
		}
		c.Close()
		s.turned++
		if now := time.Now(); now.After(s.quiet) {
			s.log.Warn("a user may not ask at the socket, only root and the server's own user may; see that its mode is 0600",
				"socket", s.path, "user", user, "times", s.turned, "error", err)
			s.quiet, s.turned = now.Add(quietTime), 0
		}
	}
}

// peerUser is the user id of the process that made the connection c, -1 if it
// cannot be told.
func peerUser(c net.Conn) (int, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return -1, fmt.Errorf("%T is no connection of a Unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1, err
	}
	var peer *unix.Ucred
	controlled := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(controlled, err); err != nil {
		return -1, err
	}
	return int(peer.Uid), nil
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

// ErrNotServed says that nobody answers at a site's socket.
var ErrNotServed = errors.New("the site is not served")

const (
	// askTimeout is how long a served site may take to answer.
	askTimeout = 30 * time.Second
	// maxAnswer is the length in bytes of what it answers, at most.
	maxAnswer = 8 << 20
)

// Ask asks a served site at its socket, and reads the JSON that it answers.
func Ask(ctx context.Context, c *Config, what string, answer any) error {
	return speakSite(ctx, c, http.MethodGet, what, nil, answer)
}

// Order has a served site do what the JSON of said asks for, and reads the JSON
// that it answers.
func Order(ctx context.Context, c *Config, what string, said, answer any) error {
	body, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return speakSite(ctx, c, http.MethodPost, what, body, answer)
}

// nobodyAt tells whether an error of the socket says that no server is there. One
// that was killed may leave connections behind, which are then reset; that none is
// there the lock of the store proves.
func nobodyAt(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func speakSite(ctx context.Context, c *Config, method, what string, said []byte, answer any) error {
	path := filepath.Join(filepath.Dir(c.Origin.File), SocketName)
	status, body, told, err := askSocket(ctx, path, method, what, said)
	told = told && method == http.MethodPost
	switch {
	case nobodyAt(err) && !told:
		return ErrNotServed
	case err != nil && told:
		return inDoubt(ctx, c, err)
	case err != nil:
		return unasked(ctx, path, err)
	case status != http.StatusOK:
		return refusalOf(status, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		err = fmt.Errorf("the served site answers what cannot be read: %w", err)
		if told {
			return inDoubt(ctx, c, err)
		}
		return err
	}
	return nil
}

// inDoubt is the error of an order that the site was told, and of which nobody knows
// what came.
func inDoubt(ctx context.Context, c *Config, err error) error {
	return fmt.Errorf("the served site was told, but %w. It may have been done, or be done yet: before you say it again, look with: %s",
		unanswered(ctx, err), display.CommandAt(c.Origin.File, "journal", "--since", "10m"))
}

// unasked is the error of a question that was not answered.
func unasked(ctx context.Context, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the served site cannot be asked at %s: %w; be its user, or root", path, err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the served site answers nothing at %s; only its user and root are answered, and the log says who was sent away, or what went wrong", path)
	}
	return fmt.Errorf("the served site cannot be asked at %s: %w; ask again, and see its log", path, unanswered(ctx, err))
}

// unanswered says why an answer has not come.
func unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("you have not waited for the answer: %w", ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it has not answered within %s", display.Duration(askTimeout))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || nobodyAt(err):
		return errors.New("it has gone before the answer")
	}
	return err
}

// refusalOf is the error of a served site that answers with another status than
// 200. What it refuses, 422, is said in its words alone.
func refusalOf(status int, body []byte) error {
	if status == http.StatusUnprocessableEntity {
		return errors.New(display.Printable(strings.TrimSpace(string(body))))
	}
	return fmt.Errorf("the served site answers %d: %.500s", status, display.Printable(strings.TrimSpace(string(body))))
}

// Stream asks a served site for something long, and hands it on as it comes. An
// answer that breaks off is an error; one of w is given as it is.
func Stream(ctx context.Context, c *Config, what string, w io.Writer) error {
	path := filepath.Join(filepath.Dir(c.Origin.File), SocketName)
	short, done, err := shortPath(path)
	if err != nil {
		return err
	}
	defer done()
	conn, err := net.DialTimeout("unix", short, askTimeout)
	switch {
	case nobodyAt(err):
		return ErrNotServed
	case err != nil:
		return unasked(ctx, path, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	// The end of an answer of HTTP/1.0 looks like that of its sender.
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: site\r\nConnection: close\r\n\r\n", what); err != nil {
		return unasked(ctx, path, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(&byParts{conn}), nil)
	if err != nil {
		return unasked(ctx, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return cmp.Or(err, refusalOf(resp.StatusCode, body))
	}
	out := &Output{To: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if lost := out.Lost(); lost != nil {
			return lost
		}
		if ctx.Err() != nil {
			return unasked(ctx, path, err)
		}
		return fmt.Errorf("the answer of the served site broke off: %w; it waits for who reads slowly only as long as it has room, so ask again, or for less", err)
	}
	return nil
}

// byParts waits for each part of an answer as long as for a whole one that is short.
type byParts struct{ net.Conn }

func (p *byParts) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// askSocket sends one request over one connection. told says that all of it was sent.
func askSocket(ctx context.Context, path, method, what string, said []byte) (status int, body []byte, told bool, err error) {
	short, done, err := shortPath(path)
	if err != nil {
		return 0, nil, false, err
	}
	defer done()
	conn, err := net.DialTimeout("unix", short, askTimeout)
	if err != nil {
		return 0, nil, false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, nil, false, err
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.0\r\nHost: site\r\nContent-Length: %d\r\n\r\n%s", method, what, len(said), said); err != nil {
		return 0, nil, false, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxAnswer)), nil)
	if err != nil {
		return 0, nil, true, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, true, err
}
