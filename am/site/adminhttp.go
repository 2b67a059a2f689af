package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"patchbay/am/display"
)

// ErrNotServed says that no server answers at a site's socket.
var ErrNotServed = errors.New("the site is not served")

const (
	// askTimeout is how long a served site may take for each part of its answer.
	askTimeout = 30 * time.Second
	// maxAnswer is the length in bytes of an answer that is read as a whole, at most.
	maxAnswer = 8 << 20
)

// Ask asks a served site at its socket, and reads the JSON that it answers.
func Ask(ctx context.Context, c *Config, what string, answer any) error {
	return exchange(ctx, c, http.MethodGet, what, nil, answer)
}

// Order has a served site do what the JSON of said asks for, and reads the JSON
// that it answers. An error says whether the site may have done it.
func Order(ctx context.Context, c *Config, what string, said, answer any) error {
	body, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return exchange(ctx, c, http.MethodPost, what, body, answer)
}

func exchange(ctx context.Context, c *Config, method, what string, body []byte, answer any) error {
	resp, sent, err := request(ctx, c, method, what, body)
	if err == nil {
		err = decode(resp, answer)
	}
	_, isRefused := errors.AsType[*refusedError](err)
	_, isUnreadable := errors.AsType[*unreadableError](err)
	isOrder := method == http.MethodPost
	switch {
	case err == nil || isRefused || isUnreadable && !isOrder:
		return err
	case sent && isOrder:
		return inDoubt(ctx, c, err)
	case nobodyAt(err):
		return ErrNotServed
	}
	return unasked(ctx, socketOf(c), err)
}

// Stream asks a served site for something long, and copies it to w as it comes. An
// answer that breaks off is an error; one of w is given as it is.
func Stream(ctx context.Context, c *Config, what string, w io.Writer) error {
	resp, _, err := request(ctx, c, http.MethodGet, what, nil)
	switch {
	case nobodyAt(err):
		return ErrNotServed
	case err != nil:
		return unasked(ctx, socketOf(c), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	out := &Output{To: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if lost := out.Lost(); lost != nil {
			return lost
		}
		if ctx.Err() != nil {
			return unasked(ctx, socketOf(c), err)
		}
		return fmt.Errorf("the answer of the served site broke off: %w; it waits for who reads slowly only as long as it has room, so ask again, or for less", err)
	}
	return nil
}

func socketOf(c *Config) string { return filepath.Join(filepath.Dir(c.Origin.File), SocketName) }

// request sends one request over a connection of its own. sent says that the site has
// got all of it.
func request(ctx context.Context, c *Config, method, what string, body []byte) (resp *http.Response, sent bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) { sent = w.Err == nil }})
	req, err := http.NewRequestWithContext(ctx, method, "http://site"+what, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: dialer(c), DisableKeepAlives: true, DisableCompression: true}}
	resp, err = client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return resp, sent, err
}

// dialer connects to the admin socket of a site, whatever the address.
func dialer(c *Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		short, done, err := shortPath(socketOf(c))
		if err != nil {
			return nil, err
		}
		defer done()
		conn, err := (&net.Dialer{Timeout: askTimeout}).DialContext(ctx, "unix", short)
		if err != nil {
			return nil, err
		}
		return &byParts{conn}, nil
	}
}

// byParts waits for each part of an answer as long as for a whole one that is short.
type byParts struct{ net.Conn }

func (p *byParts) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// decode reads the JSON of an answer.
func decode(resp *http.Response, answer any) error {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return &unreadableError{err}
	}
	return nil
}

// unreadableError is an answer that is not the JSON that was expected.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the served site answers what cannot be read: %v", e.err)
}

// refusedError is an answer with another status than 200.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// refusalOf is the error of an answer with another status than 200. What the site
// refuses, 422, is said in its words alone.
func refusalOf(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	text := display.Printable(strings.TrimSpace(string(body)))
	if resp.StatusCode == http.StatusUnprocessableEntity {
		return &refusedError{text}
	}
	return &refusedError{fmt.Sprintf("the served site answers %d: %.500s", resp.StatusCode, text)}
}

// nobodyAt tells whether an error of the socket says that no server is there. One
// that was killed may leave connections behind, which are then reset; that none is
// there the lock of the store proves.
func nobodyAt(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
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
