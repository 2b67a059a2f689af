package setup

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds on what a server answers.
const (
	mostRedirects = 10
	maxHead       = 256 << 10 // bytes, with those of answers before the last
	headLine      = 32 << 10  // bytes
	headTime      = time.Minute
	connectTime   = 30 * time.Second
)

// client fetches with HTTP/1.1, one connection for each answer. The package
// net/http does far more, and would be in the memory of every node's PID 1, for
// that is the same program.
type client struct {
	roots  *x509.CertPool  // nil: those of the node
	pauses []time.Duration // before further attempts
	note   func(format string, args ...any)
}

// laterError is one that may pass: nobody answers yet, or the server has trouble.
type laterError struct{ error }

func (e *laterError) Unwrap() error { return e.error }

// answer is the body of an answer, and its length, -1 when that is not told.
type answer struct {
	io.Reader
	length int64
	conn   net.Conn
}

func (a *answer) Close() error { return a.conn.Close() }

// get follows redirects to the answer. It ends with ctx, and so does reading.
func (c *client) get(ctx context.Context, u *url.URL) (*answer, error) {
	for range mostRedirects + 1 {
		a, to, err := c.ask(ctx, u)
		if err != nil || a != nil {
			return a, err
		}
		next, err := u.Parse(to)
		if err == nil {
			next, err = parseURL(next.String())
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s redirects to what cannot be followed: %w", shown(u.String()), err)
		case u.Scheme == "https" && next.Scheme != "https":
			return nil, fmt.Errorf("%s redirects to %s, which is not protected; name that one if it is meant", shown(u.String()), shown(next.String()))
		}
		c.note("%s redirects to %s", shown(u.String()), shown(next.String()))
		u = next
	}
	return nil, fmt.Errorf("there are more than %d redirects", mostRedirects)
}

// ask asks one server: the answer, or where it redirects to.
func (c *client) ask(ctx context.Context, u *url.URL) (a *answer, to string, err error) {
	conn, err := c.connect(ctx, u)
	if err != nil {
		if mayPass(err) {
			err = &laterError{err}
		}
		return nil, "", err
	}
	defer func() {
		if a == nil {
			conn.Close()
		}
	}()
	context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // for reading the body, too
	late := time.AfterFunc(headTime, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if _, err := io.WriteString(conn, request(u)); err != nil {
		return nil, "", &laterError{err}
	}
	r := bufio.NewReaderSize(conn, headLine)
	h, err := readHead(r)
	if !late.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", shown(u.String()), err)
		if mayPass(err) {
			err = &laterError{err}
		}
		return nil, "", err
	}
	switch {
	case h.status == 200:
		body := h.body(r)
		return &answer{body, h.length, conn}, "", nil
	case h.status >= 301 && h.status <= 308 && h.location != "" && h.status != 304:
		return nil, h.location, nil
	}
	err = fmt.Errorf("%s answers %d %s", shown(u.String()), h.status, line(h.reason, 80))
	if h.status >= 500 {
		err = &laterError{err}
	}
	return nil, "", err
}

func (c *client) connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "http" {
		return conn, err
	}
	t := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), RootCAs: c.roots, MinVersion: tls.VersionTLS12})
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", shown(u.String()), err), conn.Close())
	}
	return t, nil
}

// mayPass tells whether it is of use to try again: not where the node has no way
// there, or no name for it, nor where the server is not who it should be or speaks
// another language.
func mayPass(err error) bool {
	for _, lasting := range []error{errNoHTTP, errEncoding, unix.ENETUNREACH} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	_, name := errors.AsType[*net.DNSError](err)
	_, wrong := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return !name && !wrong && !plain
}

