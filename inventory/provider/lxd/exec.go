package lxd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"patchbay/inventory/node/inside"
)

// Limits of the output of the program in a node, in bytes.
const (
	maxMessageSize = 1 << 20
	maxErrors      = 4 << 10
)

// errLate means that a node took too long.
var errLate = errors.New("the node does not answer in time")

// commandError is the failure of the program in a node.
type commandError string

func (e commandError) Error() string { return string(e) }

// command is a call of the program in a running node.
type command struct {
	words []string
	input io.Reader
	// isOpen keeps the input open until the end.
	isOpen bool
	// limit bounds the time; 0 is no limit.
	limit time.Duration
	// output reads the output. If it returns early, the program is killed.
	output func(io.Reader) error
}

// exec runs a command. Users of the node are root there and may have replaced the program, so time and
// output are limited. The server kills the program when the connections end.
func (c *client) exec(ctx context.Context, name string, cmd command) error {
	if cmd.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cmd.limit, fmt.Errorf("%w: it has not ended %s after %s", errLate, cmd.words[0], cmd.limit))
		defer cancel()
	}
	err := c.runCommand(ctx, name, cmd)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errLate) {
		return cause
	}
	return err
}

// startCommand starts the program in a node with the words. It returns the operation, and the streams of the program by
// the number of its descriptor. The caller must close the streams, also after an error.
func (c *client) startCommand(ctx context.Context, name string, words []string) (a answer, streams map[string]*websocket.Conn, err error) {
	a, err = c.send(ctx, request{method: http.MethodPost, path: "instances/" + name + "/exec", body: map[string]any{
		"command": append([]string{inside.Program, inside.Verb}, words...), "wait-for-websocket": true, "interactive": false,
		"environment": map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
	}})
	if err != nil {
		return a, nil, err
	}
	var started struct {
		Metadata struct {
			FDs map[string]string `json:"fds"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(a.Metadata, &started); err != nil {
		return a, nil, err
	}
	streams = map[string]*websocket.Conn{}
	for _, fd := range []string{"control", "0", "1", "2"} {
		s, err := c.stream(ctx, a.Operation, started.Metadata.FDs[fd])
		if err != nil {
			return a, streams, fmt.Errorf("the server does not connect to the node: %w", err)
		}
		streams[fd] = s
	}
	return a, streams, nil
}

// runCommand is exec without the limit of time.
func (c *client) runCommand(ctx context.Context, name string, cmd command) error {
	a, streams, err := c.startCommand(ctx, name, cmd.words)
	defer func() {
		for _, s := range streams {
			_ = s.CloseNow()
		}
	}()
	if err != nil {
		return err
	}
	if cmd.input != nil {
		w := &messageWriter{ctx, streams["0"]}
		if _, err := io.CopyBuffer(w, struct{ io.Reader }{cmd.input}, make([]byte, 64<<10)); err != nil {
			return err
		}
	}
	if !cmd.isOpen { // an empty text is the end
		if err := streams["0"].Write(ctx, websocket.MessageText, nil); err != nil {
			return err
		}
	}
	failure := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(&reader{ctx: ctx, conn: streams["2"]}, maxErrors))
		failure <- text
	}()
	output := &reader{ctx: ctx, conn: streams["1"]}
	if err := cmd.output(output); err != nil || !output.ended {
		return err
	}
	text := <-failure
	if a, err = c.wait(ctx, a); err != nil {
		return err
	}
	var result struct {
		Return int `json:"return"`
	}
	if err := json.Unmarshal(a.Metadata, &result); err != nil {
		return err
	}
	if result.Return != 0 {
		return commandError(fmt.Sprintf("%s in the node ended with status %d: %s", cmd.words[0], result.Return, oneLine(strings.TrimSpace(string(text)))))
	}
	return nil
}

// stream connects to a stream of an operation.
func (c *client) stream(ctx context.Context, operation, secret string) (*websocket.Conn, error) {
	path, _, _ := strings.Cut(operation, "?")
	conn, _, err := websocket.Dial(ctx, c.base+path+"/websocket?"+url.Values{"secret": {secret}, "project": {c.project}}.Encode(), &websocket.DialOptions{HTTPClient: &c.http})
	if err == nil {
		conn.SetReadLimit(maxMessageSize)
	}
	return conn, err
}

// messageWriter writes a stream.
type messageWriter struct {
	ctx  context.Context
	conn *websocket.Conn
}

func (w *messageWriter) Write(p []byte) (int, error) {
	if err := w.conn.Write(w.ctx, websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// reader reads a stream until its end, which is a text instead of binary data.
type reader struct {
	ctx   context.Context
	conn  *websocket.Conn
	left  []byte
	ended bool
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		kind, data, err := r.conn.Read(r.ctx)
		switch {
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure || err == nil && kind == websocket.MessageText:
			r.ended = true
		case err != nil:
			return 0, err
		}
		r.left = data
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// decode returns the function that reads an output of JSON into v.
func decode(v any) func(io.Reader) error {
	return func(r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, maxMessageSize))
		if len(bytes.TrimSpace(text)) == 0 || err != nil {
			return err // the status says why
		}
		if err := json.Unmarshal(text, v); err != nil {
			return fmt.Errorf("the node's report cannot be read: %w", err)
		}
		return nil
	}
}
