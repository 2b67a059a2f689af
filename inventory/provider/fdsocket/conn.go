package fdsocket

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxFiles is the most files in one message.
const MaxFiles = 64

// header is the size in bytes of a message's header, which holds the message's length.
const header = 4

// ErrTooBig means that a message is larger than the receiver allows.
var ErrTooBig = errors.New("the message is too big")

// Conn is one end of a connection. One goroutine may send while another
// receives.
type Conn struct{ c *net.UnixConn }

// New returns a Conn that uses and owns the connected stream socket c.
func New(c *net.UnixConn) *Conn { return &Conn{c} }

// Pair returns a connected pair: this process's end, and a file for another process.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pair of sockets: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	ours, err := FromFile(os.NewFile(uintptr(fds[0]), "socket"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// FromFile returns a Conn for a file that is a connected Unix stream socket. It closes the
// file.
func FromFile(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is no Unix socket", f.Name()), c.Close())
	}
	return New(u), nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// SetDeadline sets the time after which sends and receives fail; the zero time means no
// limit.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// File returns another descriptor of the socket, for another process.
func (c *Conn) File() (*os.File, error) { return c.c.File() }

// Peer returns the user and the process that created the other end of the connection.
func (c *Conn) Peer() (*unix.Ucred, error) { return Peer(c.c) }

// Peer returns the user and the process that created the other end of a Unix socket.
func Peer(c syscall.Conn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlled := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(controlled, err); err != nil {
		return nil, fmt.Errorf("cannot read the credentials of the other end of a socket: %w", err)
	}
	return cred, nil
}

// Send sends v as JSON, with files. The caller keeps the files.
func (c *Conn) Send(v any, files ...*os.File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("a message with %d files; at most %d are allowed", len(files), MaxFiles)
	}
	b, err := message(v)
	if err != nil {
		return err
	}
	return withDescriptors(files, make([]int, 0, len(files)), func(fds []int) error {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		n, _, err := c.c.WriteMsgUnix(b, rights, nil)
		if err != nil || n == len(b) { // an empty Write would fail if the peer has closed
			return err
		}
		_, err = c.c.Write(b[n:])
		return err
	})
}

// message returns the length of v's JSON text, and the text. The text has no HTML escapes,
// because an escape is six times as long as its character.
func message(v any) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, header))
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text := b.Bytes()[:b.Len()-1] // without its newline
	binary.BigEndian.PutUint32(text, uint32(len(text)-header))
	return text, nil
}

// withDescriptors calls f with fds and the descriptors of the files, which are valid until f returns. It does not use
// os.File.Fd, which makes a file blocking for all its users.
func withDescriptors(files []*os.File, fds []int, f func([]int) error) error {
	if len(files) == 0 {
		return f(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = withDescriptors(files[1:], append(fds, int(fd)), f) })
	return errors.Join(controlled, err)
}

// Receive reads one message of at most limit bytes into v, and returns the open files in
// the message, which the caller must close. More than maxFiles files are an error. At the end
// of the connection the error is io.EOF. After an error, Receive has closed the files.
func (c *Conn) Receive(v any, limit, maxFiles int) (got []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(got)
			got = nil
		}
	}()
	var head [header]byte
	var control []byte // for files
	if maxFiles > 0 {
		control = make([]byte, unix.CmsgSpace(4*maxFiles))
	}
	n, controlBytes, flags, _, err := c.c.ReadMsgUnix(head[:], control)
	if controlBytes > 0 {
		if got, err = receivedFiles(control[:controlBytes], err); err != nil {
			return got, err
		}
	}
	switch {
	case errors.Is(err, io.EOF) || err == nil && n == 0:
		return got, io.EOF
	case err != nil:
		return got, err
	case flags&unix.MSG_CTRUNC != 0 || len(got) > maxFiles: // control may hold one file more, because CmsgSpace rounds up
		return got, fmt.Errorf("more than %d files came with a message", maxFiles)
	}
	if _, err := io.ReadFull(c.c, head[n:]); err != nil {
		return got, unexpectedEOF(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if int64(size) > int64(limit) {
		return got, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrTooBig, size, limit)
	}
	text, err := c.read(int(size))
	if err != nil {
		return got, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return got, fmt.Errorf("the message cannot be read: %w", err)
	}
	return got, nil
}

// firstRoom is the most memory allocated before the first bytes of a message have arrived.
const firstRoom = 64 << 10

// read reads size bytes. It allocates memory as they arrive.
func (c *Conn) read(size int) ([]byte, error) {
	text := make([]byte, 0, min(size, firstRoom))
	for len(text) < size {
		text = slices.Grow(text, 1)
		n, err := c.c.Read(text[len(text):min(size, cap(text))])
		text = text[:len(text)+n]
		if err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	return text, nil
}

// unexpectedEOF replaces io.EOF, because the connection ended within a message.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// receivedFiles returns the files in control messages, also with an error. The error is err joined with that of
// parsing.
func receivedFiles(control []byte, err error) ([]*os.File, error) {
	messages, parsing := unix.ParseSocketControlMessage(control)
	err = errors.Join(err, parsing)
	var files []*os.File
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m) // other messages carry no files
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