// request is what a server is sent.
func request(u *url.URL) string {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: patchbay\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n", u.RequestURI(), u.Host)
	if u.User != nil {
		password, _ := u.User.Password()
		fmt.Fprintf(&b, "Authorization: Basic %s\r\n", base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	b.WriteString("\r\n")
	return b.String()
}

// head is what comes before a body.
type head struct {
	status           int
	reason, location string
	length           int64 // -1 when it is not told
	chunked          bool
}

// readHead reads the head of the answer, and passes over those that only say that
// it will come.
func readHead(r *bufio.Reader) (head, error) {
	left := maxHead
	for {
		h, err := readOne(r, &left)
		if err != nil || h.status >= 200 {
			return h, err
		}
	}
}

var (
	errNoHTTP   = errors.New("what the server answers is no HTTP")
	errEncoding = errors.New("the server sends in an encoding that is not known")
)

func readOne(r *bufio.Reader, left *int) (head, error) {
	h := head{length: -1}
	first, err := readLine(r, left)
	if err != nil {
		return h, err
	}
	version, rest, _ := strings.Cut(first, " ")
	code, reason, _ := strings.Cut(rest, " ")
	h.status, err = strconv.Atoi(code)
	if !strings.HasPrefix(version, "HTTP/1.") || err != nil || len(code) != 3 || h.status < 100 {
		return h, errNoHTTP
	}
	h.reason = reason
	for {
		text, err := readLine(r, left)
		if err != nil || text == "" {
			return h, err
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return h, errNoHTTP
		}
		if err := h.field(strings.ToLower(name), strings.TrimSpace(value)); err != nil {
			return h, err
		}
	}
}

func (h *head) field(name, value string) error {
	switch name {
	case "location":
		h.location = value
	case "content-length":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return fmt.Errorf("%w: its length is %.40q", errNoHTTP, value)
		}
		h.length = int64(n)
	case "transfer-encoding":
		if strings.EqualFold(value, "identity") {
			return nil
		}
		if !strings.EqualFold(value, "chunked") || h.chunked {
			return fmt.Errorf("%w: %.40q", errEncoding, value)
		}
		h.chunked = true
	}
	return nil
}

// body is what follows the head.
func (h *head) body(r *bufio.Reader) io.Reader {
	switch {
	case h.chunked:
		h.length = -1
		return &chunks{r: r}
	case h.length >= 0:
		return &exactly{r, h.length}
	}
	return r
}

// exactly reads so many bytes: fewer are an error.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// chunks reads a body that comes in chunks (RFC 9112, 7.1).
type chunks struct {
	r     *bufio.Reader
	left  int64 // of the chunk
	begun bool
	err   error
}

func (c *chunks) Read(b []byte) (int, error) {
	if c.err == nil && c.left == 0 {
		c.err = c.next()
	}
	if c.err != nil || len(b) == 0 {
		return 0, c.err
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	c.err = err
	return n, err
}

// next reads what stands before a chunk; after the last one it is io.EOF.
func (c *chunks) next() error {
	left := headLine
	if c.begun {
		if text, err := readLine(c.r, &left); err != nil {
			return err
		} else if text != "" {
			return fmt.Errorf("%w: a chunk is longer than it says", errNoHTTP)
		}
	}
	c.begun = true
	text, err := readLine(c.r, &left)
	if err != nil {
		return err
	}
	text, _, _ = strings.Cut(text, ";")
	size, err := strconv.ParseUint(strings.TrimSpace(text), 16, 63)
	if err != nil {
		return fmt.Errorf("%w: a chunk of %.20q bytes", errNoHTTP, text)
	}
	if c.left = int64(size); size > 0 {
		return nil
	}
	for left = maxHead; ; {
		if text, err := readLine(c.r, &left); err != nil {
			return err
		} else if text == "" {
			return io.EOF
		}
	}
}

// readLine reads a line, within what is left of the bytes for them.
func readLine(r *bufio.Reader, left *int) (string, error) {
	b, err := r.ReadSlice('\n')
	if *left -= len(b); errors.Is(err, bufio.ErrBufferFull) || *left < 0 {
		return "", fmt.Errorf("%w: its head is too long", errNoHTTP)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
